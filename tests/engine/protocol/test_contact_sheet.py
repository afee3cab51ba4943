"""Tiles come out of one JPEG as they went in, anything else is refused; patterns and shades."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest
from PIL import Image

from engine.protocol.pictures import (
    MOST_BYTES,
    MOST_SIDE,
    MOST_TILES,
    ContactSheet,
    brightened,
    patterns,
    shades,
    sheet_of,
)


def jpeg_of(mode: str, size: tuple[int, int], **options: object) -> bytes:
    packed = io.BytesIO()
    Image.new(mode, size, 127).save(packed, "JPEG", **options)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("count", "side"), [(1, 1), (1, 48), (19, 28), (20, 24), (21, 7), (200, 28), (200, 48)]
)
def test_tiles_come_out_as_they_went_in(count: int, side: int) -> None:
    tiles = patterns(count, side)
    sheet = sheet_of(tiles)
    found = sheet.tiles()
    assert found.shape == (count, side, side) and found.dtype == np.uint8
    assert np.abs(found.astype(int) - tiles).mean() < 4


def test_no_tile_shines_through_into_its_neighbour() -> None:
    tiles = np.zeros((40, 28, 28), np.uint8)
    tiles[::2] = 255
    assert np.array_equal(sheet_of(tiles).tiles(), tiles)


def test_the_largest_sheet_is_within_its_bounds() -> None:
    noise = 255 * np.random.default_rng(0).integers(0, 2, (MOST_TILES, MOST_SIDE, MOST_SIDE), dtype=np.uint8)
    assert len(sheet_of(noise).jpeg) < 0.75 * MOST_BYTES


def test_the_same_tiles_are_the_same_sheet_and_others_another() -> None:
    sheet, again = sheet_of(patterns(30)), sheet_of(patterns(30))
    assert sheet == again and sheet.key == again.key
    keys = {sheet.key, sheet_of(patterns(29)).key, ContactSheet(sheet.jpeg, 23, 30).key}
    assert len(keys) == 3 and all(len(key) == 64 for key in keys)


@pytest.mark.parametrize(
    "tiles",
    [
        np.zeros((0, 8, 8), np.uint8),
        np.zeros((MOST_TILES + 1, 8, 8), np.uint8),
        np.zeros((1, MOST_SIDE + 1, MOST_SIDE + 1), np.uint8),
        np.zeros((2, 8, 9), np.uint8),
        np.zeros((8, 8), np.uint8),
        np.zeros((2, 8, 8), np.float32),
    ],
)
def test_tiles_that_no_sheet_may_have_are_refused(tiles: np.ndarray) -> None:
    with pytest.raises(ValueError):
        sheet_of(tiles)


@pytest.mark.parametrize(
    "jpeg",
    [
        b"",
        b"\xff",
        b"\xff\xd8" * 10,
        b"GIF89a" + bytes(100),
        jpeg_of("RGB", (32, 32)),
        jpeg_of("L", (32, 40)),
        jpeg_of("L", (32, 32), progressive=True),
        jpeg_of("L", (32, 32), comment=b"more"),
        jpeg_of("L", (32, 32), exif=b"Exif\0\0more"),
        jpeg_of("L", (32, 32)) + bytes(MOST_BYTES),
        jpeg_of("L", (32, 32))[:-60],
    ],
)
def test_bytes_that_are_no_sheet_are_refused(jpeg: bytes) -> None:
    sheet = ContactSheet(jpeg, 32, 1)
    with pytest.raises(ValueError):
        sheet.tiles()
    assert not sheet.is_sound() and ContactSheet(jpeg_of("L", (32, 32)), 32, 1).is_sound()


def test_a_picture_said_to_be_huge_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = sheet_of(patterns(1, 32))
    frame = sheet.jpeg.index(b"\xff\xc0")
    huge = sheet.jpeg[: frame + 5] + b"\xff\xff\xff\xff" + sheet.jpeg[frame + 9 :]
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("it was opened"))
    with pytest.raises(ValueError, match="does not have the given size"):
        ContactSheet(huge, 32, 1).tiles()
    with pytest.raises(ValueError, match="do not fit on a sheet"):
        ContactSheet(sheet.jpeg, 65_535, 65_535).tiles()


@pytest.mark.parametrize("size", [(32, 32), (65_535, 65_535)])
@pytest.mark.parametrize("between", [b"", b"junk"])
def test_a_sheet_that_tells_two_sizes_is_refused_before_it_is_decoded(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], between: bytes
) -> None:
    jpeg = sheet_of(patterns(1, 32)).jpeg
    begin = jpeg.index(b"\xff\xc0")
    end = begin + 2 + int.from_bytes(jpeg[begin + 2 : begin + 4], "big")
    edges = b"".join(edge.to_bytes(2, "big") for edge in size)
    second = jpeg[begin : begin + 5] + edges + jpeg[begin + 9 : end]
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("it was opened"))
    assert not ContactSheet(jpeg[:end] + between + second + jpeg[end:], 32, 1).is_sound()


def test_any_change_of_a_byte_gives_tiles_or_is_refused() -> None:
    sheet, draw = sheet_of(patterns(40, 24)), random.Random(3)
    for _ in range(300):
        data = bytearray(sheet.jpeg)
        # the head is where a byte does most
        data[draw.randrange(len(data) if draw.random() < 0.5 else 200)] = draw.randrange(256)
        if draw.random() < 0.2:
            del data[draw.randrange(len(data)) :]
        changed = ContactSheet(bytes(data), 24, 40)
        if changed.is_sound():
            assert changed.tiles().shape == (40, 24, 24)


def test_patterns_differ_and_are_always_the_same() -> None:
    many = patterns(200)
    assert many.shape == (200, 24, 24) and many.dtype == np.uint8
    assert len({each.tobytes() for each in many}) == 200
    assert np.array_equal(patterns(7), many[:7]) and patterns(0).shape == (0, 24, 24)
    assert many.max() > 200 and many.min() < 60 and patterns(3, 1).shape == (3, 1, 1)
    # soft: neighbouring pixels are alike
    assert np.abs(np.diff(many.astype(int), axis=2)).mean() < 20
    with pytest.raises(ValueError):
        patterns(-1)


def test_dark_pictures_are_brought_up_and_bright_ones_down() -> None:
    dark, bright = np.full((2, 8, 8), 20, np.uint8), np.full((2, 8, 8), 235, np.uint8)
    assert brightened(dark).mean() > 60
    assert 200 < brightened(bright).mean() < 235
    for same in (np.zeros((2, 8, 8), np.uint8), np.zeros((0, 8, 8), np.uint8)):
        assert np.array_equal(brightened(same), same)


def test_greys_go_evenly_from_one_colour_to_the_other() -> None:
    table = shades("#102030", "#F0A050")
    assert (table.shape, table.dtype) == ((256, 3), np.uint8)
    assert table[0].tolist() == [0x10, 0x20, 0x30] and table[255].tolist() == [0xF0, 0xA0, 0x50]
    assert table[127].tolist() == [128, 96, 64]
