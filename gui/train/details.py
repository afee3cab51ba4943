"""The details of the live runs: a table of optimizations, warm-up, memory and GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.compare.details import MEMORY, details_of, memory_parts
from engine.words.names import recipe_title
from engine.words.numbers import memory_unit
from gui.session.live_run import LiveRun
from gui.widgets import Marker, Share, ShareBar, label
from gui.widgets.boxes import Stretch, Surface, discard, grid_of, in_row
from gui.widgets.buttons import ProfileButton

_LATER = "The rest is known once the run has ended."
_NOTHING = "Nothing more was recorded about this run."


class LiveDetails(Surface):
    """A table of details on each run of the page, such as optimizations, warm-up and memory, in columns.

    It is rebuilt only if its content has changed, because the layout is slow. The panel connects `explain`,
    the button that profiles the runs.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("panel", "Details of the runs", parent)
        self._content: object = None
        self._grid = grid_of(self, margins=(12, 8, 12, 10), spacing=(20, 4))
        self._cells: list[QWidget] = []
        self.explain = ProfileButton("inline")
        self._grid.addWidget(self.explain, 0, 0, Qt.AlignmentFlag.AlignLeft)

    def show_runs(self, runs: Sequence[LiveRun], not_profiled: str | None = None) -> None:
        """Show the details of these runs. `not_profiled` is the reason why they cannot be profiled, or ""."""
        self.explain.set_obstacle(not_profiled)
        lines = [_lines(run) for run in runs]
        memory = [() if run.summary is None else memory_parts(run.summary) for run in runs]
        heads = [(run.precision, run.label, run.is_over) for run in runs]
        if (heads, lines, memory) == self._content:
            return
        self._content = (heads, lines, memory)
        self._clear()
        for column, run in enumerate(runs, start=1):
            self._put(_head(run), 0, column)
            self._grid.setColumnStretch(column, 1)
        names = _names(lines)
        for row, name in enumerate(names, start=1):
            self._put(_words(name, "hint"), row, 0)
            for column, details in enumerate(lines, start=1):
                self._put(_words(details.get(name, "–"), "legend"), row, column)
        self._put_memory(runs, memory, len(names) + 1)
        is_over = all(run.is_over for run in runs)
        if not is_over or not (names or any(memory)):
            self._put(_words(_NOTHING if is_over else _LATER, "hint"), len(names) + 2, 1, max(1, len(runs)))

    def texts(self) -> tuple[str, ...]:
        """Return the table's text, row by row, for tests."""
        return tuple(cell.accessibleName() for cell in self._cells)

    def _put_memory(
        self, runs: Sequence[LiveRun], memory: Sequence[Sequence[tuple[str, float]]], row: int
    ) -> None:
        if not any(memory):
            return
        self._put(_words(MEMORY, "hint"), row, 0)
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
        # a bar fills its column, text is at the top of its row
        if isinstance(cell, ShareBar):
            self._grid.addWidget(cell, row, column)
        else:
            self._grid.addWidget(cell, row, column, 1, span, Qt.AlignmentFlag.AlignTop)

    def _clear(self) -> None:
        discard(self._grid, *self._cells)
        self._cells.clear()
        for column in range(1, self._grid.columnCount()):
            self._grid.setColumnStretch(column, 0)


def _lines(run: LiveRun) -> dict[str, str]:
    is_script = run.experiment.is_script
    # the page says why a script failed
    failed = {} if run.problem is None or is_script else {"Failed": run.problem.message}
    if run.summary is None:
        requested = {"Requested optimizations": recipe_title(run.experiment.step.recipe)}
        return failed if is_script else failed | requested
    return failed | {name: text for title, rows in details_of(run) if title != MEMORY for name, text in rows}


def _names(lines: Sequence[Mapping[str, str]]) -> list[str]:
    # what a later run adds follows what stands before it there
    names: list[str] = []
    for details in lines:
        place = 0
        for name in details:
            if name not in names:
                names.insert(place, name)
            place = names.index(name) + 1
    return names


def _head(run: LiveRun) -> QWidget:
    holder = QWidget()
    holder.setAccessibleName(run.label)
    parts = (Marker(run.precision), label(run.label, "value"), Stretch(1))
    in_row(*parts, parent=holder, margins=(0, 0, 0, 2), spacing=6)
    return holder


def _words(text: str, role: str) -> QWidget:
    result = label(text, role, wraps=True)
    result.setAccessibleName(text)
    if role == "legend":
        result.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        result.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return result
