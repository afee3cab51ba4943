"""The sides that stand against the baseline, and which of them the headline speaks of."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QRadioButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from engine.records.sides import Side
from gui.panels.run_words import side_runs
from gui.widgets import ElidedLabel, Marker, label


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
        self._hint = label("Tick two runs or more in the table below, or drag them here.", "hint")
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

    def show_sides(self, sides: Sequence[Side]) -> None:
        """Offers these; what was chosen holds while it is among them, else the last one is."""
        ids = [side.id for side in sides]
        self._chosen = self._chosen if self._chosen in ids else (ids[-1] if ids else None)
        for row in self._rows:
            row.hide()
            row.deleteLater()
        self._rows = [self._row(side) for side in sides]
        for row in self._rows:
            self._list.addWidget(row)
        self._hint.setVisible(not sides)

    def chosen_id(self) -> str | None:
        """The id of the side that is chosen; None where there is none."""
        return self._chosen

    def choose(self, side_id: str) -> None:
        """Chooses a side for when it is shown next."""
        self._chosen = side_id

    def _row(self, side: Side) -> QWidget:
        row = QFrame()
        row.setProperty("surface", "field")
        row.setFixedHeight(32)
        row.setToolTip(f"{side.title}: {', '.join(side.names)}")
        radio = QRadioButton()
        radio.setAccessibleName(f"Headline: {side.title}, {', '.join(side.names)}")
        radio.setToolTip("Let the headline speak of this side")
        radio.setChecked(side.id == self._chosen)
        radio.clicked.connect(lambda: self._choose(side.id))
        self._radios.addButton(radio)
        title, runs = ElidedLabel(side.title, "body"), ElidedLabel(side_runs(side), "unit")
        runs.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        layout = QHBoxLayout(row)
        layout.setContentsMargins(11, 0, 8, 0)
        layout.setSpacing(8)
        layout.addWidget(Marker(side.precision))
        runs.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        layout.addWidget(title)
        layout.addWidget(runs, 1)
        layout.addWidget(radio)
        return row

    def _choose(self, side_id: str) -> None:
        self._chosen = side_id
        self.chosen.emit()
