"""The side column of the workspace Compare: the baseline, the sides against it, settings and exports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QIcon, QResizeEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QComboBox,
    QFrame,
    QRadioButton,
    QScrollArea,
    QWidget,
)

from engine.compare.comparison import Comparison
from engine.compare.figures import SPEED
from engine.compare.sides import Side
from engine.drawing.looks import side_fills
from engine.store.record import RunRecord
from gui.compare.exports import ExportBlock
from gui.compare.headline import Sign
from gui.compare.settings import CompareSettings
from gui.theme.theme import theme
from gui.train.details import side_runs
from gui.widgets import (
    Button,
    ComboBox,
    ElidedLabel,
    Field,
    IconButton,
    Marker,
    divider,
    label,
    marker_pixmap,
    set_text,
)
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.buttons import ExplainButton
from gui.widgets.labels import plain_tip
from resources.looks import MarkFill

_NONE = "Tick two or more runs in the table below, or drag them here."
_ALONE = "Tick one more run in the table below, or drag it here."
_GAP, _EDGES, _LEAST_NAME = 8, 39, 56
"""Pixels between the parts of a row, of its margins and marker, and of the shortest legible name."""


class OtherSides(QWidget):
    """`chosen` when the user chooses another side for the headline."""

    chosen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chosen: str | None = None
        self._radios = QButtonGroup(self)
        self._rows: list[QWidget] = []
        self._hint = label(_NONE, "hint")
        self._hint.setWordWrap(True)
        self._list = in_column(self._hint, spacing=8)
        head = in_row(label("Compared with", "label"), Stretch(1), label("headline", "note"))
        in_column(head, self._list, parent=self, spacing=4)

    def say_alone(self, is_alone: bool) -> None:
        """Sets whether there is a baseline already, and only other runs must be ticked."""
        set_text(self._hint, _ALONE if is_alone else _NONE)

    def show_sides(self, sides: Sequence[Side], fills: Mapping[str, MarkFill], otherwise: str | None) -> None:
        """Offers these sides; the choice holds while it is among them, else `otherwise` is chosen."""
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
        """The id of the chosen side; None if there is none."""
        return self._chosen

    def choose(self, side_id: str) -> None:
        """Chooses a side for the next `show_sides`."""
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
    """A side's marker, title, runs and radio button; the runs are left out where there is no room."""

    def __init__(self, side: Side, fill: MarkFill) -> None:
        super().__init__()
        names = ", ".join(side.names)
        self.setProperty("surface", "field")
        self.setFixedHeight(32)
        self.setToolTip(plain_tip(f"{side.title}: {names}"))
        self.radio = QRadioButton()
        self.radio.setAccessibleName(f"Headline: {side.title}, {names}")
        self.radio.setToolTip("Show this side in the headline")
        self._title = ElidedLabel(side.title, "figureName")
        self._runs = ElidedLabel(side_runs(side), "unit")
        self._signs = [Sign("bolt")] if side.is_named_fast else []
        in_row(
            Marker(side.precision, fill=fill, colour=side.colour),
            self._title,
            *self._signs,
            Stretch(1),
            self._runs,
            self.radio,
            parent=self,
            margins=(11, 0, 8, 0),
            spacing=_GAP,
        )

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        needed = self._runs.sizeHint().width()
        beside = sum(part.sizeHint().width() + _GAP for part in (self._title, self.radio, *self._signs))
        room = self.width() - _EDGES - beside
        self._runs.setVisible(room >= min(needed, _LEAST_NAME))
        self._runs.setFixedWidth(max(0, min(needed, room)))


_LONGEST = 28
_SHORTEST_NAME = 6


