"""What compares the sides, beside the title of a live plot: a ratio, a difference, or values of one step."""

from __future__ import annotations

from collections.abc import Sequence

from engine.compare.evidence import machine_disturbances, was_slowed_down
from engine.compare.metrics import ACCURACY, LOSS, Metric
from engine.words.numbers import counted, number, ratio
from gui.session.live_run import LiveRun
from gui.train import figures

Note = tuple[str, str, bool]
"""The words, a tooltip, and True for a ratio to rely on."""
_NONE: Note = ("", "", False)


def speed_note(runs: Sequence[LiveRun]) -> Note:
    """Return the ratio of two finished runs' throughput, or that it is unreliable."""
    speeds = [figures.samples_per_second(run) for run in runs]
    if len(runs) != 2 or not all(run.is_over for run in runs) or not figures.are_all_alike(runs):
        is_over = bool(runs) and all(run.is_over for run in runs)
        return "" if is_over else "after warm-up", "", False
    words = ratio(speeds[1], speeds[0])
    if words and any(was_slowed_down(run.summary) for run in runs):
        reasons = " and ".join(dict.fromkeys(filter(None, map(_disturbance, runs))))
        return "unreliable", f"The ratio of {words} is unreliable: {reasons}", False
    return words, _against(runs), True


def memory_note(runs: Sequence[LiveRun]) -> Note:
    """Return the ratio of two runs' peak memory."""
    if len(runs) != 2 or not figures.are_all_alike(runs):
        return _NONE
    peaks = [figures.peak_memory_mib(run) for run in runs]
    return ratio(peaks[1], peaks[0]), _against(runs), True


def loss_note(runs: Sequence[LiveRun], alike: frozenset[str]) -> Note:
    """Return the difference of two finished runs' losses in the last epoch."""
    return _difference(runs, [figures.train_loss(run) for run in runs], LOSS, alike)


def accuracy_note(runs: Sequence[LiveRun], alike: frozenset[str]) -> Note:
    """Return the difference of two runs' accuracy, until the end the value of the one ahead at that step."""
    step = figures.common_validation(runs) if figures.are_all_alike(runs) else None
    if step is not None:
        ahead = max(runs, key=lambda run: run.step)
        share = figures.accuracy(ahead, step)
        return same_step_note(ahead, step, None if share is None else 100.0 * share, ACCURACY.digits)
    shares = [figures.accuracy(run) for run in runs]
    percent = [None if share is None else 100.0 * share for share in shares]
    return _difference(runs, percent, ACCURACY, alike)


def skipped_note(runs: Sequence[LiveRun]) -> Note:
    """Return how many steps the loss scaler skipped."""
    known = [(run, count) for run in runs if (count := figures.skipped_steps(run)) is not None]
    if not known:
        return _NONE
    tip = ", ".join(f"{run.label} {count:,}" for run, count in known)
    words = " and ".join(f"{count:,}" for _, count in known[:2])
    last = counted(known[-1][1], "step").partition(" ")[2]
    return f"{words} {last} skipped", f"Steps skipped because a gradient overflowed: {tip}", False


def same_step_note(ahead: LiveRun, step: int, value: float | None, digits: int | None = None) -> Note:
    """Return the value of the run that is ahead at a step of the one that is behind."""
    if value is None:
        return _NONE
    return f"same step: {number(value, digits)}", f"{ahead.label} at step {step:,}", False


def _difference(
    runs: Sequence[LiveRun], values: Sequence[float | None], metric: Metric, alike: frozenset[str]
) -> Note:
    is_over = len(runs) == 2 and all(run.is_over for run in runs) and figures.are_all_alike(runs)
    if not is_over or figures.common_step(runs) is not None or values[0] is None or values[1] is None:
        return _NONE
    if metric.name in alike:
        return "same", "The difference is within that of repeats", False
    return metric.difference_text(values[1], values[1] - values[0]), _against(runs), False


def _against(runs: Sequence[LiveRun]) -> str:
    return f"{runs[1].label} relative to {runs[0].label}"


def _disturbance(run: LiveRun) -> str:
    return " and ".join(sentence for _, sentence in machine_disturbances(run.summary))
