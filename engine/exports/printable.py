"""Names as a page can show them."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text without what no page can show: control characters, lone surrogates, turns of direction.

    The last would write the rest of a sentence backwards where a name begins one and does not end it.
    """
    return "".join(one if _is_allowed(ord(one)) else "\N{REPLACEMENT CHARACTER}" for one in text)


def _is_allowed(code: int) -> bool:
    if code < 0x20:
        return code in (0x9, 0xA, 0xD)
    return not any(first <= code <= last for first, last in _NOT_SHOWN)


_NOT_SHOWN = (
    (0x7F, 0x9F),
    (0x202A, 0x202E),
    (0x2066, 0x2069),
    (0xD800, 0xDFFF),
    (0xFFFE, 0xFFFF),
)