class ComparisonColumn(QFrame):
    """`baseline_chosen` and `headline_chosen` when the user chooses another side; `show_wanted` to play the
    headline's side against the baseline; `explain_wanted` carries a run of each side, the baseline's first.
    """

    baseline_chosen = Signal()
    headline_chosen = Signal()
    show_wanted = Signal()
    explain_wanted = Signal(object)  # tuple[str, ...]

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "side")
        self.why_not_explained: Callable[[Sequence[str]], str | None] = lambda _run_ids: None
        """Says why the time of runs cannot be explained; the window sets it."""
        self._comparison: Comparison | None = None
        self._own_baseline: str | None = None
        self._baseline = ComboBox()
        self._baseline.setToolTip("The side that the others are measured against")
        self._baseline.setAccessibleName("Baseline")
        self._baseline.setPlaceholderText("no run is ticked")
        self._baseline.setIconSize(QSize(12, 12))
        self._baseline.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self._baseline.activated.connect(self._take_baseline)
        self._swap = IconButton("swap", "Swap", "Swap the baseline and the side in the headline")
        self._swap.clicked.connect(self.swap)
        self.show_button = Button(" Show", "narrow", "Play both side by side, as a race (Ctrl+4)", "play")
        self.show_button.setAccessibleName("Show")
        self.show_button.clicked.connect(self.show_wanted)
        self.explain = ExplainButton("narrow")
        self.explain.clicked.connect(lambda: self.explain_wanted.emit(self.explainable()))
        self.others = OtherSides()
        self.others.chosen.connect(self._take_headline)
        self.settings = CompareSettings()
        self.export = ExportBlock()
        self._lay_out()
        self.clear()
        theme().changed.connect(self._recolor)

    def show_comparison(self, comparison: Comparison) -> None:
        """Offers the sides of a comparison; the chosen headline holds if it still can."""
        self._comparison = comparison
        self._fill_baseline(comparison)
        self.others.say_alone(True)
        others = [side for side in comparison.sides if side is not comparison.baseline]
        self.others.show_sides(others, side_fills(comparison.sides), _telling(comparison, others))
        for button in (self._swap, self.show_button):
            button.setEnabled(len(comparison.sides) > 1)
        self.export.set_runs(sum(len(side.runs) for side in comparison.sides))
        self.fit_explain()
        self._show_settings()

    def clear(self) -> None:
        """Offers nothing: no run is ticked."""
        self._comparison = None
        self._baseline.clear()
        self._baseline.setEnabled(False)
        for button in (self._swap, self.show_button):
            button.setEnabled(False)
        self.others.say_alone(False)
        self.others.show_sides([], {}, None)
        self.settings.clear()
        self.fit_explain()
        self.export.set_runs(0)

    def explainable(self) -> tuple[str, ...]:
        """The ids of a run of each side, the baseline's first."""
        if self._comparison is None:
            return ()
        baseline = self._comparison.baseline
        return (baseline.id, *(side.id for side in self._comparison.sides if side is not baseline))

    def fit_explain(self) -> None:
        """Enables the button that explains the time, where it can."""
        run_ids = self.explainable()
        self.explain.set_obstacle(self.why_not_explained(run_ids) if run_ids else _NONE)

    def own_baseline(self, runs: Sequence[RunRecord]) -> str | None:
        """The id of the user's baseline, forgotten once it is not among `runs`; None if there is none."""
        if self._own_baseline not in [run.id for run in runs]:
            self._own_baseline = None
        return self._own_baseline

    def baseline(self) -> str | None:
        """The id of the baseline's side."""
        return self._comparison.baseline.id if self._comparison is not None else None

    def headline(self) -> str | None:
        """The id of the side in the headline; None if there is only the baseline."""
        return self.others.chosen_id()

    def set_baseline(self, run_id: str) -> None:
        """Chooses another baseline, as the user can."""
        self._own_baseline = run_id
        self.baseline_chosen.emit()

    def swap(self) -> None:
        """Swaps the baseline and the side in the headline."""
        headline, baseline = self.headline(), self.baseline()
        if headline is not None and baseline is not None:
            self.others.choose(baseline)
            self.set_baseline(headline)

    def _lay_out(self) -> None:
        inner = QWidget()
        head = in_row(label("Comparison", "title"), Stretch(1), self.show_button, 8, self._swap)
        in_column(
            head,
            8,
            Field("Baseline", self._baseline),
            self.others,
            8,
            self.explain,
            16,
            divider(),
            8,
            self.settings,
            Stretch(1),
            parent=inner,
            margins=16,
            spacing=0,
        )
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(inner)
        in_column(wide(scroll), self.export, parent=self, margins=(0, 0, 1, 0), spacing=0)

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
        return [QIcon(marker_pixmap(side.precision, 8, fills[side.id], ratio)) for side in sides]

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
    """The last side with a speed ratio, else the last one; None if there are no others."""
    timed = [side for side in others if comparison.cells(side.id)[SPEED.name].ratio is not None]
    return next((side.id for side in reversed(timed or list(others))), None)


def _item_text(side: Side) -> str:
    """A side's title and its runs, which are left out where there is no room."""
    room = _LONGEST - len(side.title)
    return f"{side.title}   {_short(side_runs(side), room)}" if room >= _SHORTEST_NAME else side.title


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1].rstrip()}…"
