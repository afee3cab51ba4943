"""An animated WebP, written frame by frame: only what changed is encoded, and only one frame is held.

Chunks are those of the WebP Container Specification; each frame's pixels are encoded by Pillow, losslessly.
"""

from __future__ import annotations

import io
from typing import BinaryIO

from PIL import Image, ImageChops

_ALPHA, _ANIMATION = 0x10, 0x02
_FOREVER = 0
_LONGEST_MS = (1 << 24) - 1
_SEEN = [0] + [255] * 255
"""What was not zero, wholly opaque."""


class WebpWriter:
    """Writes frames of one size to an empty file that can be sought; `close` completes it."""

    def __init__(self, file: BinaryIO, size: tuple[int, int]) -> None:
        self._file, self._size = file, size
        self._before: Image.Image | None = None
        file.write(b"RIFF\0\0\0\0WEBP")
        edges = b"".join((edge - 1).to_bytes(3, "little") for edge in size)
        self._chunk(b"VP8X", bytes([_ALPHA | _ANIMATION, 0, 0, 0]) + edges)
        self._chunk(b"ANIM", bytes(4) + _FOREVER.to_bytes(2, "little"))

    def add(self, image: Image.Image, duration_ms: int) -> None:
        """Shows an RGB image for so long."""
        x, y, changed = self._changed(image)
        packed = io.BytesIO()
        # the highest effort takes ten times as long for a tenth less
        changed.save(packed, "WEBP", lossless=True, quality=20, method=1)
        width, height = changed.size
        places = (x // 2, y // 2, width - 1, height - 1, min(duration_ms, _LONGEST_MS))
        head = b"".join(place.to_bytes(3, "little") for place in places) + b"\0"
        self._chunk(b"ANMF", head + _pixels(packed.getvalue()))
        self._before = image.copy()

    def close(self) -> None:
        """Writes how long the whole is; the file itself stays open."""
        end = self._file.tell()
        self._file.seek(4)
        self._file.write((end - 8).to_bytes(4, "little"))
        self._file.seek(end)

    def _changed(self, image: Image.Image) -> tuple[int, int, Image.Image]:
        """Where the changed pixels begin, and they themselves; what stayed between them is transparent."""
        if self._before is None:
            return 0, 0, image
        difference = ImageChops.difference(image, self._before)
        edges = difference.getbbox()
        if edges is None:
            return 0, 0, Image.new("RGBA", (1, 1))
        # places are counted in twos
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
