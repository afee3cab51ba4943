"""What one line of the runs table says: the figures of a saved run, and their words. No Qt."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import IntEnum

from engine.experiment import Experiment, Precision
from engine.records.comparison import baseline_for, speed_ratio, training_peak
from engine.records.record import RunRecord, Status
from gui.panels.run_words import left_out_words, recipe_title, recipe_words

NOTHING = "–"


class Column(IntEnum):
    """The columns of the table, left to right."""

    TICK = 0
    MARKER = 1
    NAME = 2
    WHEN = 3
    MODEL = 4
    DATASET = 5
    PRECISION = 6
    RECIPE = 7
    BATCH = 8
    SPEED = 9
    PEAK = 10
    ACCURACY = 11
    RATIO = 12
    STATUS = 13


HEADINGS = {
    Column.TICK: ("", "Tick runs to see their curves and to compare them"),
    Column.MARKER: ("", "The marker of the run's precision"),
    Column.NAME: ("Name", "What the run is called; F2 renames it"),
    Column.WHEN: ("When", "When the run was started"),
    Column.MODEL: ("Model", "The network that was trained"),
    Column.DATASET: ("Dataset", "What it was trained on"),
    Column.PRECISION: ("Precision", "The number format it was trained in"),
    Column.RECIPE: ("Recipe", "How a step is made: plain, fast, or some parts of that"),
    Column.BATCH: ("Batch", "Samples that go through the network at once"),
    Column.SPEED: ("img/s", "Samples trained in a second, warm-up not counted"),
    Column.PEAK: ("Peak GiB", "The most memory that training took, warm-up not counted"),
    Column.ACCURACY: ("Acc. %", "Validation accuracy at the end of the run"),
    Column.RATIO: ("vs FP32", "Speed as a multiple of the newest FP32 run with the same settings"),
    Column.STATUS: ("Status", "How the run stands"),
}
NUMBERS = (Column.BATCH, Column.SPEED, Column.PEAK, Column.ACCURACY, Column.RATIO)
STATUS_WORDS = {
    Status.QUEUED: "Queued",
    Status.RUNNING: "Running",
    Status.FINISHED: "Finished",
    Status.STOPPED: "Stopped",
    Status.FAILED: "Failed",
    Status.INTERRUPTED: "Interrupted",
}
_STATUS_ORDER = tuple(STATUS_WORDS)
_PRECISION_ORDER = tuple(Precision)


def speed(run: RunRecord) -> float | None:
    """Samples per second, warm-up not counted."""
    return run.summary.samples_per_second if run.summary else None


def recipe_of(run: RunRecord) -> str:
    """The recipe in force in the end, or the one asked for where that is not known."""
    return (run.summary.recipe if run.summary else None) or run.experiment.step.recipe


def recipe_tip(run: RunRecord) -> str:
    """The recipe in full, with what was left out of it and why."""
    left_out = left_out_words(run.summary.left_out) if run.summary else ""
    return recipe_words(recipe_of(run)) + (f"\nLeft out:\n{left_out}" if left_out else "")


def peak_gib(run: RunRecord) -> float | None:
    """The training peak in GiB: allocated on an accelerator, resident on a CPU."""
    peak = training_peak(run)
    return None if peak is None else peak[1] / 1024


def accuracy_percent(run: RunRecord) -> float | None:
    """The last validation accuracy in per cent."""
    fraction = run.summary.final_validation_accuracy if run.summary else None
    return None if fraction is None else fraction * 100


class Baselines:
    """The FP32 run that each run is measured against, found once for all runs of the same settings."""

    def __init__(self, runs: Iterable[RunRecord] = ()) -> None:
        self._fp32: dict[tuple[Experiment, str], list[RunRecord]] = {}
        self._found: dict[tuple[Experiment, str], RunRecord | None] = {}
        for run in runs:
            if run.experiment.precision is Precision.FP32 and run.status is Status.FINISHED:
                self._fp32.setdefault(_settings_but_precision(run), []).append(run)

    def ratio(self, run: RunRecord) -> float | None:
        """The run's speed as a multiple of its baseline's; None where either is missing."""
        if speed(run) is None:
            return None
        baseline = self._baseline(run)
        return speed_ratio(run, baseline) if baseline else None

    def _baseline(self, run: RunRecord) -> RunRecord | None:
        if run.experiment.precision is Precision.FP32:
            return baseline_for(run, ())
        key = _settings_but_precision(run)
        if key not in self._found:
            self._found[key] = baseline_for(run, self._fp32.get(key, []))
        return self._found[key]


def _settings_but_precision(run: RunRecord) -> tuple[Experiment, str]:
    device = run.environment.device_name if run.environment else ""
    return run.experiment.model_copy(update={"precision": Precision.FP32}), device


def cell_text(run: RunRecord, column: Column, baselines: Baselines) -> str:
    """The words of one cell that depend on the run alone."""
    match column:
        case Column.NAME:
            return run.name
        case Column.MODEL:
            return run.experiment.model
        case Column.DATASET:
            return dataset_words(run.experiment)
        case Column.PRECISION:
            return run.experiment.precision.label
        case Column.RECIPE:
            return recipe_title(recipe_of(run))
        case Column.BATCH:
            return f"{run.experiment.batch_size:,}"
        case Column.SPEED:
            return _number(speed(run), ",.0f")
        case Column.PEAK:
            return _number(peak_gib(run), ",.2f")
        case Column.ACCURACY:
            return _number(accuracy_percent(run), ".1f")
        case Column.RATIO:
            ratio = baselines.ratio(run)
            return NOTHING if ratio is None else f"{ratio:,.2f}×"
        case Column.STATUS:
            return STATUS_WORDS[run.status]
        case _:
            return ""


def sort_value(run: RunRecord, column: Column, baselines: Baselines) -> object | None:
    """What a column is sorted by; None sorts last in either direction."""
    match column:
        case Column.WHEN:
            # the queue stands below all that has begun, with the next one on top
            return (0, -run.number) if run.status is Status.QUEUED else (1, _moment(run).timestamp())
        case Column.MARKER | Column.PRECISION:
            return _PRECISION_ORDER.index(run.experiment.precision)
        case Column.BATCH:
            return run.experiment.batch_size
        case Column.SPEED:
            return speed(run)
        case Column.PEAK:
            return peak_gib(run)
        case Column.ACCURACY:
            return accuracy_percent(run)
        case Column.RATIO:
            return baselines.ratio(run)
        case Column.STATUS:
            return _STATUS_ORDER.index(run.status)
        case _:
            return cell_text(run, column, baselines).casefold()


def matches(run: RunRecord, words: Iterable[str]) -> bool:
    """Whether every one of the filter's (casefolded) words occurs in what the row says."""
    parts = (
        run.name,
        run.experiment.model,
        dataset_words(run.experiment),
        run.experiment.precision.label,
        recipe_title(recipe_of(run)),
        STATUS_WORDS[run.status],
    )
    text = "\n".join(parts).casefold()
    return all(word in text for word in words)


def dataset_words(experiment: Experiment) -> str:
    """The dataset, with the picture size where it is not the dataset's own affair."""
    if experiment.dataset == "synthetic" and experiment.image_size is not None:
        return f"{experiment.dataset} {experiment.image_size}"
    return experiment.dataset


def settings_words(run: RunRecord) -> str:
    """The settings that matter most in one line; a narrow table hides some of them."""
    settings = run.experiment
    return (
        f"{settings.model} · {dataset_words(settings)} · {settings.precision.label}"
        f" · {recipe_words(recipe_of(run))} · batch {settings.batch_size:,}"
    )


def when_words(run: RunRecord, now: datetime) -> str:
    """When a run began, as short as it can be told: "now", "14:02", "19 Nov"."""
    if run.status is Status.RUNNING:
        return "now"
    moment, today = _moment(run).astimezone(now.tzinfo), now
    if moment.date() == today.date():
        return f"{moment:%H:%M}"
    return f"{moment.day} {moment:%b}" if moment.year == today.year else f"{moment:%b} {moment.year}"


def _moment(run: RunRecord) -> datetime:
    return run.started or run.created


def _number(value: float | None, form: str) -> str:
    return NOTHING if value is None else format(value, form)
