"""The columns of the runs table: the text, sort value and tooltip of a run in each. No Qt."""

from __future__ import annotations

import textwrap
from enum import IntEnum
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from engine.compare.evidence import machine_disturbances
from engine.compare.metrics import ACCURACY, ENERGY, LOSS, METRICS, PEAK_MEMORY, SPEED, Metric
from engine.experiment.catalog import DataRef
from engine.experiment.experiment import Experiment, Precision, all_settings, flattened
from engine.experiment.value import MIB_PER_GIB
from engine.store.record import Status
from engine.words.names import left_out_words, recipe_title, setting_text, speed_unit
from engine.words.numbers import NONE, duration, number, times
from gui.runs.table.line import STATUS_WORDS, RunRow, begun, sized_dataset, status_words
from gui.widgets.table import Column as Shown

if TYPE_CHECKING:
    from gui.runs.table.lines import RunsList

_IN_COLUMNS = ("model", "dataset", "precision", "step.recipe", "batch_size")
_DEFAULTS = {key: value for key, value in flattened(Experiment()).items() if key not in _IN_COLUMNS}
_TICK = "Select runs to compare their curves. This box selects all shown, or none."
_LONGEST = 600
_LEAST_GIB = 0.01
"""Below this, two decimals would show zero."""
_PRECISION_ORDER, _STATUS_ORDER = list(Precision), list(STATUS_WORDS)


class Column(IntEnum):
    """The columns of the results table in their default order, followed by one column per setting.

    A setting's column is named by its dotted key. The numbers may differ in another version, so files store a
    column's `name`.
    """

    _ignore_ = "place key"

    TICK = 0
    NAME = 1
    TAGS = 2
    WHEN = 3
    SPEED = 4
    PEAK = 5
    ACCURACY = 6
    RATIO = 7
    MODEL = 8
    DATASET = 9
    PRECISION = 10
    RECIPE = 11
    BATCH = 12
    STATUS = 13
    STEP_RATIO = 14
    PEAK_RATIO = 15
    ACCURACY_GAIN = 16
    LOSS_GAIN = 17
    STEP_MS = 18
    LOSS = 19
    ENERGY = 20
    GRAD_SCALE = 21
    SKIPPED_STEPS = 22
    DURATION = 23
    for place, key in enumerate(_DEFAULTS, DURATION + 1):
        vars()[key] = place

    @property
    def setting(self) -> str | None:
        """The dotted key of the setting in this column, or None."""
        return self.name if self > Column.DURATION else None


USUAL = tuple(column for column in Column if column <= Column.RATIO)
"""The columns that are shown until the user chooses others."""
FIXED = (Column.TICK, Column.NAME)
"""The columns that cannot be hidden."""
_BY_NAME = {figure.name: figure for figure in METRICS}
COMPARED = MappingProxyType(
    {
        Column.RATIO: SPEED,
        Column.STEP_RATIO: _BY_NAME["step_ms"],
        Column.PEAK_RATIO: PEAK_MEMORY,
        Column.ACCURACY_GAIN: ACCURACY,
        Column.LOSS_GAIN: LOSS,
    }
)
"""The figures that these columns compare with the baseline's: their ratio, or their difference."""


