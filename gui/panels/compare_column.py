"""The side column of the workspace Compare: the baseline, the runs against it, the settings that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import (
    QButtonGroup,
    QComboBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QRadioButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from engine.experiment import Precision
from engine.parts import PLAIN
from engine.records.comparison import compare
from engine.records.record import RunRecord
from gui.panels.run_words import recipe_notes, recipe_words
from gui.panels.setting_names import setting_name
from gui.theme import theme
from gui.widgets import ElidedLabel, Field, Marker, Segmented, divider, label, marker_pixmap

_LONGEST_NAME = 24


@dataclass(frozen=True)
class Choice:
    """Which run is the baseline, and which one the headline speaks of; None where there are too few."""

    baseline: str | None
    headline: str | None


class ComparisonColumn(QFrame):
    """`changed` says that another baseline or headline was chosen."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "side")
        self._runs: tuple[RunRecord, ...] = ()
        self._headline: str | None = None
        self._own_baseline: str | None = None
        self._baseline = QComboBox()
        self._baseline.setToolTip("The run that the others are measured against")
        self._baseline.setAccessibleName("Baseline")
        self._baseline.setIconSize(QSize(12, 12))
        self._baseline.currentIndexChanged.connect(self._choose_baseline)
        self._others = QVBoxLayout()
        self._others.setSpacing(8)
        self._radios = QButtonGroup(self)
        self._which = Segmented(
            (("differences", "Differences"), ("all", "All")), "Settings", "Which settings to list"
        )
        self._which.changed.connect(lambda _key: self._show_settings())
        self._settings = QGridLayout()
        self._same = label("", "body")
        self._lay_out()
        theme().changed.connect(self._recolor)

    def set_runs(self, runs: Sequence[RunRecord]) -> None:
        """Offers these runs; what a person chose holds where it still can, else FP32 is the baseline."""
        chosen = self.choice()
        self._runs = tuple(runs)
        ids = [run.id for run in runs]
        if self._own_baseline not in ids:
            self._own_baseline = None
        baseline = self._own_baseline or _first_baseline(runs)
        self._fill_baseline(baseline)
        self._fill_others(chosen.headline)
        self._show_settings()

    def choice(self) -> Choice:
        """What is chosen now."""
        return Choice(self._baseline.currentData(), self._headline)

    def set_baseline(self, run_id: str) -> None:
        """Chooses another baseline, as the box does."""
        self._baseline.setCurrentIndex(self._baseline.findData(run_id))

    def _lay_out(self) -> None:
        inner = QWidget()
        column = QVBoxLayout(inner)
        column.setContentsMargins(16, 16, 16, 16)
        column.setSpacing(0)
        column.addWidget(label("Comparison", "title"))
        column.addSpacing(16)
        column.addWidget(Field("Baseline", self._baseline))
        head = QHBoxLayout()
        head.addWidget(label("Compared with", "label"))
        head.addStretch(1)
        head.addWidget(label("headline", "note"))
        column.addLayout(head)
        column.addSpacing(4)
        column.addLayout(self._others)
        column.addSpacing(16)
        column.addWidget(divider())
        column.addSpacing(8)
        head = QHBoxLayout()
        head.addWidget(label("Settings", "label"))
        head.addStretch(1)
        head.addWidget(self._which)
        column.addLayout(head)
        column.addSpacing(8)
        self._settings.setSpacing(0)
        column.addLayout(self._settings)
        column.addSpacing(8)
        column.addWidget(self._same)
        column.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(inner)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 1, 0)
        outer.addWidget(scroll)

    def _recolor(self) -> None:
        for index, run in enumerate(self._runs):
            self._baseline.setItemIcon(index, _icon(run, self.devicePixelRatioF()))

    def _fill_baseline(self, run_id: str | None) -> None:
        self._baseline.blockSignals(True)
        self._baseline.clear()
        for run in self._runs:
            name = f"{self._title(run)}   {_short(run.name)}"
            self._baseline.addItem(_icon(run, self.devicePixelRatioF()), name, run.id)
            self._baseline.setItemData(self._baseline.count() - 1, run.name, role=Qt.ItemDataRole.ToolTipRole)
        self._baseline.setCurrentIndex(self._baseline.findData(run_id))
        self._baseline.setEnabled(bool(self._runs))
        self._baseline.blockSignals(False)

    def _fill_others(self, headline: str | None) -> None:
        others = [run for run in self._runs if run.id != self._baseline.currentData()]
        ids = [run.id for run in others]
        self._headline = headline if headline in ids else (ids[-1] if ids else None)
        _clear(self._others)
        for run in others:
            self._others.addWidget(self._row(run))
        if not others:
            hint = label("Tick two runs or more in the table below.", "hint")
            hint.setWordWrap(True)
            self._others.addWidget(hint)

    def _title(self, run: RunRecord) -> str:
        """The run's precision, and its recipe where the recipes differ: "FP32, plain"."""
        recipe = recipe_notes(self._runs)[run.id]
        return run.experiment.precision.label + (f", {recipe.lower()}" if recipe else "")

    def _row(self, run: RunRecord) -> QWidget:
        row = QFrame()
        row.setProperty("surface", "field")
        row.setFixedHeight(32)
        radio = QRadioButton()
        radio.setAccessibleName(f"Headline: {self._title(run)}, {run.name}")
        radio.setToolTip("Let the headline speak of this run")
        radio.setChecked(run.id == self._headline)
        radio.clicked.connect(lambda: self._choose_headline(run.id))
        self._radios.addButton(radio)
        layout = QHBoxLayout(row)
        layout.setContentsMargins(11, 0, 8, 0)
        layout.setSpacing(8)
        layout.addWidget(Marker(run.experiment.precision))
        layout.addWidget(label(self._title(run), "body"))
        name = ElidedLabel(run.name, "unit")
        name.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        layout.addWidget(name, 1)
        layout.addWidget(radio)
        return row

    def _choose_baseline(self) -> None:
        self._own_baseline = self._baseline.currentData()
        self._fill_others(self._headline)
        self._show_settings()
        self.changed.emit()

    def _choose_headline(self, run_id: str) -> None:
        self._headline = run_id
        self._show_settings()
        self.changed.emit()

    def _show_settings(self) -> None:
        _clear(self._settings)
        chosen = self.choice()
        pair = [run for run in self._runs if run.id in (chosen.baseline, chosen.headline)]
        if chosen.baseline is None or len(pair) < 2:
            self._same.setText("")
            return
        pair.sort(key=lambda run: run.id != chosen.baseline)
        found = compare(pair, chosen.baseline)
        rows = found.settings if self._which.value() == "differences" else found.all_settings
        for column, run in enumerate(pair, start=1):
            self._settings.addWidget(_side(run.experiment.precision), 0, column)
        for number, row in enumerate(rows, start=1):
            shown = (_shown(row.key, value) for value in row.values)
            for column, cell in enumerate((setting_name(row.key), *shown)):
                self._settings.addWidget(_setting_label(cell, column), number, column)
        for column, stretch in enumerate((4, 3, 3)):
            self._settings.setColumnStretch(column, stretch)
        words = "setting is" if found.same_settings == 1 else "settings are"
        self._same.setText(f"{found.same_settings} other {words} identical")
        self._same.setVisible(self._which.value() == "differences")


