"""The large lines of the headline, as large as they fit."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetricsF, QResizeEvent
from PySide6.QtWidgets import QLabel, QWidget

from engine.records.verdict import Piece, Pieces, plain
from gui.fonts import font
from gui.theme import theme

_SIZES = ((36, 20), (33, 19), (30, 18), (27, 17), (24, 16))
"""Pixels of the facts and of the asides, largest first."""
_HINT_SIZE = 22
_BELOW = 3


class VerdictLabel(QLabel):
    """Rich text whose pieces differ in weight, size and colour; the last size wraps where nothing fits."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setWordWrap(True)
        # lines as high as their letters leave none of it below the last one's descenders
        self.setContentsMargins(0, 0, 0, _BELOW)
        # the sizes of the pieces are their own; a larger one here would make their lines higher
        self.setProperty("role", "title")
        self._lines: tuple[Pieces, ...] = ()
        self._hint = ""
        theme().changed.connect(self._refresh)

    def show_lines(self, lines: tuple[Pieces, ...]) -> None:
        """Says these, a line each."""
        self._lines, self._hint = lines, ""
        self.setAccessibleName(" ".join(map(plain, lines)))
        self._refresh()

    def show_hint(self, text: str) -> None:
        """Says one sentence in a size that is no answer's."""
        self._lines, self._hint = (), text
        self.setAccessibleName(text)
        self._refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._refresh()

    def _refresh(self) -> None:
        if self._hint:
            self._write(f"<span style='font-size:{_HINT_SIZE}px'>{escape(self._hint)}</span>")
            return
        fitting = (size for size in _SIZES if self._needed(size) <= self.width())
        size = next(fitting, _SIZES[-1])
        self._write("<br>".join("".join(_markup(piece, size) for piece in line) for line in self._lines))

    def _write(self, markup: str) -> None:
        text = f"<div style='line-height:100%'>{markup}</div>"
        if text != self.text():
            self.setText(text)

    def _needed(self, size: tuple[int, int]) -> float:
        return max((sum(_width(piece, size) for piece in line) for line in self._lines), default=0.0)


def _shown(piece: Piece) -> str:
    return piece.text.replace(" %", "\N{NO-BREAK SPACE}%")


def _width(piece: Piece, size: tuple[int, int]) -> float:
    is_aside, is_joining = piece.role == "aside", piece.role == "plain"
    face = font(size[is_aside], 400 if is_aside else 500 if is_joining else 600, display=True)
    return QFontMetricsF(face).horizontalAdvance(_shown(piece))


def _markup(piece: Piece, size: tuple[int, int]) -> str:
    palette, text = theme().palette, escape(_shown(piece))
    if piece.role == "aside":
        # whole on one line, so that no bracket stands alone
        text = text.replace(" ", "&nbsp;").replace("&nbsp;", " ", 1)
        return f"<span style='font-size:{size[1]}px;font-weight:400;color:{palette.text2}'>{text}</span>"
    style = f"font-size:{size[0]}px"
    if piece.side is not None:
        style += f";color:{palette.look(piece.side.precision).color}"
    elif piece.role == "plain":
        style += ";font-weight:500"
    return f"<span style='{style}'>{text}</span>"
