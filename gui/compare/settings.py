"""The settings of two sides of a comparison, side by side: those that differ, or all."""

from __future__ import annotations

from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from engine.compare.comparison import Comparison, setting_rows
from engine.compare.sides import Side
from engine.drawing.looks import side_fills
from engine.experiment.titles import FACTS, setting_title
from gui.widgets import ElidedLabel, Marker, Segmented, label
from gui.widgets.boxes import Stretch, in_column, in_row
from gui.widgets.labels import plain_tip
from resources.looks import MarkFill

_ROW = 28
_HINT = "What differs between two runs is listed here."


class CompareSettings(QWidget):
    """The settings of the baseline and of the side in the headline."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown: tuple[Comparison, Side] | None = None
        self._which = Segmented(
            (("differences", "Differences"), ("all", "All")), "Settings", "Which settings to list"
        )
        self._which.changed.connect(lambda _key: self._refresh())
        self._grid = QGridLayout()
        self._grid.setSpacing(0)
        self._same = label("", "body")
        self._same.setWordWrap(True)
        head = in_row(label("Settings", "label"), Stretch(1), self._which)
        in_column(head, self._grid, self._same, parent=self, spacing=8)

    def show_pair(self, comparison: Comparison, side: Side) -> None:
        """Lists the settings of the baseline and of `side`."""
        self._shown = (comparison, side)
        self._refresh()

    def clear(self) -> None:
        """Shows a hint and no settings."""
        self._shown = None
        self._refresh()

    def texts(self) -> list[list[str]]:
        """The rows' texts: title, then both values."""
        cells = (
            [self._grid.itemAtPosition(row, column) for column in range(3)]
            for row in range(1, self._grid.rowCount())
        )
        widgets = [[cell.widget() for cell in row if cell is not None] for row in cells]
        return [[widget.accessibleName() for widget in row if widget is not None] for row in widgets if row]

    def _refresh(self) -> None:
        _clear(self._grid)
        if self._shown is None:
            self._same.setText(_HINT)
            self._same.show()
            return
        comparison, side = self._shown
        pair, fills = (comparison.baseline, side), side_fills(comparison.sides)
        rows = setting_rows(pair)
        differing = [row for row in rows if row.differs]
        is_one_precision = pair[0].precision is pair[1].precision
        for column, member in enumerate(pair, start=1):
            text = member.note if is_one_precision and member.note else member.label
            self._grid.addWidget(_heading(member, text, fills[member.id]), 0, column)
        shown = differing if self._which.value() == "differences" else rows
        for number, row in enumerate(shown, start=1):
            for column, text in enumerate((setting_title(row.key), *row.texts)):
                self._grid.addWidget(_cell(text, column), number, column)
        for column, stretch in enumerate((4, 3, 3)):
            self._grid.setColumnStretch(column, stretch)
        # the machine is listed with them, but is no setting: a report counts as many
        same = sum(not row.differs and row.key not in FACTS for row in rows)
        words = "setting is" if same == 1 else "settings are"
        self._same.setText(f"{same} other {words} identical")
        self._same.setVisible(self._which.value() == "differences")


def _heading(side: Side, text: str, fill: MarkFill) -> QWidget:
    holder = QWidget()
    holder.setFixedHeight(_ROW)
    row = in_row(Marker(side.precision, fill=fill, colour=side.colour), parent=holder, spacing=6)
    name = ElidedLabel(text, "value")
    name.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    row.addWidget(name, 1)
    return holder


def _cell(text: str, column: int) -> QLabel:
    result = ElidedLabel(text, "strong" if column == 2 else "body")
    result.setProperty("cell", "plain")
    result.setIndent(0)
    result.setFixedHeight(_ROW)
    result.setToolTip(plain_tip(text))
    result.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return result


def _clear(grid: QGridLayout) -> None:
    while grid.count():
        item = grid.takeAt(0)
        widget = item.widget() if item is not None else None
        if widget is not None:
            widget.hide()
            widget.deleteLater()
