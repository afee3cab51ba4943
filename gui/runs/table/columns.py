"""The columns of the list of results: text, sort value, tooltip and painting of a run in each."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter

from engine.compare.evidence import machine_disturbances
from engine.compare.metrics import ACCURACY, ENERGY, LOSS, METRICS, PEAK_MEMORY, SPEED, Metric
from engine.experiment.catalog import DataRef
from engine.experiment.experiment import Experiment, Precision, all_settings, flattened
from engine.experiment.value import MIB_PER_GIB
from engine.store.record import Status
from engine.words.names import exists, left_out_words, recipe_title, setting_text, speed_unit
from engine.words.numbers import NONE, duration, number, times
from gui.runs.table.rows import RunRow, begun, sized_dataset, status_words
from gui.theme.theme import theme
from gui.widgets.table import Column, Look
from gui.widgets.table.columns import GROWS
from gui.widgets.table.painting import cell_font

_IN_COLUMNS = ("model", "dataset", "precision", "step.recipe", "batch_size")
_DEFAULTS = {key: value for key, value in flattened(Experiment()).items() if key not in _IN_COLUMNS}
_TICK = "Select runs to compare their curves. This box selects all shown, or none."
_LONGEST = 600
_LEAST_GIB = 0.01
"""Below this, two decimals would show zero."""
_PRECISION_ORDER, _STATUS_ORDER = list(Precision), list(Status)
_CHIP, _CHIP_INNER, _CHIP_GAP, _LEAST_CHIP = 18, 6, 4, 24
_BY_NAME = {figure.name: figure for figure in METRICS}
_OTHER_WIDTH = 104
"""The width of a column that is shown only on request."""
_STATUS_ICONS = {
    Status.QUEUED: "ring",
    Status.RUNNING: "play",
    Status.FINISHED: "check",
    Status.STOPPED: "stop",
    Status.FAILED: "cross-outline",
    Status.INTERRUPTED: "cross-outline",
}


def _line_tooltip(line: RunRow) -> str:
    run, seen = line.run, line.overview
    dataset = sized_dataset(seen.dataset, seen.image_size)
    batch = f"batch {seen.batch_size:,}" if seen.batch_size else ""
    known = (seen.model, dataset, seen.precision.label, recipe_title(seen.recipe), batch)
    tags = f"Tags: {', '.join(run.tags)}" if run.tags else ""
    note = textwrap.shorten(run.note, _LONGEST, placeholder=" …") if len(run.note) > _LONGEST else run.note
    return "\n".join(filter(None, (run.title, " · ".join(filter(None, known)), tags, note)))


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
    text = f"{SPEED.text(speed)} {speed_unit([line.overview])}"
    if DataRef(line.overview.dataset).task != "language":
        return text
    length = run.experiment.sequence_length
    return f"{text} of {length:,} tokens each: {SPEED.text(speed * length)} tokens/s"


def _about_change(line: RunRow, figure: Metric) -> str:
    if line.change(figure) is None:
        baseline = line.baseline
        are_known = baseline is not None and None not in (line.figure(figure), baseline.figure(figure))
        return "The two runs' metrics count different things" if are_known else ""
    disturbed = [row.run for row in line.disturbed()] if figure.is_of_time else []
    reasons = [f"“{run.title}” {what}." for run in disturbed for _, what in machine_disturbances(run.summary)]
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


def _time_key(line: RunRow) -> tuple[int, float]:
    # running, then queued with the next one on top, then over, the newest first
    run = line.run
    if run.status is Status.QUEUED:
        return 1, -run.number
    return (2 if run.status is Status.RUNNING else 0), begun(run).timestamp()


def is_unreliable(line: RunRow, figure: Metric) -> bool:
    """Return True if a ratio of times is not reliable, because the run or its baseline was disturbed."""
    return figure.is_of_time and line.change(figure) is not None and bool(line.disturbed())


def _number_look(text: Callable[[RunRow], str]) -> Callable[[RunRow], Look]:
    return lambda line: Look(400, "text3") if text(line) == NONE else Look(500)


def _recorded(
    name: str,
    title: str,
    value: Callable[[RunRow], float | None],
    text: Callable[[RunRow], str],
    tip: str,
    *,
    width: int = _OTHER_WIDTH,
    is_dispensable: bool = False,
    about: Callable[[RunRow], str] | None = None,
) -> Column[RunRow]:
    return Column(
        *(title, text, value, tip),
        name=name,
        width=width,
        is_number=True,
        is_dispensable=is_dispensable,
        look=_number_look(text),
        about=about,
    )


def _metric_column(name: str, title: str, figure: Metric, tip: str) -> Column[RunRow]:
    def value(line: RunRow) -> float | None:
        return figure.value(line.run)

    return _recorded(name, title, value, lambda line: figure.text(value(line)), tip)


def _ratio_column(name: str, title: str, tip: str, *, width: int = _OTHER_WIDTH) -> Column[RunRow]:
    figure = _FIGURES[name]

    def text(line: RunRow) -> str:
        value, change = line.figure(figure), line.change(figure)
        if value is None or change is None:
            return NONE
        return f"{times(change)}×" if figure.has_ratio else figure.difference_text(value, change)

    def look(line: RunRow) -> Look:
        if is_unreliable(line, figure):
            return Look(400, "text3", "info")
        is_pale = text(line) == NONE or (name == "RATIO" and line.baseline is line)
        return Look(400, "text3") if is_pale else Look(600 if name == "RATIO" else 500)

    return Column(
        *(title, text, lambda line: line.change(figure), tip),
        name=name,
        width=width,
        is_number=True,
        look=look,
        about=lambda line: _about_change(line, figure),
    )


def _text_column(
    name: str,
    title: str,
    text: Callable[[RunRow], str],
    tip: str,
    *,
    value: Callable[[RunRow], Any] | None = None,
    width: int = _OTHER_WIDTH,
    **more: Any,
) -> Column[RunRow]:
    look = Look(ink="text2")
    return Column(title, text, value, tip, name=name, width=width, look=lambda _line: look, **more)


def _setting_column(key: str) -> Column[RunRow]:
    about = all_settings()[key]

    def setting_of(line: RunRow) -> Any:
        return reduce(getattr, key.split("."), line.run.experiment)

    def text(line: RunRow) -> str:
        is_there = exists(key, is_script=line.overview.is_script)
        return setting_text(key, setting_of(line)) if is_there else ""

    def value(line: RunRow) -> tuple[bool, float | str] | None:
        known = setting_of(line)
        # a setting may be a number or a word, which do not compare
        if known is None or isinstance(known, int | float):
            return None if known is None else (False, known)
        return True, setting_text(key, known).casefold()

    title = ", ".join(filter(None, (about.title, about.unit)))
    is_number = type(_DEFAULTS[key]) in (int, float)
    return _text_column(
        *(key, title, text, about.about),
        value=value,
        is_number=is_number,
    )


def paint_tags(painter: QPainter, room: QRectF, line: RunRow) -> None:
    """Paint the tags of a run as chips, and the number of tags that do not fit."""
    face, palette, tags = cell_font(500, 11), theme().palette, line.run.tags
    metrics = QFontMetrics(face)
    painter.setFont(face)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    left = room.left()
    for place, tag in enumerate(tags):
        later = len(tags) - place - 1
        reserved = metrics.horizontalAdvance(f"+{later}") + _CHIP_GAP if later else 0
        free = room.right() - left - reserved
        if place and free < min(metrics.horizontalAdvance(tag), _LEAST_CHIP) + 2 * _CHIP_INNER:
            painter.setPen(QColor(palette.text3))
            more = room.adjusted(left - room.left(), 0, 0, 0)
            painter.drawText(more, Qt.AlignmentFlag.AlignVCenter, f"+{later + 1}")
            return
        # an advance is rounded, and a tag that just fits would be elided
        width = min(metrics.horizontalAdvance(tag) + 2 * _CHIP_INNER + 2, free)
        chip = QRectF(left, round(room.center().y()) - _CHIP // 2, width, _CHIP)
        painter.setPen(QColor(palette.line2))
        painter.drawRoundedRect(chip.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        words = metrics.elidedText(tag, Qt.TextElideMode.ElideRight, int(width) - 2 * _CHIP_INNER)
        painter.setPen(QColor(palette.text2))
        painter.drawText(chip, Qt.AlignmentFlag.AlignCenter, words)
        left += width + _CHIP_GAP


def _status_look(line: RunRow) -> Look:
    ink = "text3" if line.run.status is Status.QUEUED else "text2"
    return Look(ink=ink, mark=_STATUS_ICONS[line.run.status])


_FIGURES = {
    "RATIO": SPEED,
    "STEP_RATIO": _BY_NAME["step_ms"],
    "PEAK_RATIO": PEAK_MEMORY,
    "ACCURACY_GAIN": ACCURACY,
    "LOSS_GAIN": LOSS,
}
COLUMNS: tuple[Column[RunRow], ...] = (
    _text_column(
        *("NAME", "Name", lambda line: f"{line.name}, {line.about}", "The name of the run. F2 renames it."),
        width=214,
        widest=GROWS,
        gap=16,
        about=_line_tooltip,
    ),
    _text_column(
        *("TICK", "", lambda _line: "", _TICK),
        width=41,
        is_dispensable=True,
        about=lambda line: "This run has not started yet" if line.run.status is Status.QUEUED else _TICK,
    ),
    _text_column(
        *("TAGS", "Tags", lambda line: ", ".join(line.run.tags)),
        "The tags of the run. Right-click a run to tag it.",
        value=lambda line: "\n".join(line.run.tags).casefold() or None,
        width=120,
        is_dispensable=True,
        paint=paint_tags,
        about=lambda line: "\n".join(line.run.tags),
    ),
    _text_column(
        *("WHEN", "When", lambda _line: ""),
        "When the run started. Click to group runs by comparison again.",
        value=_time_key,
        width=58,
        is_number=True,
        is_dispensable=True,
    ),
    _recorded(
        *("SPEED", "samples/s", lambda line: line.overview.samples_per_second),
        lambda line: SPEED.text(line.overview.samples_per_second),
        "Samples trained per second, excluding warm-up",
        width=71,
        is_dispensable=True,
        about=_speed,
    ),
    _recorded(
        *("PEAK", "Peak GiB", lambda line: line.overview.peak_mib),
        lambda line: _memory(line.overview.peak_mib),
        "Peak memory of the training, excluding warm-up",
        width=72,
        is_dispensable=True,
    ),
    _recorded(
        *("ACCURACY", "Acc. %", lambda line: line.overview.accuracy),
        lambda line: number(_percent(line.overview.accuracy), ACCURACY.digits),
        "Validation accuracy at the end of the run",
        width=72,
        is_dispensable=True,
    ),
    _ratio_column("RATIO", "vs {}", "Throughput relative to {}", width=74),
    _text_column("MODEL", "Model", lambda line: line.overview.model, "The model that was trained"),
    _text_column(
        *("DATASET", "Dataset", lambda line: sized_dataset(line.overview.dataset, line.overview.image_size)),
        "The dataset that it was trained on",
    ),
    _text_column(
        *("PRECISION", "Precision", lambda line: line.overview.precision.label),
        "The precision that it was trained in",
        value=lambda line: _PRECISION_ORDER.index(line.overview.precision),
        width=118,
    ),
    _text_column(
        *("RECIPE", "Optimizations", lambda line: recipe_title(line.overview.recipe)),
        "Optimizations of the training step: plain, fast or custom",
        about=_recipe,
    ),
    _recorded(
        *("BATCH", "Batch", lambda line: line.overview.batch_size),
        lambda line: f"{line.overview.batch_size:,}" if line.overview.batch_size else NONE,
        "Samples in a batch",
    ),
    Column(
        *("Status", lambda line: status_words(line.run), lambda line: _STATUS_ORDER.index(line.run.status)),
        "The state of the run",
        name="STATUS",
        width=128,
        look=_status_look,
        about=lambda line: (
            f"{line.run.problem.message} {line.run.problem.remedy}" if line.run.problem else ""
        ),
    ),
    _ratio_column("STEP_RATIO", "Step vs {}", "Time of a step relative to {}"),
    _ratio_column("PEAK_RATIO", "Peak vs {}", "Peak memory relative to {}"),
    _ratio_column(
        "ACCURACY_GAIN", "Acc. vs {}", "Validation accuracy minus that of {}, in percentage points"
    ),
    _ratio_column("LOSS_GAIN", "Loss vs {}", "Mean training loss of the last epoch, minus that of {}"),
    _metric_column("STEP_MS", "Step ms", _BY_NAME["step_ms"], "Step time in milliseconds, excluding warm-up"),
    _metric_column("LOSS", "Loss", LOSS, "Mean training loss of the last epoch"),
    _metric_column("ENERGY", "J/1,000", ENERGY, "Energy for 1,000 samples in joules, excluding warm-up"),
    _recorded(
        *("GRAD_SCALE", "Loss scale", _grad_scale, lambda line: number(_grad_scale(line))),
        "The loss scale at the end of the run",
    ),
    _metric_column(
        *("SKIPPED_STEPS", "Skipped", _BY_NAME["skipped_steps"]),
        "Skipped steps, usually because a gradient overflowed",
    ),
    _recorded(
        *("DURATION", "Duration", _duration),
        lambda line: NONE if (seconds := _duration(line)) is None else duration(seconds),
        "How long training took, excluding validation",
    ),
    *map(_setting_column, _DEFAULTS),
)
"""All columns in their order, the settings last. Files store a column's `name`, a setting's dotted key."""
PLACES = MappingProxyType({column.name: place for place, column in enumerate(COLUMNS)})
"""The places of the columns by name."""
NAME, TICK, TAGS, WHEN, THROUGHPUT, PEAK, ACC, RATIO = range(8)
STATUS = PLACES["STATUS"]
USUAL: Sequence[int] = range(RATIO + 1)
"""The columns that are shown until the user chooses others."""
FIXED = (TICK, NAME)
"""The columns that cannot be hidden."""
SETTINGS = MappingProxyType({PLACES[key]: key for key in _DEFAULTS})
"""The dotted keys of the columns that show a setting."""
COMPARED = MappingProxyType({PLACES[name]: figure for name, figure in _FIGURES.items()})
"""The metrics that these columns compare with the baseline's: their ratio, or their difference."""
