"""The largest batch as a document: the result of each precision, and the trials that verify it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from engine.experiment.value import MIB_PER_GIB
from engine.export.document import Action, CellText, Conclusion, Document, Picture, Row, Section, document_of
from engine.limit.memory_chart import MemoryContent, memory_chart
from engine.limit.result import (
    is_answer,
    limit_label,
    notes_of,
    pieces_of,
    recommended_batch,
    result_words,
    throughput_sentences,
    verification,
)
from engine.protocol.trials import Limit, LimitSide, Trial, times_the_batch
from engine.store.saved.studies import Study
from engine.words.names import dataset_words
from engine.words.numbers import NONE, decimals_for, memory_unit, number, share_text, times

MEMORY, THROUGHPUT, TRIALS = "Memory", "Throughput", "Trials"
_MOST_ACTIONS = 4


def document(study: Study[Limit], *, margin_fraction: float | None = None, multiple: int = 1) -> Document:
    """Return the document of a batch-size search, also of an unfinished one.

    The recommended batches are multiples of `multiple` that leave `margin_fraction` of the memory free, by
    default the fraction with which the search was started.
    """
    limit, first = study.answer, study.experiments[0]
    margin = limit.margin_fraction if margin_fraction is None else margin_fraction
    is_begun = limit.is_known or any(side.problem is not None for side in limit.sides)
    return document_of(
        study,
        "batch-size search",
        f"Largest batch that fits: {first.model} on {dataset_words(first.dataset)}",
        study.experiments,
        [
            _results_section(limit, margin, multiple),
            _chart(limit),
            *_throughput_section(limit),
            *_trials_section(limit),
        ]
        if is_begun
        else [],
        answers=(Conclusion(None, pieces_of(limit), notes_of(limit)),),
        has_batch=False,
        tables={"": lambda: _trial_rows(limit)},
        values=lambda: values(study),
    )


def _results_section(limit: Limit, margin: float, multiple: int) -> Section:
    base, (unit, scale) = limit.baseline, memory_unit([side.budget_mib for side in limit.sides])
    decimals = decimals_for([side.budget_mib and side.budget_mib / scale for side in limit.sides])
    free = f"With {share_text(margin)} free" if margin else "Without margin"
    of_multiple = "" if multiple == 1 else f", multiple of {multiple:,}"
    headings = (
        "Precision",
        "Largest batch",
        f"vs. {base.label}",
        f"Peak, {unit}",
        f"{free}{of_multiple}",
        "Verified",
    )
    batches = {
        side.label: recommended_batch(side, margin, multiple) if side.is_over and side.largest_batch else 0
        for side in limit.sides
    }
    rows = []
    begun = (side for side in limit.sides if side.trials or side.is_over or side.trying is not None)
    for side in begun:
        peak = next((gib for batch, gib in side.passed if batch == side.largest_batch), None)
        ratio = times_the_batch(base, side)
        fits_none = side.result is not None and side.result.bound_by == "memory"
        number = "0" if fits_none else NONE
        if side.largest_batch:
            number = f"{'≥ ' if side.at_least else ''}{side.largest_batch:,}"
        batch = batches[side.label]
        rows.append(
            (
                CellText(side.label, mark=side.precision),
                CellText(number, side.largest_batch, is_strong=side is limit.best),
                CellText(NONE if ratio is None else f"{times(ratio)}×", ratio),
                CellText(NONE if peak is None else f"{peak * MIB_PER_GIB / scale:,.{decimals}f}", peak),
                CellText(f"{batch:,}" if batch else NONE, batch or None),
                verification(side),
            )
        )
    actions = tuple(
        Action(
            f"Use {batch:,}",
            f"Set the form's batch size to {batch:,} ({label})",
            "use",
            (("batch_size", str(batch)),),
        )
        for batch, label in {batch: label for label, batch in batches.items() if batch}.items()
    )
    return Section(
        "Largest batches",
        (),
        headings,
        tuple(rows),
        headings[1:5],
        tab=MEMORY,
        actions=actions[:_MOST_ACTIONS],
    )


def memory_content(limit: Limit, *, shows_forecast: bool = True) -> MemoryContent:
    """Return the content of the chart of memory by batch size."""
    best, ratio = limit.best, None
    if limit.ratio is not None and best is not None:
        ratio = (limit.baseline.largest_batch, best.largest_batch, f"{times(limit.ratio)}× the batch")
    budget = limit.budget_mib or (None if limit.cap_gib is None else limit.cap_gib * MIB_PER_GIB)
    capacity = None if budget is None else budget / MIB_PER_GIB
    return MemoryContent(limit.sides, capacity, limit_label(limit), ratio, shows_forecast)


def _chart(limit: Limit) -> Section:
    content, said = memory_content(limit), limit.digest
    chart = Picture("memory", lambda width: memory_chart(content, (width, 480.0), said), "Peak memory", "GiB")
    return Section("", pictures=(chart,), tab=MEMORY, widget="memory")


def throughput_content(limit: Limit) -> MemoryContent:
    """Return the content of the chart of throughput by batch size. It is empty without a curve."""
    sides = tuple(side for side in limit.sides if len(side.throughputs) > 1)
    return MemoryContent(sides, shows_forecast=False, shows_throughput=True)


_ONE_STEP = "Each mark is one step, a rough value without an interval."
_MARKED = "A dotted line marks the largest batch that fits."


def _throughput_section(limit: Limit) -> Iterator[Section]:
    content, sentences = throughput_content(limit), tuple(throughput_sentences(limit))
    if not content.sides:
        return
    chart = Picture(
        "throughput",
        lambda width: memory_chart(content, (width, 480.0), " ".join(sentences)),
        "Throughput of one step",
        "samples/s",
    )
    notes = (f"{_ONE_STEP} {_MARKED}" if any(side.answer for side in content.sides) else _ONE_STEP,)
    yield Section(THROUGHPUT, sentences, notes=notes, pictures=(chart,), tab=THROUGHPUT, widget="throughput")


def _trials_section(limit: Limit) -> Iterator[Section]:
    trials = [trial for side in limit.sides for trial in side.trials]
    unit, scale = memory_unit([*(trial.peak_mib for trial in trials), limit.budget_mib])
    headings = ["Precision", "Batch", "Result", f"Peak memory, {unit}", "Seconds"]
    has_speeds = any(trial.one_step_samples_per_second for trial in trials)
    if has_speeds:
        headings.insert(4, "One step, samples/s")
    rows = tuple(
        _trial_cells(trial, side, scale, has_speeds) for side in limit.sides for trial in side.trials
    )
    if rows:
        yield Section(TRIALS, (), tuple(headings), rows, (headings[1], *headings[3:]), tab=TRIALS)


def _trial_cells(trial: Trial, side: LimitSide, scale: float, has_speed: bool) -> tuple[CellText, ...]:
    peak, is_over = trial.peak_mib, trial.cause == "memory" and side.budget_mib is not None
    known = side.budget_mib if is_over else peak
    decimals = decimals_for([(side.budget_mib or peak or 0.0) / scale])
    text = NONE if known is None else f"{'over ' if is_over else ''}{known / scale:,.{decimals}f}"
    is_strong, speed = is_answer(trial, side), trial.one_step_samples_per_second
    return (
        CellText(side.label, mark=side.precision),
        CellText(f"{trial.batch_size:,}", trial.batch_size, is_strong=is_strong),
        CellText(
            result_words(trial, side).capitalize(),
            mark="check" if trial.fits else "cross-outline",
            is_strong=is_strong,
            is_faint=not trial.fits,
        ),
        CellText(text, known, is_faint=not trial.fits),
        *((CellText(number(speed), speed),) if has_speed else ()),
        CellText(f"{trial.seconds:,.1f}", trial.seconds),
    )


def _trial_rows(limit: Limit) -> Iterator[Row]:
    for side in limit.sides:
        for trial in side.trials:
            yield {
                "precision": side.label,
                "batch_size": trial.batch_size,
                "fits": trial.fits,
                "cause": trial.cause or "",
                "peak_mib": trial.peak_mib,
                "reserved_mib": trial.reserved_mib,
                "budget_mib": side.budget_mib,
                "one_step_samples_per_second": trial.one_step_samples_per_second,
                "seconds": trial.seconds,
                "steps": trial.steps,
                "uncompiled": trial.uncompiled,
                "unsearched": trial.unsearched,
                "note": trial.note or "",
            }


def values(study: Study[Limit]) -> dict[str, Any]:
    """Return the started sides as `ammeter limit --json` prints them. Without a result only their trials."""
    begun = (side for side in study.answer.sides if side.trials or side.result is not None)
    return {"results": [_side_values(study.id, side) for side in begun]}


def _side_values(study_id: str, side: LimitSide) -> dict[str, Any]:
    trials = [json.loads(trial.model_dump_json()) for trial in side.trials]
    known = {"trials": trials} if side.result is None else json.loads(side.result.model_dump_json())
    return {"id": study_id, "label": side.label, "experiment": json.loads(side.experiment.to_json()), **known}
