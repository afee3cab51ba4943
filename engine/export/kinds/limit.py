"""The largest batch as a document: the result of each precision, and the trials that verify it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from engine.compare.verdict import Piece
from engine.experiment.value import MIB_PER_GIB
from engine.export.document import Answer, Cells, Document, Picture, Row, Section, document_of
from engine.limit.memory_chart import MemoryContent, memory_chart
from engine.limit.result import result_words
from engine.protocol.trials import Limit, LimitSide, Trial
from engine.store.saved.studies import Study
from engine.words.names import dataset_words
from engine.words.numbers import NONE, counted, memory_text

_TRIALS = ("Batch", "Result", "Peak memory, MiB", "Seconds")


def document(study: Study[Limit]) -> Document:
    limit, first = study.answer, study.experiments[0]
    return document_of(
        study,
        "batch-size search",
        f"Largest batch that fits: {first.model} on {dataset_words(first.dataset)}",
        study.experiments,
        [_result(limit), *map(_section, _begun(limit))] if limit.is_known else [],
        answers=(Answer(None, (Piece(limit.digest),)),) if limit.is_known else (),
        has_batch=False,
        tables={"": lambda: _rows(limit)},
        values=lambda: values(study),
    )


def _result(limit: Limit) -> Section:
    budget = limit.budget_mib
    words = "" if budget is None else f"{memory_text(budget)} available"
    content = MemoryContent(limit.sides, None if budget is None else budget / MIB_PER_GIB, (words, ""))
    said = limit.digest
    chart = Picture("memory", lambda width: memory_chart(content, (width, 480.0), said), "Peak memory", "GiB")
    return Section("", pictures=(chart,))


def _begun(limit: Limit) -> list[LimitSide]:
    return [side for side in limit.sides if side.trials or side.result is not None]


def _section(side: LimitSide) -> Section:
    result = side.result
    margin = None if result is None or not result.recommended_batch else result.recommended_batch
    notes = (
        "" if margin is None else f"Recommended, with a margin: {margin:,}.",
        "" if result is None else result.note or "",
    )
    return Section(
        f"{side.label}: {counted(len(side.trials), 'trial')} in {side.seconds:,.1f} s",
        headings=_TRIALS,
        rows=tuple(map(_cells, side.trials)),
        right=("Batch", "Peak memory, MiB", "Seconds"),
        notes=tuple(note for note in notes if note),
    )


def _cells(trial: Trial) -> Cells:
    peak = NONE if trial.peak_mib is None else f"{trial.peak_mib:,.0f}"
    return f"{trial.batch_size:,}", result_words(trial), peak, f"{trial.seconds:,.1f}"


def _rows(limit: Limit) -> Iterator[Row]:
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
                "seconds": trial.seconds,
                "steps": trial.steps,
                "uncompiled": trial.uncompiled,
                "unsearched": trial.unsearched,
                "note": trial.note or "",
            }


def values(study: Study[Limit]) -> dict[str, Any]:
    """Return the started sides as `ammeter limit --json` prints them. Without a result only their trials."""
    return {"results": [_values(study.id, side) for side in _begun(study.answer)]}


def _values(study_id: str, side: LimitSide) -> dict[str, Any]:
    trials = [json.loads(trial.model_dump_json()) for trial in side.trials]
    known = {"trials": trials} if side.result is None else json.loads(side.result.model_dump_json())
    return {"id": study_id, "label": side.label, "experiment": json.loads(side.experiment.to_json()), **known}
