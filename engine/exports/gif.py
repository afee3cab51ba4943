"""An animated GIF, written frame by frame: only what changed is encoded, and only one frame is held.

Blocks are those of the GIF89a specification; each frame's pixels are encoded by Pillow.
"""

from __future__ import annotations

import io
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

MOST_COLORS = 255
"""One of the 256 stands for what stays as it was."""

_STAYS = 255
_TABLE_OF_256 = 0xF7
_KEEPS_AND_IS_TRANSPARENT = 0x05
_FOREVER = b"!\xff\x0bNETSCAPE2.0\x03\x01\0\0\0"
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
        # what is left of the table repeats its first colour
        self._colors = Image.new("P", (1, 1))
        self._colors.putpalette(table + table[:3] * (256 - len(table) // 3))
        edges = b"".join(edge.to_bytes(2, "little") for edge in size)
        file.write(b"GIF89a" + edges + bytes([_TABLE_OF_256, 0, 0]))
        file.write(bytes(self._colors.getpalette("RGB") or ()) + _FOREVER)

    def add(self, image: Image.Image, duration_ms: int) -> None:
        """Shows an RGB image, in the nearest colours, for so long."""
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
        """Where the changed pixels begin, and they themselves; what stayed between them is transparent."""
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
    # a grey picture whose table is not made smaller keeps its numbers as they are
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
    """How long the colour table is that those flags tell of."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0