def columns_of(runs: RunsList) -> dict[Column, Shown[RunRow]]:
    """Return the columns of a list of runs. Titles that compare have a place for the baseline's name."""

    def compared(column: Column, title: str, tip: str) -> Shown[RunRow]:
        figure = COMPARED[column]

        def text(line: RunRow) -> str:
            value, change = line.figure(figure), runs.baselines.change(line, figure)
            if value is None or change is None:
                return NONE
            return f"{times(change)}×" if figure.has_ratio else figure.difference_text(value, change)

        return Shown(
            title,
            text,
            lambda line: runs.baselines.change(line, figure),
            tip,
            is_number=True,
            about=lambda line: _about_change(runs, line, figure),
        )

    def recorded(figure: Metric, title: str, tip: str) -> Shown[RunRow]:
        def value(line: RunRow) -> float | None:
            return figure.value(line.run)

        return Shown(title, lambda line: figure.text(value(line)), value, tip, is_number=True)

    return {
        Column.TICK: Shown(
            "",
            lambda _line: "",
            tip=_TICK,
            about=lambda line: "This run has not started yet" if line.run.status is Status.QUEUED else _TICK,
        ),
        Column.NAME: Shown(
            "Name", lambda line: line.run.title, None, "The name of the run. F2 renames it.", about=_whole
        ),
        Column.TAGS: Shown(
            "Tags",
            lambda line: ", ".join(line.run.tags),
            lambda line: "\n".join(line.run.tags).casefold() or None,
            "The tags of the run. Right-click a run to tag it.",
            about=lambda line: "\n".join(line.run.tags),
        ),
        Column.WHEN: Shown(
            "When",
            lambda _line: "",
            _when,
            "When the run started. Click to group runs by comparison again.",
        ),
        Column.SPEED: Shown(
            "samples/s",
            lambda line: SPEED.text(line.overview.samples_per_second),
            lambda line: line.overview.samples_per_second,
            "Samples trained per second, excluding warm-up",
            is_number=True,
            about=_speed,
        ),
        Column.PEAK: Shown(
            "Peak GiB",
            lambda line: _memory(line.overview.peak_mib),
            lambda line: line.overview.peak_mib,
            "Peak memory of the training, excluding warm-up",
            is_number=True,
        ),
        Column.ACCURACY: Shown(
            "Acc. %",
            lambda line: number(_percent(line.overview.accuracy), ACCURACY.digits),
            lambda line: line.overview.accuracy,
            "Validation accuracy at the end of the run",
            is_number=True,
        ),
        Column.RATIO: compared(Column.RATIO, "vs {}", "Throughput relative to {}"),
        Column.MODEL: Shown("Model", lambda line: line.overview.model, None, "The model that was trained"),
        Column.DATASET: Shown(
            "Dataset",
            lambda line: sized_dataset(line.overview.dataset, line.overview.image_size),
            None,
            "The dataset that it was trained on",
        ),
        Column.PRECISION: Shown(
            "Precision",
            lambda line: line.overview.precision.label,
            lambda line: _PRECISION_ORDER.index(line.overview.precision),
            "The precision that it was trained in",
        ),
        Column.RECIPE: Shown(
            "Optimizations",
            lambda line: recipe_title(line.overview.recipe),
            None,
            "Optimizations of the training step: plain, fast or custom",
            about=_recipe,
        ),
        Column.BATCH: Shown(
            "Batch",
            lambda line: f"{line.overview.batch_size:,}",
            lambda line: line.overview.batch_size,
            "Samples in a batch",
            is_number=True,
        ),
        Column.STATUS: Shown(
            "Status",
            lambda line: status_words(line.run),
            lambda line: _STATUS_ORDER.index(line.run.status),
            "The state of the run",
            about=lambda line: (
                f"{line.run.problem.message} {line.run.problem.remedy}" if line.run.problem else ""
            ),
        ),
        Column.STEP_RATIO: compared(Column.STEP_RATIO, "Step vs {}", "Time of a step relative to {}"),
        Column.PEAK_RATIO: compared(Column.PEAK_RATIO, "Peak vs {}", "Peak memory relative to {}"),
        Column.ACCURACY_GAIN: compared(
            Column.ACCURACY_GAIN, "Acc. vs {}", "Validation accuracy minus that of {}, in percentage points"
        ),
        Column.LOSS_GAIN: compared(
            Column.LOSS_GAIN, "Loss vs {}", "Mean training loss of the last epoch, minus that of {}"
        ),
        Column.STEP_MS: recorded(
            _BY_NAME["step_ms"], "Step ms", "Step time in milliseconds, excluding warm-up"
        ),
        Column.LOSS: recorded(LOSS, "Loss", "Mean training loss of the last epoch"),
        Column.ENERGY: recorded(ENERGY, "J/1,000", "Energy for 1,000 samples in joules, excluding warm-up"),
        Column.GRAD_SCALE: Shown(
            "Loss scale",
            lambda line: number(_grad_scale(line)),
            _grad_scale,
            "The loss scale at the end of the run",
            is_number=True,
        ),
        Column.SKIPPED_STEPS: recorded(
            _BY_NAME["skipped_steps"], "Skipped", "Skipped steps, usually because a gradient overflowed"
        ),
        Column.DURATION: Shown(
            "Duration",
            lambda line: NONE if (seconds := _duration(line)) is None else duration(seconds),
            _duration,
            "How long training took, excluding validation",
            is_number=True,
        ),
        **{Column[key]: _setting(key) for key in _DEFAULTS},
    }


