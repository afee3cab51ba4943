"""The details of the live runs: a table of optimizations, warm-up, memory and GPU."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.compare.devices import device_rows
from engine.compare.metrics import DATA_WAIT, ENERGY, STEP_TIME, UNCHANGED, Metric
from engine.compare.sides import Side
from engine.compare.verdict import step_energy_text
from engine.experiment.experiment import setting_title
from engine.protocol.events import Summary
from engine.words.names import left_out_words, recipe_title
from engine.words.numbers import memory_text, memory_unit, number
from gui.session.live_run import LiveRun
from gui.widgets import Marker, Share, ShareBar, label
from gui.widgets.boxes import Stretch, Surface, grid_of, in_row
from gui.widgets.buttons import ProfileButton

_FLOAT32 = {
    "strict": "strict, TF32 off",
    "tf32": "TF32",
    "default": "PyTorch's default: convolutions in TF32",
}
_MEMORY_PARTS = (
    ("parameters_mib", "parameters"),
    ("gradients_mib", "gradients"),
    ("optimizer_state_mib", "optimizer state"),
    ("activations_mib", "activations"),
    ("other_mib", "other"),
)


def side_runs(side: Side) -> str:
    """Describe the runs of a side: "3 repeats", or the name of the only one."""
    run = side.runs[0]
    return f"{len(side.runs)} repeats" if len(side.runs) > 1 else run.name if run.has_own_name else ""


def _text(metric: Metric, run: LiveRun) -> str:
    value = metric.value(run)
    return "" if value is None else metric.text_with_unit(value)


def detail_lines(run: LiveRun) -> dict[str, str]:
    """Return the details of a run by name. Until it has ended, only the requested optimizations."""
    experiment, summary = run.experiment, run.summary
    if summary is None:
        return {} if experiment is None else {"Requested optimizations": recipe_title(experiment.step.recipe)}
    energy = summary.energy
    per_samples = "" if energy is None else f"{_text(ENERGY, run)}, {step_energy_text(energy)}"
    lines = {
        "Applied optimizations": recipe_title(summary.recipe) if summary.recipe else "",
        "Not applied": left_out_words(summary.left_out),
        "Skipped": "\n".join(f"{setting_title(key)}: {why}" for key, why in summary.not_done.items()),
        "FP32 matmul": _FLOAT32.get(summary.float32_mode or "", ""),
        STEP_TIME.title: _text(STEP_TIME, run),
        "Excluded warm-up": _warmup(summary),
        DATA_WAIT.title: _text(DATA_WAIT, run),
        "GPU": _card(summary),
        ENERGY.title: per_samples,
        "First NaN": f"at step {summary.first_nan_step:,}" if summary.first_nan_step is not None else "",
        UNCHANGED.title: _text(UNCHANGED, run),
        "Best epoch": f"{summary.best_epoch:,}" if summary.best_epoch is not None else "",
        "Paused": _seconds(summary.paused_seconds) if summary.paused_seconds else "",
        **{row.name: row.words for row in device_rows(summary, experiment.dataset if experiment else "")},
    }
    return {name: words for name, words in lines.items() if words}


def memory_parts(summary: Summary | None) -> tuple[tuple[str, float], ...]:
    """Return the memory of one step by part, as (name, MiB). Empty if it was not measured."""
    if summary is None:
        return ()
    parts = ((words, getattr(summary, name)) for name, words in _MEMORY_PARTS)
    return tuple((words, float(size)) for words, size in parts if size is not None)


def _warmup(summary: Summary) -> str:
    if summary.warmup_seconds is None:
        return ""
    parts = [
        f"{name} {_seconds(seconds)}"
        for name, seconds in (("compiling", summary.compile_seconds), ("capturing", summary.capture_seconds))
        if seconds
    ]
    including = f", including {' and '.join(parts)}" if parts else ""
    return f"{_seconds(summary.warmup_seconds)}{including}"


def _card(summary: Summary) -> str:
    busy, power = summary.gpu_utilization_percent, summary.power_watts
    celsius, clock, others = summary.temperature_celsius, summary.clock_mhz, summary.other_programs_mib
    tensor = summary.tensor_activity_percent
    parts = (
        f"{busy:.0f}% busy" if busy is not None else "",
        f"Tensor Cores {tensor:.0f}% active" if tensor is not None else "",
        f"{number(power, 0)} W" if power is not None else "",
        f"{number(clock, 0)} MHz" if clock is not None else "",
        f"up to {celsius:.0f} °C" if celsius is not None else "",
        f"other programs up to {memory_text(others)}" if others else "",
    )
    return ", ".join(part for part in parts if part)


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f} s"


_MEMORY = "Memory of one step"
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
        """Show the details of these runs, and why they cannot be profiled, if so."""
        self.explain.set_obstacle(not_profiled)
        troubles = [
            {} if run.problem is None else {"Failed": run.problem.message, "What to do": run.problem.remedy}
            for run in runs
        ]
        told = [detail_lines(run) for run in runs]
        lines = [{**trouble, **details} for trouble, details in zip(troubles, told, strict=True)]
        memory = [memory_parts(run.summary) for run in runs]
        heads = [(run.precision, run.label, run.is_over) for run in runs]
        if (heads, lines, memory) == self._content:
            return
        self._content = (heads, lines, memory)
        self._clear()
        for column, run in enumerate(runs, start=1):
            self._put(_head(run), 0, column)
            self._grid.setColumnStretch(column, 1)
        names = list(dict.fromkeys(name for details in lines for name in details))
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
        # a bar fills its column, text is at the top of its row
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
