"""Rows and columns of widgets, each laid out in one call, and the frames that they are laid out in."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLayout,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

_Box = TypeVar("_Box", bound=QBoxLayout)

Margins = int | tuple[int, int, int, int] | None
"""One margin for all sides, or left, top, right and bottom. None means the style's."""


class Stretch(NamedTuple):
    """Empty space between two items of a row or column that grows with it."""

    factor: int = 0


class Placed(NamedTuple):
    """An item of a row or column with a stretch factor, or aligned within its space."""

    part: QWidget | QLayout
    stretch: int = 0
    alignment: Qt.AlignmentFlag = Qt.AlignmentFlag(0)


Part = QWidget | QLayout | Placed | Stretch | int
"""A part of a row or column; a number is a gap of so many pixels."""


def wide(part: QWidget | QLayout) -> Placed:
    """Return an item for `in_row` or `in_column` that takes all the free space."""
    return Placed(part, 1)


def discard(layout: QLayout, *widgets: QWidget) -> None:
    """Take widgets out of their layout and out of sight, and delete them later: one may hold the focus."""
    for widget in widgets:
        layout.removeWidget(widget)
        widget.hide()
        widget.deleteLater()


def in_row(
    *parts: Part, parent: QWidget | None = None, margins: Margins = 0, spacing: int | None = None
) -> QHBoxLayout:
    """Lay out the parts side by side, in `parent` if given. By default the spacing is the style's."""
    return _filled(QHBoxLayout(), parent, parts, margins, spacing)


def in_column(
    *parts: Part, parent: QWidget | None = None, margins: Margins = 0, spacing: int | None = None
) -> QVBoxLayout:
    """Lay out the parts below one another, with the arguments of `in_row`."""
    return _filled(QVBoxLayout(), parent, parts, margins, spacing)


def _filled(
    box: _Box, parent: QWidget | None, parts: tuple[Part, ...], margins: Margins, spacing: int | None
) -> _Box:
    if parent is not None:
        parent.setLayout(box)
    _set_margins(box, margins)
    if spacing is not None:
        box.setSpacing(spacing)
    for part in parts:
        if isinstance(part, Stretch):
            box.addStretch(part.factor)
        elif isinstance(part, int):
            box.addSpacing(part)
        else:
            placed = part if isinstance(part, Placed) else Placed(part)
            if isinstance(placed.part, QLayout):
                box.addLayout(placed.part, placed.stretch)
            else:
                box.addWidget(placed.part, placed.stretch, placed.alignment)
    return box


def _set_margins(layout: QLayout, margins: Margins) -> None:
    if margins is not None:
        layout.setContentsMargins(*((margins,) * 4 if isinstance(margins, int) else margins))


def set_beside(parts: QBoxLayout, is_beside: bool) -> None:
    """Put the parts of a row or column beside each other, or one below the other."""
    parts.setDirection(QBoxLayout.Direction.LeftToRight if is_beside else QBoxLayout.Direction.TopToBottom)


def grid_of(
    parent: QWidget | None = None,
    *,
    margins: Margins = 0,
    spacing: tuple[int, int],
    grows: tuple[int, ...] = (),
) -> QGridLayout:
    """Return an empty grid with `spacing` across and down. The columns in `grows` share the free room."""
    grid = QGridLayout() if parent is None else QGridLayout(parent)
    _set_margins(grid, margins)
    grid.setHorizontalSpacing(spacing[0])
    grid.setVerticalSpacing(spacing[1])
    for column in grows:
        grid.setColumnStretch(column, 1)
    return grid


def scrolled(name: str, page: QWidget | None = None) -> QScrollArea:
    """Return a scroll area for a page, without a horizontal bar. `name` is for screen readers."""
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setAccessibleName(name)
    if page is not None:
        area.setWidget(page)
    return area


def scrolled_in(widget: QWidget) -> QScrollArea | None:
    """Return the scroll area that contains a widget, if any."""
    above = widget.parentWidget()
    while above is not None and not isinstance(above, QScrollArea):
        above = above.parentWidget()
    return above


class Surface(QFrame):
    """A frame with a background from the style sheet, selected by `kind`, such as "page" or "panel".

    `name` is its name for screen readers.
    """

    def __init__(self, kind: str, name: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", kind)
        if name:
            self.setAccessibleName(name)