def _setting(key: str) -> Shown[RunRow]:
    about = all_settings()[key]

    def setting_of(line: RunRow) -> Any:
        return reduce(getattr, key.split("."), line.run.experiment)

    def value(line: RunRow) -> tuple[bool, float | str] | None:
        known = setting_of(line)
        # a setting may be a number or a word, which do not compare
        if known is None or isinstance(known, int | float):
            return None if known is None else (False, known)
        return True, setting_text(key, known).casefold()

    return Shown(
        ", ".join(filter(None, (about.title, about.unit))),
        lambda line: setting_text(key, setting_of(line)),
        value,
        about.about,
        is_number=type(_DEFAULTS[key]) in (int, float),
    )


def _whole(line: RunRow) -> str:
    run, seen = line.run, line.overview
    dataset = sized_dataset(seen.dataset, seen.image_size)
    recipe = f"{seen.precision.label} · {recipe_title(seen.recipe)} · batch {seen.batch_size:,}"
    tags = f"Tags: {', '.join(run.tags)}" if run.tags else ""
    note = textwrap.shorten(run.note, _LONGEST, placeholder=" …") if len(run.note) > _LONGEST else run.note
    return "\n".join(filter(None, (run.title, f"{seen.model} · {dataset} · {recipe}", tags, note)))


def _recipe(line: RunRow) -> str:
    summary, asked = line.run.summary, line.overview.recipe
    left_out = left_out_words(summary.left_out) if summary else ""
    is_whole = summary is None or summary.recipe in (None, asked)
    in_force = (
        "" if is_whole or not summary or not summary.recipe else f"\nApplied: {recipe_title(summary.recipe)}"
    )
    return f"{recipe_title(asked)}{in_force}" + (f"\nNot applied:\n{left_out}" if left_out else "")


def _speed(line: RunRow) -> str:
    run, speed = line.run, line.overview.samples_per_second
    if speed is None:
        return run.summary.speed_note or "" if run.summary else ""
    text = f"{SPEED.text(speed)} {speed_unit([line.overview.dataset])}"
    if DataRef(line.overview.dataset).task != "language":
        return text
    length = run.experiment.sequence_length
    return f"{text} of {length:,} tokens each: {SPEED.text(speed * length)} tokens/s"


def _about_change(runs: RunsList, line: RunRow, figure: Metric) -> str:
    baselines = runs.baselines
    if baselines.change(line, figure) is None:
        baseline = baselines.of(line)
        are_known = baseline is not None and None not in (line.figure(figure), baseline.figure(figure))
        return "The two runs' metrics count different things" if are_known else ""
    spoiled = [spoiled.run for spoiled in baselines.spoiled(line)] if figure.is_of_time else []
    reasons = [f"“{run.title}” {what}." for run in spoiled for _, what in machine_disturbances(run.summary)]
    return "\n".join(["This ratio is unreliable:", *reasons]) if reasons else ""


def _duration(line: RunRow) -> float | None:
    return line.run.summary.seconds if line.run.summary else None


def _grad_scale(line: RunRow) -> float | None:
    return line.run.summary.final_grad_scale if line.run.summary else None


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else fraction * 100.0


def _memory(mib: float | None) -> str:
    gib = None if mib is None else mib / MIB_PER_GIB
    return number(gib, 2 if gib is None or gib >= _LEAST_GIB else None)


def _when(line: RunRow) -> tuple[int, float]:
    # running, then queued with the next one on top, then over, the newest first
    run = line.run
    if run.status is Status.QUEUED:
        return 1, -run.number
    return (2 if run.status is Status.RUNNING else 0), begun(run).timestamp()