def _icon(run: RunRecord, ratio: float) -> QIcon:
    return QIcon(marker_pixmap(run.experiment.precision, 8, ratio=ratio))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1].rstrip()}…"


def _first_baseline(runs: Sequence[RunRecord]) -> str | None:
    """The first strict FP32 run, of the plain recipe if there is one; else the first of all."""
    full = [run for run in runs if run.experiment.precision is Precision.FP32]
    plain = [run for run in full if run.experiment.step.recipe == PLAIN]
    return next((run.id for run in (*plain, *full, *runs)), None)


def _side(precision: Precision) -> QWidget:
    holder = QWidget()
    holder.setFixedHeight(28)
    row = QHBoxLayout(holder)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(6)
    row.addWidget(Marker(precision))
    row.addWidget(label(precision.label, "value"))
    row.addStretch(1)
    return holder


def _setting_label(text: str, column: int) -> QLabel:
    result = ElidedLabel(text, "strong" if column == 2 else "body")
    result.setProperty("cell", "plain")
    result.setIndent(0)
    result.setFixedHeight(28)
    result.setToolTip(text)
    result.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return result


def _shown(key: str, value: Any) -> str:
    if value is None:
        return "–"
    if key == "precision":
        return Precision(value).label
    if key == "step.recipe":
        return recipe_words(str(value))
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "–"
    return f"{value:,g}" if isinstance(value, int | float) else str(value)


def _clear(layout: QVBoxLayout | QGridLayout) -> None:
    while layout.count():
        item = layout.takeAt(0)
        widget = item.widget() if item is not None else None
        if widget is not None:
            widget.hide()
            widget.deleteLater()
