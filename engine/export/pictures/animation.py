"""A race as an animated picture: WebP, or GIF for programs without WebP.

Files are written frame by frame: only what changed is encoded, and only one frame is in memory. Blocks are as
in the GIF89a specification, chunks as in the WebP Container Specification; Pillow encodes the pixels, for
WebP losslessly. The ending of a path chooses between these and a still card, as PNG or SVG.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops

from engine.drawing.bitmap import Painter
from engine.drawing.looks import ThemeName
from engine.export.content import Content, Write
from engine.export.pictures.race import card_of, paint_card
from engine.export.report.report import report_of
from engine.race.card import Card
from engine.race.race import Moment
from resources.looks import DARK, LIGHT, Palette

MOST_COLORS = 255
"""The last of the 256 means "unchanged"."""

_STAYS = 255
_TABLE_OF_256 = 0xF7
_KEEPS_AND_IS_TRANSPARENT = 0x05
_GIF_FOREVER = b"!\xff\x0bNETSCAPE2.0\x03\x01\0\0\0"
_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, b";"
_HEAD_BYTES, _DESCRIPTOR_BYTES = 13, 10
_LONGEST = 0xFFFF
"""In hundredths of a second."""


class GifWriter:
    """Writes frames of one size, in the colours of a palette image, to a file; `close` completes it."""

    def __init__(self, file: BinaryIO, size: tuple[int, int], colors: Image.Image) -> None:
        self._file = file
        self._before: NDArray[np.uint8] | None = None
        table = bytes(colors.getpalette("RGB") or ())[: 3 * MOST_COLORS]
        # the rest of the table repeats its first colour
        self._colors = Image.new("P", (1, 1))
        self._colors.putpalette(table + table[:3] * (256 - len(table) // 3))
        edges = b"".join(edge.to_bytes(2, "little") for edge in size)
        file.write(b"GIF89a" + edges + bytes([_TABLE_OF_256, 0, 0]))
        file.write(bytes(self._colors.getpalette("RGB") or ()) + _GIF_FOREVER)

    def add(self, image: Image.Image, duration_ms: int) -> None:
        """Shows an RGB image in the nearest colours for that duration."""
        nearest = np.asarray(image.quantize(palette=self._colors, dither=Image.Dither.NONE), np.uint8)
        pixels = np.where(nearest == _STAYS, 0, nearest).astype(np.uint8)
        x, y, changed = self._changed(pixels)
        hundredths = min(round(duration_ms / 10), _LONGEST).to_bytes(2, "little")
        self._file.write(
            bytes([_EXTENSION, 0xF9, 4, _KEEPS_AND_IS_TRANSPARENT]) + hundredths + bytes([_STAYS, 0])
        )
        places = (x, y, changed.shape[1], changed.shape[0])
        self._file.write(bytes([_IMAGE]) + b"".join(place.to_bytes(2, "little") for place in places) + b"\0")
        self._file.write(_encoded(changed))
        self._before = pixels

    def close(self) -> None:
        """Writes the end; the file itself stays open."""
        self._file.write(_TRAILER)

    def _changed(self, pixels: NDArray[np.uint8]) -> tuple[int, int, NDArray[np.uint8]]:
        """The corner and pixels of the part that changed, transparent where it did not."""
        if self._before is None:
            return 0, 0, pixels
        is_new = pixels != self._before
        rows, columns = np.flatnonzero(is_new.any(axis=1)), np.flatnonzero(is_new.any(axis=0))
        if not len(rows):
            return 0, 0, np.full((1, 1), _STAYS, np.uint8)
        part = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
        return int(columns[0]), int(rows[0]), np.where(is_new[part], pixels[part], np.uint8(_STAYS))


def _encoded(pixels: NDArray[np.uint8]) -> bytes:
    """The data of an image, from its code size to the end of its blocks."""
    packed = io.BytesIO()
    # without optimization a grey picture keeps its pixel values
    Image.fromarray(pixels).save(packed, "GIF", interlace=0, optimize=False)
    gif = packed.getvalue()
    place = _HEAD_BYTES + _table_bytes(gif[10])
    while gif[place] == _EXTENSION:
        place += 2
        while gif[place]:
            place += gif[place] + 1
        place += 1
    place += _DESCRIPTOR_BYTES + _table_bytes(gif[place + 9])
    return gif[place : -len(_TRAILER)]


def _table_bytes(flags: int) -> int:
    """The length of the colour table that the flags announce."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


