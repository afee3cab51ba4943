"""What the cells of the runs table tell when the mouse rests on them. No Qt."""

from __future__ import annotations

import textwrap

from engine.records.doubts import about_machine
from engine.records.figures import SPEED
from engine.records.record import RunRecord, Status
from gui.panels.recipe_names import left_out_words, recipe_title
from gui.panels.runs_columns import HEADINGS, Column
from gui.panels.runs_line import Baselines, Line
from gui.panels.runs_words import dataset_words
from gui.tips import plain_tip

_LONGEST = 600
_OF_TOKENS = frozenset({"synthetic-tokens", "python-source"})


def cell_tip(line: Line, column: Column, baselines: Baselines) -> str | None:
    """What there is to tell beyond the words of a cell; None for nothing."""
    run = line.run
    match column:
        case Column.TICK:
            return "This run has not begun yet" if run.status is Status.QUEUED else HEADINGS[column][1]
        case Column.NAME:
            return _whole(line)
        case Column.TAGS:
            return plain_tip("\n".join(run.tags)) or None
        case Column.RECIPE:
            return plain_tip(_recipe(line))
        case Column.SPEED:
            return _speed(line)
        case Column.RATIO:
            return _spoiled(line, baselines)
        case Column.STATUS:
            return plain_tip(f"{run.problem.message} {run.problem.remedy}") if run.problem else None
    return None


def _whole(line: Line) -> str:
    run, seen = line.run, line.glance
    settings = (
        f"{seen.model} · {dataset_words(seen.dataset, seen.image_size)} · {seen.precision.label}"
        f" · {recipe_title(seen.recipe)} · batch {seen.batch_size:,}"
    )
    tags = f"Tags: {', '.join(run.tags)}" if run.tags else ""
    note = textwrap.shorten(run.note, _LONGEST, placeholder=" …") if len(run.note) > _LONGEST else run.note
    return plain_tip("\n".join(part for part in (run.name, settings, tags, note) if part))


def _recipe(line: Line) -> str:
    summary = line.run.summary
    left_out = left_out_words(summary.left_out) if summary else ""
    in_force = f"\nIn force: {recipe_title(summary.recipe)}" if summary and summary.recipe else ""
    is_whole = summary is None or summary.recipe in (None, line.glance.recipe)
    told = recipe_title(line.glance.recipe) + ("" if is_whole else in_force)
    return told + (f"\nLeft out:\n{left_out}" if left_out else "")


def _speed(line: Line) -> str | None:
    run, speed = line.run, line.glance.speed
    if speed is None:
        return plain_tip(run.summary.speed_note or "") if run.summary else None
    unit = "img/s" if line.has_pictures else "samples/s"
    return f"{SPEED.text(speed)} {unit}{_length(run)}"


def _spoiled(line: Line, baselines: Baselines) -> str | None:
    found = baselines.spoiled(line) if baselines.ratio(line) is not None else ()
    told = [f"“{one.run.name}” {what}." for one in found for _, what in about_machine(one.run.summary)]
    return plain_tip("\n".join(["Not clean: nothing follows from this ratio.", *told])) if told else None


def _length(run: RunRecord) -> str:
    settings = run.experiment
    return f" of {settings.sequence_length:,} tokens each" if settings.dataset in _OF_TOKENS else ""
