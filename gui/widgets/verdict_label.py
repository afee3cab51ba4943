"""The sentence of a result in large type."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QFontMetricsF, QResizeEvent
from PySide6.QtWidgets import QLabel, QWidget

from engine.compare.sides import Side
from engine.compare.verdict import Piece, Pieces, join_pieces
from gui.theme.fonts import font
from gui.theme.theme import theme

Sizes = tuple[tuple[int, int], ...]
"""Pixel sizes of the facts and of the asides, largest first."""
LARGE: Sizes = ((36, 20), (33, 19), (30, 18), (27, 17), (24, 16))
_HINT_SIZE = 20
_BELOW = 3


class VerdictLabel(QLabel):
    """A label for a result in large text, in the largest font size at which its lines fit.

    The lines are rich text, in pieces of different weight, size and color.
    """

    def __init__(self, sizes: Sizes = LARGE, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._sizes = sizes
        self._side: Side | None = None
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setWordWrap(True)
        # lines as high as their letters cut off the last one's descenders
        self.setContentsMargins(0, 0, 0, _BELOW)
        # the pieces set their own sizes; a larger one here would make their lines higher
        self.setProperty("role", "title")
        self._lines: tuple[Pieces, ...] = ()
        self._hint = ""
        theme().changed.connect(self._refresh)

    def show_lines(self, lines: tuple[Pieces, ...], side: Side | None = None) -> None:
        """Show lines of pieces. Numbers in them have the color of `side`."""
        self._lines, self._hint, self._side = lines, "", side
        self.setAccessibleName(" ".join(map(join_pieces, lines)))
        self._refresh()

    def set_sizes(self, sizes: Sizes) -> None:
        """Set the text sizes, such as for a low window."""
        if sizes != self._sizes:
            self._sizes = sizes
            self._refresh()

    def show_hint(self, text: str) -> None:
        """Show a hint in a smaller size."""
        self._lines, self._hint = (), text
        self.setAccessibleName(text)
        self._refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._refresh()
            # a layout that is just being applied ignores that the height has changed
            QTimer.singleShot(0, self, self.updateGeometry)

    def _refresh(self) -> None:
        if self._hint:
            self._write(f"<span style='font-size:{_HINT_SIZE}px'>{escape(self._hint)}</span>")
            return
        fitting = (size for size in self._sizes if self._needed(size) <= self.width())
        size = next(fitting, self._sizes[-1])
        self._write(
            "<br>".join("".join(_markup(piece, size, self._side) for piece in line) for line in self._lines)
        )

    def _write(self, markup: str) -> None:
        text = f"<div style='line-height:100%'>{markup}</div>"
        if text != self.text():
            self.setText(text)

    def _needed(self, size: tuple[int, int]) -> float:
        return max((sum(_width(piece, size) for piece in line) for line in self._lines), default=0.0)


def _width(piece: Piece, size: tuple[int, int]) -> float:
    is_aside, is_joining = piece.role == "aside", piece.role == "plain"
    face = font(size[is_aside], 400 if is_aside else 500 if is_joining else 600, display=True)
    return QFontMetricsF(face).horizontalAdvance(piece.text)


def _markup(piece: Piece, size: tuple[int, int], about: Side | None) -> str:
    palette, text = theme().palette, escape(piece.text)
    if piece.role == "aside":
        # unbroken, so that no bracket stands alone
        text = text.replace(" ", "&nbsp;").replace("&nbsp;", " ", 1)
        return f"<span style='font-size:{size[1]}px;font-weight:400;color:{palette.text2}'>{text}</span>"
    style = f"font-size:{size[0]}px"
    is_figure = piece.role == "strong" and any(map(str.isdigit, piece.text))
    look = about.precision if is_figure and about is not None and piece.look is None else piece.look
    if look is not None:
        style += f";color:{palette.look(look).color}"
    elif piece.role == "plain":
        style += ";font-weight:500"
    return f"<span style='{style}'>{text}</span>"
