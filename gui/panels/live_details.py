"""The fold of the live panel that tells what the runs consist of: a table with a column for each run."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QSizePolicy, QWidget

from gui.panels.live_run import LiveRun
from gui.panels.memory_units import memory_unit
from gui.panels.run_words import detail_lines, memory_parts
from gui.panels.setting_names import spoken
from gui.widgets import Marker, Share, ShareBar, label

_MEMORY = "Memory of one step"
_LATER = "The rest is known when the run has ended."
_NOTHING = "Nothing more was recorded of this run."


class LiveDetails(QFrame):
    """Filled anew only where what it says has changed: a table is slow to lay out."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.setAccessibleName("Details of the runs")
        self._said: object = None
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(12, 8, 12, 10)
        self._grid.setHorizontalSpacing(20)
        self._grid.setVerticalSpacing(4)
        self._cells: list[QWidget] = []

    def show_runs(self, runs: Sequence[LiveRun]) -> None:
        """Tells of these runs."""
        lines = [{**_trouble(run), **detail_lines(run.experiment, run.summary)} for run in runs]
        memory = [memory_parts(run.summary) for run in runs]
        heads = [(run.precision, run.label, run.is_over) for run in runs]
        if (heads, lines, memory) == self._said:
            return
        self._said = (heads, lines, memory)
        self._clear()
        for column, run in enumerate(runs, start=1):
            self._put(_head(run), 0, column)
            self._grid.setColumnStretch(column, 1)
        names = list(dict.fromkeys(name for one in lines for name in one))
        for row, name in enumerate(names, start=1):
            self._put(_words(name, "hint"), row, 0)
            for column, one in enumerate(lines, start=1):
                self._put(_words(one.get(name, "–"), "legend"), row, column)
        self._put_memory(runs, memory, len(names) + 1)
        is_over = all(run.is_over for run in runs)
        if not is_over or not (names or any(memory)):
            self._put(_words(_NOTHING if is_over else _LATER, "hint"), len(names) + 2, 1, max(1, len(runs)))

    def texts(self) -> tuple[str, ...]:
        """What stands in the table, row by row, for tests."""
        return tuple(cell.accessibleName() for cell in self._cells)

    def _put_memory(
        self, runs: Sequence[LiveRun], memory: Sequence[Sequence[tuple[str, float]]], row: int
    ) -> None:
        if not any(memory):
            return
        self._put(_words(_MEMORY, "hint"), row, 0)
        unit, scale = memory_unit([size for parts in memory for _, size in parts])
        decimals = 2 if unit == "GiB" else 1
        for column, (run, parts) in enumerate(zip(runs, memory, strict=True), start=1):
            if not parts:
                self._put(_words("–", "legend"), row, column)
                continue
            bar = ShareBar(run.precision)
            bar.set_shares(
                [Share(size, f"{name} {size / scale:,.{decimals}f} {unit}") for name, size in parts]
            )
            self._put(bar, row, column)

    def _put(self, cell: QWidget, row: int, column: int, span: int = 1) -> None:
        self._cells.append(cell)
        # a bar is as wide as its column, words stand at its top
        if isinstance(cell, ShareBar):
            self._grid.addWidget(cell, row, column)
        else:
            self._grid.addWidget(cell, row, column, 1, span, Qt.AlignmentFlag.AlignTop)

    def _clear(self) -> None:
        for cell in self._cells:
            self._grid.removeWidget(cell)
            cell.hide()
            cell.deleteLater()
        self._cells.clear()
        for column in range(1, self._grid.columnCount()):
            self._grid.setColumnStretch(column, 0)


def _trouble(run: LiveRun) -> dict[str, str]:
    """Why a run failed and what to do about it, in the form's words."""
    if run.problem is None:
        return {}
    return {"Failed": spoken(run.problem.message), "What to do": spoken(run.problem.remedy)}


def _head(run: LiveRun) -> QWidget:
    holder = QWidget()
    holder.setAccessibleName(run.label)
    row = QHBoxLayout(holder)
    row.setContentsMargins(0, 0, 0, 2)
    row.setSpacing(6)
    row.addWidget(Marker(run.precision))
    row.addWidget(label(run.label, "value"))
    row.addStretch(1)
    return holder


def _words(text: str, role: str) -> QWidget:
    result = label(text, role)
    result.setAccessibleName(text)
    if role == "legend":
        result.setWordWrap(True)
        result.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        result.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return result