RACE_SUFFIXES = (".png", ".svg", ".webp", ".gif")


def race_writer(suffix: str, theme: ThemeName = "dark") -> Write:
    """The writer of races for one of `RACE_SUFFIXES`; it raises ProblemError if the runs have no race."""
    palette = DARK if theme == "dark" else LIGHT

    def write(content: Content, path: Path) -> None:
        # imported here, since exporting a table should not wait for the libraries that draw
        from engine.export.pictures import race

        writers = {
            ".png": race.write_card_png,
            ".svg": race.write_card_svg,
            ".webp": write_webp,
            ".gif": write_gif,
        }
        writers[suffix](content, path, palette=palette)

    return write


_ALPHA, _ANIMATION = 0x10, 0x02
_WEBP_FOREVER = 0
_LONGEST_MS = (1 << 24) - 1
_SEEN = [0] + [255] * 255
"""Makes every pixel opaque that is not zero."""


class WebpWriter:
    """Writes frames of one size to an empty seekable file; `close` completes it."""

    def __init__(self, file: BinaryIO, size: tuple[int, int]) -> None:
        self._file, self._size = file, size
        self._before: Image.Image | None = None
        file.write(b"RIFF\0\0\0\0WEBP")
        edges = b"".join((edge - 1).to_bytes(3, "little") for edge in size)
        self._chunk(b"VP8X", bytes([_ALPHA | _ANIMATION, 0, 0, 0]) + edges)
        self._chunk(b"ANIM", bytes(4) + _WEBP_FOREVER.to_bytes(2, "little"))

    def add(self, image: Image.Image, duration_ms: int) -> None:
        """Shows an RGB image for that duration."""
        x, y, changed = self._changed(image)
        packed = io.BytesIO()
        # the highest effort takes ten times as long and saves a tenth
        changed.save(packed, "WEBP", lossless=True, quality=20, method=1)
        width, height = changed.size
        places = (x // 2, y // 2, width - 1, height - 1, min(duration_ms, _LONGEST_MS))
        head = b"".join(place.to_bytes(3, "little") for place in places) + b"\0"
        self._chunk(b"ANMF", head + _pixels(packed.getvalue()))
        self._before = image.copy()

    def close(self) -> None:
        """Writes the total length; the file itself stays open."""
        end = self._file.tell()
        self._file.seek(4)
        self._file.write((end - 8).to_bytes(4, "little"))
        self._file.seek(end)

    def _changed(self, image: Image.Image) -> tuple[int, int, Image.Image]:
        """The corner and pixels of the part that changed, transparent where it did not."""
        if self._before is None:
            return 0, 0, image
        difference = ImageChops.difference(image, self._before)
        edges = difference.getbbox()
        if edges is None:
            return 0, 0, Image.new("RGBA", (1, 1))
        # WebP places frames at even pixels only
        left, top = edges[0] & ~1, edges[1] & ~1
        part = (left, top, *edges[2:])
        red, green, blue = difference.crop(part).split()
        mask = ImageChops.lighter(ImageChops.lighter(red, green), blue).point(_SEEN)
        changed = Image.new("RGBA", mask.size)
        changed.paste(image.crop(part), (0, 0), mask)
        changed.putalpha(mask)
        return left, top, changed

    def _chunk(self, name: bytes, data: bytes) -> None:
        self._file.write(name + len(data).to_bytes(4, "little") + data + b"\0" * (len(data) % 2))


def _pixels(webp: bytes) -> bytes:
    """The chunk of a still WebP that holds its pixels."""
    place = 12
    while webp[place : place + 4] not in (b"VP8L", b"VP8 "):
        size = int.from_bytes(webp[place + 4 : place + 8], "little")
        place += 8 + size + size % 2
    return webp[place:]


FRAME_MS = 70
"""The duration of a frame; GIF counts in hundredths of a second."""

FIRST_MS, LAST_MS = 900, 3_500
GIF_SCALE = 0.75


@dataclass(frozen=True, eq=False)
class Frame:
    """An image and its duration; requesting the next frame may paint over the image."""

    image: Image.Image
    duration_ms: int


def write_webp(content: Content, path: Path, *, palette: Palette = DARK) -> None:
    """Writes the race as animated WebP, 1,280 by 720, which loops. Raises ProblemError without a race."""
    card = card_of(content, report_of(content))
    with path.open("wb") as file:
        writer = WebpWriter(file, (round(card.sizes.width), round(card.height)))
        for frame in frames(card, palette, 1.0):
            writer.add(frame.image, frame.duration_ms)
        writer.close()


def write_gif(content: Content, path: Path, *, palette: Palette = DARK) -> None:
    """Writes the race as animated GIF, 960 by 540, which loops. Raises ProblemError without a race."""
    card = card_of(content, report_of(content))
    size = (round(card.sizes.width * GIF_SCALE), round(card.height * GIF_SCALE))
    with path.open("wb") as file:
        writer = GifWriter(file, size, _gif_colors(card, palette))
        for frame in frames(card, palette, GIF_SCALE):
            writer.add(frame.image, frame.duration_ms)
        writer.close()


def frames(card: Card, palette: Palette, scale: float) -> Iterator[Frame]:
    """The race at the pace at which it is shown; while nothing changes, one long frame.

    The first frame is the end of the race, since previews and printed pages show the first. It stays on its
    last frame for a while.
    """
    race = card.race
    end = race.at(race.seconds)
    yield Frame(paint_card(card, end, palette, scale).image, FIRST_MS)
    film = _Film(card, palette, scale)
    shown, waited = film.start(), FRAME_MS
    for moment in _moments(card):
        image = film.changed(moment)
        if image is None:
            waited += FRAME_MS
            continue
        yield Frame(shown, waited)
        shown, waited = image, FRAME_MS
    yield Frame(shown, waited - FRAME_MS + LAST_MS)


def _moments(card: Card) -> Iterator[Moment]:
    """The moments of the frames after the start; the last is the end."""
    race = card.race
    step = race.playback_rate * FRAME_MS / 1e3
    count = max(1, math.ceil(race.seconds / step))
    return (race.at(min(race.seconds, number * step)) for number in range(1, count + 1))


class _Film:
    """The card as it changes, painting only the blocks that have been lit since."""

    def __init__(self, card: Card, palette: Palette, scale: float) -> None:
        self._card = card
        still = card.still()
        self._ground = Painter.blank(still, card.ground, palette, scale)
        self._ground.paint(still)
        self._lit = (0, 0)
        for blocks in card.lanes:
            self._ground.paint_blocks(blocks)
        self._moving = card.moving(card.race.at(0.0))

    def start(self) -> Image.Image:
        return self._image()

    def changed(self, moment: Moment) -> Image.Image | None:
        """The card at a moment not before the last one; None if it looks the same."""
        moving, lanes = self._card.moving(moment), self._card.blocks(moment)
        lit = (lanes[0].lit, lanes[1].lit)
        if (lit, moving) == (self._lit, self._moving):
            return None
        for first, blocks in zip(self._lit, lanes, strict=True):
            self._ground.paint_blocks(blocks, first, blocks.lit)
        self._lit, self._moving = lit, moving
        return self._image()

    def _image(self) -> Image.Image:
        painter = self._ground.copy()
        painter.paint(self._moving)
        return painter.image


def _gif_colors(card: Card, palette: Palette) -> Image.Image:
    """The colours of all frames, taken from two that together show everything on the card."""
    race = card.race
    times = (race.seconds / 2, race.seconds)
    both = [paint_card(card, race.at(at), palette, GIF_SCALE).image for at in times]
    width, height = both[0].size
    sample = Image.new("RGB", (width, 2 * height))
    for place, image in enumerate(both):
        sample.paste(image, (0, place * height))
    return sample.quantize(MOST_COLORS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
