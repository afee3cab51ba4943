"""The side column of the workspace Compare: the baseline, the sides against it, settings and exports."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QComboBox, QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from engine.exports.side_looks import side_fills
from engine.records.comparison import Comparison
from engine.records.figures import SPEED
from engine.records.record import RunRecord
from engine.records.sides import Side
from gui.panels.compare_export import ExportBlock
from gui.panels.compare_others import OtherSides
from gui.panels.compare_settings import CompareSettings
from gui.panels.run_words import side_runs
from gui.theme import theme
from gui.tips import plain_tip
from gui.widgets import Button, ComboBox, Field, IconButton, divider, label, marker_pixmap

_LONGEST = 28
_SHORTEST_NAME = 6


class ComparisonColumn(QFrame):
    """`baseline_chosen` and `headline_chosen` say that a person chose another side, `show_wanted` that the
    headline's side is to be played against the baseline."""

    baseline_chosen = Signal()
    headline_chosen = Signal()
    show_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "side")
        self._comparison: Comparison | None = None
        self._own_baseline: str | None = None
        self._baseline = ComboBox()
        self._baseline.setToolTip("What the others are measured against")
        self._baseline.setAccessibleName("Baseline")
        self._baseline.setPlaceholderText("no run is ticked")
        self._baseline.setIconSize(QSize(12, 12))
        self._baseline.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self._baseline.activated.connect(self._take_baseline)
        self._swap = IconButton("swap", "Swap", "Measure the baseline against what the headline speaks of")
        self._swap.clicked.connect(self.swap)
        self.show_button = Button(" Show", "narrow", "Play both side by side, as a race (Ctrl+4)", "play")
        self.show_button.setAccessibleName("Show")
        self.show_button.clicked.connect(self.show_wanted)
        self.others = OtherSides()
        self.others.chosen.connect(self._take_headline)
        self.settings = CompareSettings()
        self.export = ExportBlock()
        self._lay_out()
        self.clear()
        theme().changed.connect(self._recolor)

    def show_comparison(self, comparison: Comparison) -> None:
        """Offers its sides; the headline that was chosen holds where it still can."""
        self._comparison = comparison
        self._fill_baseline(comparison)
        self.others.say_alone(True)
        others = [side for side in comparison.sides if side is not comparison.baseline]
        self.others.show_sides(others, side_fills(comparison.sides), _telling(comparison, others))
        for button in (self._swap, self.show_button):
            button.setEnabled(len(comparison.sides) > 1)
        self.export.set_runs(sum(len(side.runs) for side in comparison.sides))
        self._show_settings()

    def clear(self) -> None:
        """Offers nothing: no runs are ticked."""
        self._comparison = None
        self._baseline.clear()
        self._baseline.setEnabled(False)
        for button in (self._swap, self.show_button):
            button.setEnabled(False)
        self.others.say_alone(False)
        self.others.show_sides([], {}, None)
        self.settings.clear()
        self.export.set_runs(0)

    def own_baseline(self, runs: Sequence[RunRecord]) -> str | None:
        """The id of the baseline that a person chose, forgotten once it is not among `runs`; None for any."""
        if self._own_baseline not in [run.id for run in runs]:
            self._own_baseline = None
        return self._own_baseline

    def baseline(self) -> str | None:
        """The id of the side that is the baseline now."""
        return self._comparison.baseline.id if self._comparison is not None else None

    def headline(self) -> str | None:
        """The id of the side that the headline speaks of; None where there is only one."""
        return self.others.chosen_id()

    def set_baseline(self, run_id: str) -> None:
        """Chooses another baseline, as the box does."""
        self._own_baseline = run_id
        self.baseline_chosen.emit()

    def swap(self) -> None:
        """Makes a baseline of what the headline speaks of, and the other way round."""
        headline, baseline = self.headline(), self.baseline()
        if headline is not None and baseline is not None:
            self.others.choose(baseline)
            self.set_baseline(headline)

    def _lay_out(self) -> None:
        inner = QWidget()
        column = QVBoxLayout(inner)
        column.setContentsMargins(16, 16, 16, 16)
        column.setSpacing(0)
        head = QHBoxLayout()
        head.addWidget(label("Comparison", "title"))
        head.addStretch(1)
        head.addWidget(self.show_button)
        head.addSpacing(8)
        head.addWidget(self._swap)
        column.addLayout(head)
        column.addSpacing(8)
        column.addWidget(Field("Baseline", self._baseline))
        column.addWidget(self.others)
        column.addSpacing(16)
        column.addWidget(divider())
        column.addSpacing(8)
        column.addWidget(self.settings)
        column.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(inner)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 1, 0)
        outer.setSpacing(0)
        outer.addWidget(scroll, 1)
        outer.addWidget(self.export)

    def _recolor(self) -> None:
        if self._comparison is not None:
            for index, icon in enumerate(self._icons(self._comparison.sides)):
                self._baseline.setItemIcon(index, icon)

    def _fill_baseline(self, comparison: Comparison) -> None:
        self._baseline.clear()
        sides = comparison.sides
        for index, (side, icon) in enumerate(zip(sides, self._icons(sides), strict=True)):
            self._baseline.addItem(icon, _item_text(side), side.id)
            self._baseline.setItemData(index, plain_tip(", ".join(side.names)), Qt.ItemDataRole.ToolTipRole)
        self._baseline.setCurrentIndex(comparison.sides.index(comparison.baseline))
        self._baseline.setEnabled(True)

    def _icons(self, sides: Sequence[Side]) -> list[QIcon]:
        fills, ratio = side_fills(sides), self.devicePixelRatioF()
        return [QIcon(marker_pixmap(one.precision, 8, fills[one.id], ratio)) for one in sides]

    def _take_baseline(self, _index: int) -> None:
        self.set_baseline(self._baseline.currentData())

    def _take_headline(self) -> None:
        self._show_settings()
        self.headline_chosen.emit()

    def _show_settings(self) -> None:
        headline = self.headline()
        if self._comparison is None or headline is None:
            self.settings.clear()
            return
        self.settings.show_pair(self._comparison, self._comparison.report(headline).side)


def _telling(comparison: Comparison, others: Sequence[Side]) -> str | None:
    """The last side of which there is something to say; None where there is no other side at all."""
    timed = [one for one in others if comparison.cells(one.id)[SPEED.name].ratio is not None]
    return next((one.id for one in reversed(timed or list(others))), None)


def _item_text(side: Side) -> str:
    """A side and its runs, which go first where there is no room for both."""
    room = _LONGEST - len(side.title)
    return f"{side.title}   {_short(side_runs(side), room)}" if room >= _SHORTEST_NAME else side.title


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1].rstrip()}…"
