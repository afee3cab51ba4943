"""Tooltips of what others wrote: Qt would take it for markup. No Qt."""

from __future__ import annotations

import html

_WIDEST = 100


def plain_tip(text: str) -> str:
    """A tooltip that shows the text as it is, in lines that wrap."""
    is_plain = "<" not in text and max(map(len, text.split("\n"))) <= _WIDEST
    return text if is_plain else f'<p style="white-space: pre-wrap">{html.escape(text)}</p>'
