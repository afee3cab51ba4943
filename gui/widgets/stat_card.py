"""Numbers in large type: a card with one value per run, and an answer in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFont, QFontMetrics, QFontMetricsF, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from engine.compare.sides import Side
from engine.compare.verdict import Piece, Pieces, join_pieces
from engine.experiment.experiment import Precision
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets.boxes import Stretch, Surface, grid_of, in_column, in_row
from gui.widgets.labels import ElidedLabel, label, plain_tip, set_precision, set_property, set_text
from gui.widgets.markers import Marker

_ROW, _LOW_ROW = 26, 20
_NARROW = 170
_MOST_WIDTH = 280
_LARGE = font(18, 600, display=True)
_GAP, _MARKER = 6, 24
"""Pixels between the parts of a row, and of a marker with the gaps on both sides of the name."""


@dataclass(frozen=True)
class StatRow:
    """The line of one run in a `StatCard`: `value` in the precision's color, then `after` in small gray text.

    If `absent`, the value is missing ("not used", "–") and shown small and gray. If `hollow`, the precision's
    marker is an outline. `detail` is the tooltip.
    """

    precision: Precision
    name: str
    value: str
    after: str = ""
    absent: bool = False
    hollow: bool = False
    detail: str = ""


class _Row:
    def __init__(self, grid: QGridLayout, number: int, precision: Precision) -> None:
        self.marker = Marker(precision)
        self.name = ElidedLabel("", "legend")
        self.value = label("", "stat")
        self.after = label("", "absent")
        self.parts: tuple[QWidget, ...] = (self.marker, self.name, self.value, self.after)
        values = in_row(self.value, self.after, spacing=4)
        grid.addWidget(self.marker, number, 0)
        grid.addWidget(self.name, number, 1)
        grid.addLayout(values, number, 2, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)

    def show(self, row: StatRow) -> None:
        self.marker.set_precision(row.precision, row.hollow)
        self.name.set_whole_text(row.name)
        set_text(self.value, "" if row.absent else row.value)
        set_precision(self.value, row.precision)
        self.value.setVisible(not row.absent)
        after = row.value if row.absent else row.after
        set_text(self.after, after)
        self.after.setVisible(bool(after))
        for part in (self.value, self.after):
            part.setToolTip(plain_tip(row.detail))

    def width_at(self, large: QFont) -> int:
        """Return the width of value and `after` in pixels, the value in the `large` font."""
        value = QFontMetrics(large).horizontalAdvance(self.value.text())
        after = self.after.sizeHint().width() if self.after.text() else 0
        return value + after + (4 if value and after else 0)


class StatCard(Surface):
    """A box that shows one metric of up to four runs, at least 174 x 96 px."""

    def __init__(self, title: str, unit: str = "", tooltip: str = "", parent: QWidget | None = None) -> None:
        super().__init__("panel", parent=parent)
        self.setToolTip(tooltip)
        self.setMinimumWidth(144)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._title = label(title, "label")
        self._unit = label(unit, "unit")
        self._ratio = label("", "ratio")
        self._rows: list[_Row] = []
        self._compact = False
        self._head = in_row(self._title, self._unit, Stretch(1), self._ratio, spacing=6)
        # where the head has no room for all of it
        self._unit_below, self._ratio_below = label(unit, "unit"), label("", "ratio")
        self._below = QWidget()
        in_row(self._unit_below, Stretch(1), self._ratio_below, parent=self._below, spacing=6)
        self._grid = grid_of(margins=None, spacing=(_GAP, 0), grows=(1,))
        self._column = in_column(
            self._head, self._below, self._grid, Stretch(1), parent=self, margins=None, spacing=2
        )
        self._arrange()

    def set_compact(self, compact: bool) -> None:
        """Tighten the card for a low window."""
        if compact != self._compact:
            self._compact = compact
            self._arrange()
            self.updateGeometry()

    def add_corner(self, widget: QWidget) -> None:
        """Put a control in the upper right corner."""
        self._head.addWidget(widget)

    def set_title(self, title: str, unit: str) -> None:
        set_text(self._title, title)
        for shown in (self._unit, self._unit_below):
            set_text(shown, unit)
        self._arrange()

    def set_ratio(self, text: str, tooltip: str = "", *, is_sound: bool = True) -> None:
        """Show the ratio of the second run to the first, such as "1.89×". It is pale unless `is_sound`."""
        for shown in (self._ratio, self._ratio_below):
            set_text(shown, text)
            set_property(shown, "role", "ratio" if is_sound else "note")
            shown.setToolTip(plain_tip(tooltip))
        self._arrange()

    def ratio(self) -> str:
        return self._ratio.text()

    def set_rows(self, rows: Sequence[StatRow]) -> None:
        for row in rows[len(self._rows) :]:
            self._rows.append(_Row(self._grid, len(self._rows), row.precision))
        for gone in self._rows[len(rows) :]:
            for part in gone.parts:
                part.setParent(None)
                part.deleteLater()
        for number in range(len(rows), len(self._rows)):
            self._grid.setRowMinimumHeight(number, 0)
        del self._rows[len(rows) :]
        for shown, row in zip(self._rows, rows, strict=True):
            shown.show(row)
        self._arrange()
        figures = "; ".join(f"{row.name} {row.value} {row.after}".strip() for row in rows)
        self.setAccessibleName(f"{self._title.text()} {self._unit.text()}: {figures}")

    def minimumSizeHint(self) -> QSize:
        # a minimum height of the widget would take the place of its rows' own
        return super().minimumSizeHint().expandedTo(QSize(0, 72 if self._compact else 96))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        is_narrow = self.width() < _NARROW
        side, (above, below) = 8 if is_narrow else 11, (5, 4) if self._compact else (8, 7)
        # in a wide card the figures stay beside their names
        right = max(side, self.width() - _MOST_WIDTH)
        self._column.setContentsMargins(side, above, right, below)
        self._head.setSpacing(4 if is_narrow else 6)
        self._title.setFixedHeight(18 if self._compact else 24)
        room = self.width() - side - right
        self._arrange_head(room)
        names = max((row.name.sizeHint().width() for row in self._rows), default=0)
        values = max((row.width_at(_LARGE) for row in self._rows), default=0)
        # and the figures are smaller where they would cut a run's name short
        is_small = self._compact or is_narrow or _MARKER + names + values > room
        for number, row in enumerate(self._rows):
            self._grid.setRowMinimumHeight(number, _LOW_ROW if self._compact else _ROW)
            set_property(row.value, "role", "statSmall" if is_small else "stat")

    def _arrange_head(self, room: int) -> None:
        items = (self._head.itemAt(place) for place in range(self._head.count()))
        parts = [part for item in items if item is not None and (part := item.widget()) is not None]

        def fits(*left_out: QWidget) -> bool:
            shown = [
                part for part in parts if part not in left_out and (part in texts or not part.isHidden())
            ]
            spacing = self._head.spacing() * (len(shown) - 1)
            return sum(part.sizeHint().width() for part in shown) + spacing <= room

        texts = [shown for shown in (self._unit, self._ratio) if shown.text()]
        has_all, has_unit = fits(), fits(self._ratio)
        for shown, below, is_above in (
            (self._unit, self._unit_below, has_unit),
            (self._ratio, self._ratio_below, has_all),
        ):
            shown.setVisible(bool(shown.text()) and is_above)
            below.setVisible(bool(shown.text()) and not is_above)
        self._below.setVisible(not has_all and bool(texts))

    def texts(self) -> tuple[str, ...]:
        """Return the rows' text, for tests."""
        return tuple(
            f"{row.name.whole_text()} {row.value.text()}{row.after.text()}".strip() for row in self._rows
        )


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
