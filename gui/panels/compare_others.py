"""The sides that stand against the baseline, and which of them the headline speaks of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from engine.records.sides import Side
from gui.panels.compare_sign import Sign, is_named_fast
from gui.panels.run_words import side_runs
from gui.tips import plain_tip
from gui.widgets import ElidedLabel, Marker, label, set_text
from resources.looks import MarkFill

_NONE = "Tick two runs or more in the table below, or drag them here."
_ALONE = "Tick one more run in the table below, or drag it here."
_GAP, _EDGES, _LEAST_NAME = 8, 39, 56
"""Pixels between the parts of a row, of its margins and marker, and for a name that can still be read."""


class OtherSides(QWidget):
    """`chosen` says that a person chose another side for the headline."""

    chosen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chosen: str | None = None
        self._radios = QButtonGroup(self)
        self._rows: list[QWidget] = []
        self._list = QVBoxLayout()
        self._list.setSpacing(8)
        self._hint = label(_NONE, "hint")
        self._hint.setWordWrap(True)
        self._list.addWidget(self._hint)
        head = QHBoxLayout()
        head.addWidget(label("Compared with", "label"))
        head.addStretch(1)
        head.addWidget(label("headline", "note"))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addLayout(head)
        column.addLayout(self._list)

    def say_alone(self, is_alone: bool) -> None:
        """Whether there is a baseline already, to which others are to be ticked."""
        set_text(self._hint, _ALONE if is_alone else _NONE)

    def show_sides(self, sides: Sequence[Side], fills: Mapping[str, MarkFill], otherwise: str | None) -> None:
        """Offers these, with their marks filled as `fills` says.

        What was chosen holds while it is among them, else the one of the id `otherwise` is chosen.
        """
        ids = [side.id for side in sides]
        self._chosen = self._chosen if self._chosen in ids else otherwise
        for row in self._rows:
            row.hide()
            row.deleteLater()
        self._rows = [self._row(side, fills[side.id]) for side in sides]
        for row in self._rows:
            self._list.addWidget(row)
        self._hint.setVisible(not sides)

    def chosen_id(self) -> str | None:
        """The id of the side that is chosen; None where there is none."""
        return self._chosen

    def choose(self, side_id: str) -> None:
        """Chooses a side for when it is shown next."""
        self._chosen = side_id

    def _row(self, side: Side, fill: MarkFill) -> QWidget:
        row = _SideRow(side, fill)
        row.radio.setChecked(side.id == self._chosen)
        row.radio.clicked.connect(lambda: self._choose(side.id))
        self._radios.addButton(row.radio)
        return row

    def _choose(self, side_id: str) -> None:
        self._chosen = side_id
        self.chosen.emit()


class _SideRow(QFrame):
    """A side's mark, title and runs, which go first where there is no room for both, and its button."""

    def __init__(self, side: Side, fill: MarkFill) -> None:
        super().__init__()
        names = ", ".join(side.names)
        self.setProperty("surface", "field")
        self.setFixedHeight(32)
        self.setToolTip(plain_tip(f"{side.title}: {names}"))
        self.radio = QRadioButton()
        self.radio.setAccessibleName(f"Headline: {side.title}, {names}")
        self.radio.setToolTip("Let the headline speak of this side")
        self._title = ElidedLabel(side.title, "figureName")
        self._runs = ElidedLabel(side_runs(side), "unit")
        self._signs = [Sign("bolt")] if is_named_fast(side) else []
        layout = QHBoxLayout(self)
        layout.setContentsMargins(11, 0, 8, 0)
        layout.setSpacing(_GAP)
        for widget in (Marker(side.precision, fill=fill), self._title, *self._signs):
            layout.addWidget(widget)
        layout.addStretch(1)
        layout.addWidget(self._runs)
        layout.addWidget(self.radio)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        needed = self._runs.sizeHint().width()
        beside = sum(one.sizeHint().width() + _GAP for one in (self._title, self.radio, *self._signs))
        room = self.width() - _EDGES - beside
        self._runs.setVisible(room >= min(needed, _LEAST_NAME))
        self._runs.setFixedWidth(max(0, min(needed, room)))
