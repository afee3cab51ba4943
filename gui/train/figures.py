"""The metrics of runs beside their plots and on gauges, and how those of two sides compare.

They come from a run's summary or, until it has ended, from its samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from engine.compare.details import gpu_words
from engine.compare.evidence import machine_disturbances, was_slowed_down
from engine.compare.metrics import ACCURACY, DATA_WAIT, LOSS, SPEED, Metric, training_peak
from engine.compare.sides import training_differences
from engine.curves import Values
from engine.experiment.experiment import Experiment
from engine.lazy_imports import np
from engine.protocol.events import Epoch
from engine.protocol.summary import Slowdown
from engine.statistics import median
from engine.words.numbers import counted, number, ratio
from gui.session.live_run import LiveRun

_LAST_BLOCKS, _RECENT = 50, 50


def samples_per_second(run: LiveRun) -> float | None:
    """Return the throughput: the median over the last blocks, or, in a summary, over all blocks."""
    if run.summary is not None:
        return SPEED.value(run)
    rates = run.curves.means("samples_per_second")[run.rows_until(run.warmup_steps) :]
    usable = rates[np.isfinite(rates) & (rates > 0)]
    blocks = len(usable) // run.block_steps
    if blocks < 1:
        return median(usable) if len(usable) else None
    used = usable[: blocks * run.block_steps].reshape(blocks, run.block_steps)[-_LAST_BLOCKS:]
    # steps of equal size: a block's rate is the harmonic mean of its steps' rates
    return median(1.0 / (1.0 / used).mean(axis=1))


def memory_column(run: LiveRun) -> str:
    """Return the column of the run's memory: allocated on an accelerator, resident on a CPU."""
    return "allocated_mib" if len(run.column("allocated_mib")) else "resident_mib"


def is_on_cpu(run: LiveRun) -> bool:
    """Return True if the run trains on a CPU."""
    if run.experiment.device == "cpu":
        return True
    return bool(len(run.column("resident_mib"))) and not len(run.column("allocated_mib"))


def peak_memory_mib(run: LiveRun) -> float | None:
    """Return the peak after warm-up. None before that."""
    if run.summary is not None:
        peak = training_peak(run)
        return None if peak is None else peak[1]
    values = run.column(memory_column(run))[run.rows_until(run.warmup_steps) :]
    finite = values[np.isfinite(values)]
    return float(finite.max()) if len(finite) else None


def memory_by_rank(run: LiveRun) -> tuple[float, ...]:
    """Return the memory of each rank in MiB, or its peak after the end. Empty on a single device."""
    if run.summary is None:
        return () if run.rank_memory is None else run.rank_memory.mib
    peaks = [rank.peak_mib for rank in run.summary.ranks]
    known = tuple(peak for peak in peaks if peak is not None)
    return known if len(known) == len(peaks) else ()


def accuracy_percent(run: LiveRun, step: int | None = None) -> float | None:
    """Return the accuracy of the last validation in percent, or of the one after `step`."""
    if run.summary is not None and step is None:
        return ACCURACY.value(run)
    seen = [epoch.validation_accuracy for epoch in accuracies(run) if step in (None, epoch.step)]
    return 100.0 * (seen[-1] or 0.0) if seen else None


def train_loss(run: LiveRun, step: int | None = None) -> float | None:
    """Return the mean loss over the last epoch, or over its steps so far. With `step`, at that step."""
    if run.summary is not None and step is None:
        return LOSS.value(run)
    ended = [epoch for epoch in run.epochs if step is None or epoch.step < step]
    begin = run.rows_until(ended[-1].step) if ended else 0
    rows = slice(begin, None if step is None else run.rows_until(step))
    losses = run.curves.means("loss")[rows]
    if len(losses):
        return float(np.average(losses, weights=run.curves.steps_by_row[rows]))
    return ended[-1].train_loss if ended else None


def are_all_alike(runs: Sequence[LiveRun]) -> bool:
    """Return True unless the settings of some runs make them different trainings."""
    return _are_alike(tuple(run.experiment for run in runs))


@lru_cache(maxsize=8)
def _are_alike(settings: tuple[Experiment, ...]) -> bool:
    return not any(training_differences(settings[0], other) for other in settings[1:])


def common_step(runs: Sequence[LiveRun]) -> int | None:
    """Return the last step of the run that is behind, or None if both are equally far."""
    steps = [run.summary.steps if run.is_over and run.summary is not None else run.step for run in runs]
    is_one_behind = len(runs) == 2 and (steps[0] != steps[1] or not all(run.is_over for run in runs))
    return (min(steps) or None) if is_one_behind else None


def common_validation(runs: Sequence[LiveRun]) -> int | None:
    """Return the step of the last validation of the run that is behind, or None."""
    if common_step(runs) is None:
        return None
    first, second = ({epoch.step for epoch in accuracies(run)} for run in runs)
    return max(first & second, default=None)


def uses_scaler(run: LiveRun) -> bool:
    """Return True if the run's loss is scaled."""
    if run.experiment.is_script:
        # it may use FP16 without one
        return len(run.column("grad_scale")) > 0
    return run.experiment.uses_scaler


def accuracies(run: LiveRun) -> list[Epoch]:
    """Return the epochs after which the accuracy was measured."""
    return [epoch for epoch in run.epochs if epoch.validation_accuracy is not None]


def skipped_steps(run: LiveRun) -> int | None:
    """Return the number of steps that the scaler skipped. None without a scaler."""
    if run.summary is not None:
        return run.summary.skipped_steps
    return len(run.skipped) if len(run.column("grad_scale")) else None


