"""Small gray images of the training samples, or soft patterns, on a contact sheet in a single JPEG."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from engine.lazy_imports import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Images: TypeAlias = "NDArray[np.uint8]"
"""Gray images, (count, side, side)."""
_SIDE = 24
_LEAST_CORNERS, _KINDS = 2, 3
_SEED = 20_260_101
_DARKEST, _BRIGHTEST = 20, 245


@cache
def patterns(count: int, side: int = _SIDE) -> NDArray[np.uint8]:
    """Return distinct gray patterns (count, side, side), read-only and reproducible. Raises ValueError."""
    if count < 0 or side < 1:
        raise ValueError(f"there are no {count} patterns of {side} pixels")
    drawn = [_pattern(number, side) for number in range(count)]
    stacked = np.stack(drawn) if drawn else np.empty((0, side, side), np.uint8)
    stacked.flags.writeable = False
    return stacked


def _pattern(number: int, side: int) -> NDArray[np.uint8]:
    generator = np.random.default_rng((_SEED, number))
    corners = _LEAST_CORNERS + int(generator.integers(_KINDS))
    weights = _blending(corners, side)
    blended = weights @ generator.random((corners, corners)) @ weights.T
    low, high = blended.min(), blended.max()
    # stretched: a blend of many grays is dull
    stretched = (blended - low) / (high - low) if high > low else blended
    return (_DARKEST + stretched * (_BRIGHTEST - _DARKEST)).astype(np.uint8)


def _blending(corners: int, side: int) -> NDArray[np.float64]:
    # the weight of each corner in each pixel of a row, (side, corners)
    places = np.linspace(0, corners - 1, side)[:, None]
    near: NDArray[np.float64] = np.clip(1 - np.abs(places - np.arange(corners)), 0, 1)
    return np.asarray(near * near * (3 - 2 * near))


_MIDDLE = 0.45
_GAMMAS = (0.45, 1.4)


def brightened(tiles: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the tiles with one gamma for all that brightens dark ones, so that a lit block looks lit."""
    mean = float(tiles.mean()) / 255 if tiles.size else 0.0
    if not 0 < mean < 1:
        return tiles
    gamma = min(max(math.log(_MIDDLE) / math.log(mean), _GAMMAS[0]), _GAMMAS[1])
    table = (255 * (np.arange(256) / 255) ** gamma).round().astype(np.uint8)
    return np.asarray(table[tiles], np.uint8)


def shades(black: str, white: str) -> NDArray[np.uint8]:
    """Return a color map, shape (256, 3), from the color `black` to the color `white` ("#RRGGBB")."""
    low, high = (np.array(list(bytes.fromhex(color[1:])), float) for color in (black, white))
    share = np.linspace(0, 1, 256)[:, None]
    return np.asarray((low + share * (high - low)).round(), np.uint8)


MOST_TILES = 200
MOST_SIDE = 48  # in pixels, of one tile
MOST_BYTES = 512 * 1024  # the largest JPEG; 200 tiles of black and white noise take 356,000 bytes
_QUALITY = 88
_COLUMNS = 20
_BLOCK = 8
# of ITU-T T.81, the JPEG standard, Annex B
_START, _SCAN, _BASELINE_FRAME = b"\xff\xd8", 0xDA, 0xC0
_OWN_SEGMENTS = frozenset({0xE0, 0xDB, 0xC4, _BASELINE_FRAME, _SCAN})


