"""The six stat cards: throughput, step time, peak memory, accuracy or loss, loss scale, skipped steps.

If no run has a loss scaler, the last three are loss, accuracy, and waiting for data. A seventh shows the
Tensor Core activity, if the GPU reports it.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from engine.compare.evidence import machine_disturbances, was_slowed_down
from engine.compare.metrics import ACCURACY, LOSS, Metric
from engine.compare.sides import training_differences
from engine.experiment.experiment import Experiment
from engine.words.numbers import NONE, memory_unit, number, ratio
from gui.session.live_run import LiveRun
from gui.train import figures
from gui.widgets import Button, StatCard, StatRow
from gui.widgets.boxes import grid_of

# what a card needs for its title, unit and ratio: six of them ask for a window some 1,350 px wide
_LEAST_WIDTH = 170
_MOST_COLUMNS = 7
_ABOUT_TENSOR_CORES = (
    "Tensor Core and SM activity as reported by the GPU. Hover over a value to see memory bandwidth "
    "utilization."
)
_ABOUT_ACCURACY = "Accuracy on the validation samples after the last epoch"
_ABOUT_LOSS = "Mean training loss of the last epoch"


class LiveCards(QWidget):
    """The boxes with live metrics above the plots, in one row, or in two rows if the page is narrow."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.throughput = StatCard("Throughput", "img/s", "Samples trained per second, excluding warm-up")
        self.step_time = StatCard("Step time", "ms", "Milliseconds per optimizer step, excluding warm-up")
        self.memory = StatCard("Peak memory", "GiB", "Peak memory of the training, excluding warm-up")
        self.quality = StatCard("Accuracy", "%", _ABOUT_ACCURACY)
        self.scale = StatCard(
            "Loss scale", "", "The factor on the loss that keeps small FP16 gradients from becoming zero"
        )
        self.skipped = StatCard("Skipped steps", "", "Steps skipped because a gradient overflowed")
        self.accuracy = StatCard("Accuracy", "%", _ABOUT_ACCURACY)
        self.waiting = StatCard(
            "Waiting for data", "%", "Share of the measured time that the device waited for a batch"
        )
        self.tensor_cores = StatCard("Tensor Cores", "%", _ABOUT_TENSOR_CORES)
        self.tensor_cores.hide()
        self._shared = (self.throughput, self.step_time, self.memory, self.quality)
        self._of_scaler, self._of_others = (self.scale, self.skipped), (self.accuracy, self.waiting)
        self._has_scaler, self._has_activity = True, False
        self.loss_switch = Button("Loss", "link", "Show the training loss instead of the accuracy", "swap")
        self.loss_switch.setAccessibleName("Show the loss instead of the accuracy")
        self.loss_switch.clicked.connect(self._switch_quality)
        self.quality.add_corner(self.loss_switch)
        self._shows_loss = False
        self._runs: Sequence[LiveRun] = ()
        self._alike: frozenset[str] = frozenset()
        self._columns = 0
        self._grid = grid_of(self, spacing=(8, 8))
        self._place(6)

    @property
    def cards(self) -> tuple[StatCard, ...]:
        """Return the cards that are shown, in order."""
        others = self._of_scaler if self._has_scaler else self._of_others
        return (*self._shared, *others, *([self.tensor_cores] if self._has_activity else []))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._fitting() != self._columns:
            self._place(self._fitting())

    def minimumSizeHint(self) -> QSize:
        # that of two rows: the layout's own hint would keep the panel as wide as a single row
        columns = -(-len(self.cards) // 2)
        width = columns * self.throughput.minimumWidth() + (columns - 1) * self._grid.spacing()
        return QSize(width, super().minimumSizeHint().height())

    def set_compact(self, compact: bool) -> None:
        """Tighten the cards for a low window."""
        for card in (*self._shared, *self._of_scaler, *self._of_others, self.tensor_cores):
            card.set_compact(compact)

    def show_runs(self, runs: Sequence[LiveRun], alike: frozenset[str] = frozenset()) -> None:
        """Fill the cards. Ratios are relative to the first run.

        `alike` names the metrics that differ no more than repeats do.
        """
        self._runs, self._alike = runs, alike
        has_scaler = not runs or any(map(figures.uses_scaler, runs))
        has_activity = any(figures.gauge(run, figures.TENSOR_CORES) is not None for run in runs)
        if (has_scaler, has_activity) != (self._has_scaler, self._has_activity):
            self._has_scaler, self._has_activity = has_scaler, has_activity
            self.loss_switch.setVisible(has_scaler)
            self._place(self._fitting())
        self._show_speed(runs)
        self._show_memory(runs)
        self._show_quality(runs)
        if has_scaler:
            self._show_scaler(runs)
        else:
            self._show_accuracy(self.accuracy, runs)
            self.waiting.set_rows([_number_row(run, figures.data_wait_percent(run), 1) for run in runs])
        if has_activity:
            self.tensor_cores.set_rows([_activity_row(run) for run in runs])

    def _fitting(self) -> int:
        count = len(self.cards)
        return count if self.width() >= count * _LEAST_WIDTH else -(-count // 2)

    def _place(self, columns: int) -> None:
        self._columns = columns
        for card in (*self._of_scaler, *self._of_others, self.tensor_cores):
            if card not in self.cards:
                self._grid.removeWidget(card)
                card.setParent(self)
                card.hide()
        for place, card in enumerate(self.cards):
            self._grid.addWidget(card, place // columns, place % columns)
            card.show()
        for column in range(_MOST_COLUMNS):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)

    def _show_speed(self, runs: Sequence[LiveRun]) -> None:
        unit = runs[0].unit if runs else "img/s"
        # the longer unit has no room beside a ratio; the plot below shows it in full
        self.throughput.set_title("Throughput", "/s" if unit == "samples/s" else unit)
        notes = [_notes(run) for run in runs]
        clocks = [f"SM clock: {words}" if (words := figures.clock_words(run)) else "" for run in runs]
        _fill(self.throughput, runs, [figures.samples_per_second(run) for run in runs], notes, facts=clocks)
        _fill(self.step_time, runs, [figures.step_ms(run) for run in runs], notes)

    def _show_memory(self, runs: Sequence[LiveRun]) -> None:
        peaks = [figures.peak_memory_mib(run) for run in runs]
        unit, scale = memory_unit(peaks)
        self.memory.set_title("Peak memory", unit)
        _fill(self.memory, runs, [None if peak is None else peak / scale for peak in peaks])

    def _show_quality(self, runs: Sequence[LiveRun]) -> None:
        if self._shows_loss or not self._has_scaler:
            self.quality.set_title("Epoch loss", next((run.loss_unit for run in runs if run.loss_unit), ""))
            self.quality.setToolTip(_ABOUT_LOSS)
            step = figures.common_step(runs) if _are_all_alike(runs) else None
            losses = [figures.train_loss(run, step) for run in runs]
            _fill(self.quality, runs, losses, digits=LOSS.digits, has_ratio=False)
            self._show_difference(self.quality, losses, LOSS, step)
        else:
            self.quality.set_title("Accuracy", "%")
            self.quality.setToolTip(_ABOUT_ACCURACY)
            self._show_accuracy(self.quality, runs)

    def _show_accuracy(self, card: StatCard, runs: Sequence[LiveRun]) -> None:
        step = figures.common_validation(runs) if _are_all_alike(runs) else None
        shares = [None if (share := figures.accuracy(run, step)) is None else share * 100.0 for run in runs]
        rows = zip(runs, shares, strict=True)
        card.set_rows([_number_row(run, share, ACCURACY.digits) for run, share in rows])
        self._show_difference(card, shares, ACCURACY, step)

    def _show_difference(
        self, card: StatCard, values: Sequence[float | None], figure: Metric, step: int | None
    ) -> None:
        is_over = len(values) == 2 and all(run.is_over for run in self._runs)
        if step is not None:
            card.set_ratio(
                f"at step {step:,}", "Both runs at the last step that both have reached", is_sound=False
            )
        elif not is_over or values[0] is None or values[1] is None:
            card.set_ratio("")
        elif figure.name in self._alike:
            card.set_ratio("same", "The difference is within that of repeats", is_sound=False)
        else:
            text = figure.difference_text(values[1], values[1] - values[0])
            first, second = (run.label for run in self._runs)
            card.set_ratio(text, f"{second} against {first}", is_sound=False)

    def _show_scaler(self, runs: Sequence[LiveRun]) -> None:
        scales, skipped = [], []
        for run in runs:
            absent = NONE if run.step == 0 and not run.is_over else "not used"
            scale, count = figures.grad_scale(run), figures.skipped_steps(run)
            if scale is None:
                scales.append(_row(run, absent, True))
            else:
                scales.append(_row(run, f"{scale:,.0f}" if scale >= 1 else f"{scale:.3g}", False))
            steps = run.summary.steps if run.summary is not None else run.step
            known = count is not None
            skipped.append(
                _row(run, f"{count:,}" if known else absent, not known, f"of {steps:,}" if known else "")
            )
        self.scale.set_rows(scales)
        self.skipped.set_rows(skipped)

    def _switch_quality(self) -> None:
        self._shows_loss = not self._shows_loss
        other, shown = ("Accuracy", "loss") if self._shows_loss else ("Loss", "accuracy")
        words = f"Show the {other.lower()} instead of the {shown}"
        self.loss_switch.set_words(other, words, name=words)
        self._show_quality(self._runs)


def _fill(
    card: StatCard,
    runs: Sequence[LiveRun],
    values: Sequence[float | None],
    notes: Sequence[str] = (),
    *,
    facts: Sequence[str] = (),
    digits: int | None = None,
    has_ratio: bool = True,
) -> None:
    ratios = [
        ratio(value, values[0]) if has_ratio and _are_alike(run.experiment, runs[0].experiment) else ""
        for run, value in zip(runs, values, strict=True)
    ]
    is_disturbed = bool(notes) and any(was_slowed_down(run.summary) for run in runs)
    rows = []
    for place, (run, value) in enumerate(zip(runs, values, strict=True)):
        against = f"{ratios[place]} {runs[0].label}" if place and ratios[place] else ""
        words = (against, notes[place] if notes else "", facts[place] if facts else "")
        rows.append(_number_row(run, value, digits, detail=". ".join(filter(None, words))))
    card.set_rows(rows)
    text = ratios[1] if len(runs) == 2 else ""
    tip = f"{runs[1].label} over {runs[0].label}" if text else ""
    if text and is_disturbed:
        disturbed = ", and ".join(note for note in dict.fromkeys(notes) if note)
        text, tip = "unreliable", f"The ratio of {text} is unreliable: {disturbed}"
    card.set_ratio(text, tip, is_sound=not is_disturbed)


def _are_all_alike(runs: Sequence[LiveRun]) -> bool:
    return all(_are_alike(run.experiment, runs[0].experiment) for run in runs)


def _are_alike(mine: Experiment | None, theirs: Experiment | None) -> bool:
    return mine is None or theirs is None or not training_differences(mine, theirs)


def _notes(run: LiveRun) -> str:
    if run.summary is None:
        return ""
    sentences = [sentence for _, sentence in machine_disturbances(run.summary)]
    return ", and ".join(sentences) or run.summary.speed_note or ""


def _activity_row(run: LiveRun) -> StatRow:
    share, sms = figures.gauge(run, figures.TENSOR_CORES), figures.gauge(run, figures.SMS)
    after = "" if share is None or sms is None else f"SMs {sms:.0f}"
    detail = ", ".join(f"{name} {percent:.0f}%" for name, percent in figures.activities(run))
    return _number_row(run, share, 0, after, detail)


def _number_row(
    run: LiveRun, value: float | None, digits: int | None, after: str = "", detail: str = ""
) -> StatRow:
    return _row(run, number(value, digits), value is None, after, detail)


def _row(run: LiveRun, text: str, absent: bool, after: str = "", detail: str = "") -> StatRow:
    hollow = run.status in ("queued", "failed")
    if absent and run.status == "failed":
        text = "failed"
    return StatRow(run.precision, run.label, text, after, absent, hollow, detail)