def gauge_words(run: LiveRun) -> str:
    """Return what the GPU's sensors report, and the wait for data. Empty on a CPU."""
    is_over = run.summary is not None
    reasons = run.summary.slowed_by if run.summary else Slowdown(int(gauge(run, "slowdown") or 0)).words
    words, wait = gpu_words(partial(gauge, run), reasons, is_over=is_over), data_wait_percent(run)
    if not words:
        return ""
    return f"GPU {words}" + (f" · waiting for data {wait:.0f}%" if wait is not None else "")


def data_wait_percent(run: LiveRun) -> float | None:
    """Return the share of time in which the device waited for data, or None if unknown."""
    if run.summary is not None:
        return DATA_WAIT.value(run)
    waits, rates = run.column("data_wait_ms")[-_RECENT:], run.column("samples_per_second")[-_RECENT:]
    usable = np.isfinite(waits) & np.isfinite(rates) & (rates > 0) if len(waits) == len(rates) else None
    if usable is None or not usable.any():
        return None
    milliseconds = run.batch_size / rates[usable] * 1000.0
    return float(min(waits[usable].sum() / milliseconds.sum(), 1.0) * 100.0)


def waiting_percent(run: LiveRun) -> Values:
    """Return the share of each step in which the device waited for data. Empty if unknown."""
    waits, rates = run.curves.means("data_wait_ms"), run.curves.means("samples_per_second")
    count = min(len(waits), len(rates))
    if not np.isfinite(waits[:count]).any():
        return np.empty(0)
    # NaN before the first speed is known
    with np.errstate(invalid="ignore", divide="ignore"):
        share = waits[:count] * rates[:count] / (10.0 * run.batch_size)
    return np.minimum(share, 100.0)


def gauge(run: LiveRun, name: str) -> float | None:
    """Return the value in the summary, or the latest value of the column."""
    if run.summary is not None:
        figure = getattr(run.summary, name)
        return None if figure is None else float(figure)
    values = run.column(name)
    known = values[np.isfinite(values)][-1:] if len(values) else values
    return float(known[0]) if len(known) else None


Note = tuple[str, str, bool]
"""The words, a tooltip, and True for a ratio to rely on."""
_NONE: Note = ("", "", False)


def speed_note(runs: Sequence[LiveRun]) -> Note:
    """Return the ratio of two finished runs' throughput, or that it is unreliable."""
    speeds = [samples_per_second(run) for run in runs]
    if len(runs) != 2 or not all(run.is_over for run in runs) or not are_all_alike(runs):
        is_over = bool(runs) and all(run.is_over for run in runs)
        return "" if is_over else "after warm-up", "", False
    words = ratio(speeds[1], speeds[0])
    if words and any(was_slowed_down(run.summary) for run in runs):
        reasons = " and ".join(dict.fromkeys(filter(None, map(_disturbance, runs))))
        return "unreliable", f"The ratio of {words} is unreliable: {reasons}", False
    return words, _relative_words(runs), True


def memory_note(runs: Sequence[LiveRun]) -> Note:
    """Return the ratio of two runs' peak memory."""
    if len(runs) != 2 or not are_all_alike(runs):
        return _NONE
    peaks = [peak_memory_mib(run) for run in runs]
    return ratio(peaks[1], peaks[0]), _relative_words(runs), True


def loss_note(runs: Sequence[LiveRun], alike: frozenset[str]) -> Note:
    """Return the difference of two finished runs' losses in the last epoch."""
    return _difference(runs, [train_loss(run) for run in runs], LOSS, alike)


def accuracy_note(runs: Sequence[LiveRun], alike: frozenset[str]) -> Note:
    """Return a note on the difference of two runs' accuracy.

    While one is behind, the note is the other's accuracy at the same step.
    """
    step = common_validation(runs) if are_all_alike(runs) else None
    if step is not None:
        ahead = max(runs, key=lambda run: run.step)
        return same_step_note(ahead, step, accuracy_percent(ahead, step), ACCURACY)
    return _difference(runs, [accuracy_percent(run) for run in runs], ACCURACY, alike)


def skipped_note(runs: Sequence[LiveRun]) -> Note:
    """Return how many steps the loss scaler skipped."""
    known = [(run, count) for run in runs if (count := skipped_steps(run)) is not None]
    if not known:
        return _NONE
    tip = ", ".join(f"{run.label} {count:,}" for run, count in known)
    words = " and ".join(f"{count:,}" for _, count in known[:2])
    last = counted(known[-1][1], "step").partition(" ")[2]
    return f"{words} {last} skipped", f"Steps skipped because a gradient overflowed: {tip}", False


def same_step_note(ahead: LiveRun, step: int, value: float | None, metric: Metric | None = None) -> Note:
    """Return the value of the run that is ahead at a step of the one that is behind."""
    if value is None:
        return _NONE
    shown = number(value) if metric is None else metric.text(value)
    return f"same step: {shown}", f"{ahead.label} at step {step:,}", False


def _difference(
    runs: Sequence[LiveRun], values: Sequence[float | None], metric: Metric, alike: frozenset[str]
) -> Note:
    is_over = len(runs) == 2 and all(run.is_over for run in runs) and are_all_alike(runs)
    if not is_over or common_step(runs) is not None or values[0] is None or values[1] is None:
        return _NONE
    if metric.name in alike:
        return "same", "The difference is within that of repeats", False
    return metric.difference_text(values[1], values[1] - values[0]), _relative_words(runs), False


def _relative_words(runs: Sequence[LiveRun]) -> str:
    return f"{runs[1].label} relative to {runs[0].label}"


def _disturbance(run: LiveRun) -> str:
    return " and ".join(sentence for _, sentence in machine_disturbances(run.summary))