@dataclass(frozen=True)
class ContactSheet:
    """A gray JPEG with `count` square images of `side` pixels, twenty in a row, aligned to JPEG blocks."""

    jpeg: bytes
    side: int
    count: int

    def tiles(self) -> NDArray[np.uint8]:
        """Return the gray tiles (count, side, side). Raises ValueError if the sheet is damaged or too large.

        Anything but a plain gray JPEG of exactly this size is refused before it is decoded.
        """
        from PIL import Image

        columns, rows, pitch = _layout(self.side, self.count)
        if len(self.jpeg) > MOST_BYTES or _gray_size(self.jpeg) != (columns * pitch, rows * pitch):
            raise ValueError("the sheet does not have the given size")
        try:
            with Image.open(io.BytesIO(self.jpeg), formats=("JPEG",)) as picture:
                sheet = np.asarray(picture, dtype=np.uint8)
        except (OSError, SyntaxError) as error:
            raise ValueError(f"the sheet is damaged: {error}") from None
        cells = sheet.reshape(rows, pitch, columns, pitch).swapaxes(1, 2).reshape(-1, pitch, pitch)
        return np.ascontiguousarray(cells[: self.count, : self.side, : self.side])

    def is_sound(self) -> bool:
        """Return True if its tiles can be read."""
        try:
            self.tiles()
        except ValueError:
            return False
        return True

    @property
    def key(self) -> str:
        """An id of the sheet's content, in 64 hexadecimal digits."""
        shape = f"{self.side} {self.count}\n".encode()
        return hashlib.sha256(shape + self.jpeg).hexdigest()


def sheet_of(tiles: NDArray[np.uint8]) -> ContactSheet:
    """Pack gray tiles (count, side, side) into one sheet. The same tiles give the same bytes.

    Raises ValueError for none, for more than `MOST_TILES`, and for tiles larger than `MOST_SIDE`.
    """
    from PIL import Image

    count, side = len(tiles), tiles.shape[-1]
    if tiles.shape != (count, side, side) or tiles.dtype != np.uint8:
        raise ValueError("tiles must be square, gray and of bytes")
    columns, rows, pitch = _layout(side, count)
    cells = np.zeros((columns * rows, pitch, pitch), np.uint8)
    # the rest of a block repeats the tile's edge: a step there would ring into the tile
    cells[:count] = np.pad(tiles, ((0, 0), (0, pitch - side), (0, pitch - side)), mode="edge")
    sheet = cells.reshape(rows, columns, pitch, pitch).swapaxes(1, 2).reshape(rows * pitch, columns * pitch)
    packed = io.BytesIO()
    Image.fromarray(sheet).save(packed, "JPEG", quality=_QUALITY, optimize=True)
    return ContactSheet(packed.getvalue(), side, count)


def _layout(side: int, count: int) -> tuple[int, int, int]:
    # columns, rows, and the pixels from one tile to the next
    if not (1 <= side <= MOST_SIDE and 1 <= count <= MOST_TILES):
        raise ValueError(f"{count} tiles of {side} pixels do not fit on a sheet")
    columns = min(count, _COLUMNS)
    return columns, -(-count // columns), -(-side // _BLOCK) * _BLOCK


def _gray_size(jpeg: bytes) -> tuple[int, int] | None:
    # None for anything but a plain one: progressive JPEGs can keep a decoder busy for minutes
    segments = list(_segments(jpeg))
    markers = [marker for marker, _ in segments]
    # given several frames, or one after the scan, a decoder would take another size than the one read here
    if not _OWN_SEGMENTS.issuperset(markers) or markers.count(_BASELINE_FRAME) != 1 or markers[-1] != _SCAN:
        return None
    frame = segments[markers.index(_BASELINE_FRAME)][1]
    is_gray = len(frame) == 9 and frame[0] == 8 and frame[5] == 1
    height, width = int.from_bytes(frame[1:3], "big"), int.from_bytes(frame[3:5], "big")
    return (width, height) if is_gray else None


def _segments(jpeg: bytes) -> Iterator[tuple[int, bytes]]:
    place = len(_START) if jpeg.startswith(_START) else len(jpeg)
    while place + 4 <= len(jpeg) and jpeg[place] == 0xFF:
        marker, length = jpeg[place + 1], int.from_bytes(jpeg[place + 2 : place + 4], "big")
        yield marker, jpeg[place + 4 : place + 2 + length]
        if marker == _SCAN or length < 2:
            return
        place += 2 + length
