"""The memory limit as a document: the largest batch of each precision, and the trials that prove it.

The CSV file has a row for every trial.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.compare.names import experiment_titles
from engine.experiment.experiment import Precision
from engine.experiment.value import MIB_PER_GIB
from engine.export.document import Cells, Document, Picture, Row, Section, document_of
from engine.limit.memory_chart import memory_chart
from engine.limit.memory_range import MemoryContent
from engine.limit.result import outcome, sentence, telling
from engine.protocol.memory_lines import MemoryLine
from engine.protocol.trials import ProbeResult, Trial
from engine.store.saved.searches import ProbeRecord
from engine.words.names import dataset_words
from engine.words.numbers import NONE, counted, memory_text

_TRIALS = ("Batch", "Outcome", "Peak, MiB", "Seconds")


@dataclass(frozen=True)
class LimitSide:
    """The search in one precision, as its chart takes it; `result` is None where it never came to its end."""

    label: str
    precision: Precision
    trials: tuple[Trial, ...]
    result: ProbeResult | None
    trying: int | None = None

    @property
    def largest_batch(self) -> int:
        return max((trial.batch_size for trial in telling(self.trials) if trial.fits), default=0)

    @property
    def answer(self) -> int | None:
        return self.largest_batch if self.result is not None and self.result.verified else None

    @property
    def passed(self) -> tuple[tuple[int, float], ...]:
        peaks = ((trial.batch_size, trial.peak_mib) for trial in telling(self.trials) if trial.fits)
        return tuple(sorted((batch, mib / MIB_PER_GIB) for batch, mib in peaks if mib is not None))

    @property
    def failed(self) -> tuple[int, ...]:
        return tuple(trial.batch_size for trial in telling(self.trials) if not trial.fits)

    @property
    def lines(self) -> tuple[MemoryLine, ...]:
        """The line through the smallest and the largest trial that passed."""
        if len(self.passed) < 2 or self.passed[0][0] == self.passed[-1][0]:
            return ()
        (low, less), (high, more) = self.passed[0], self.passed[-1]
        slope = (more - less) * MIB_PER_GIB / (high - low)
        return (MemoryLine(fixed_mib=less * MIB_PER_GIB - slope * low, per_sample_mib=slope),)


def document(records: Sequence[ProbeRecord]) -> Document:
    """The document of searches that were made together."""
    first, experiments = records[0], [record.experiment for record in records]
    titles = experiment_titles(experiments)
    sides = [
        LimitSide(title, record.experiment.precision, record.trials, record.result)
        for title, record in zip(titles, records, strict=True)
    ]
    return document_of(
        first,
        "search",
        f"Largest batch that fits: {first.experiment.model} on {dataset_words(first.experiment.dataset)}",
        experiments,
        [_result(sides, [record.budget_mib for record in records]), *map(section, sides)],
        has_batch=False,
        tables={"": lambda: _rows(titles, records)},
        values=lambda: {"results": list(map(_values, titles, records))},
    )


def _result(sides: Sequence[LimitSide], budgets: Sequence[float | None]) -> Section:
    budget = next((budget for budget in reversed(budgets) if budget), None)
    words = "" if budget is None else f"{memory_text(budget)} available"
    content = MemoryContent(tuple(sides), None if budget is None else budget / MIB_PER_GIB, (words, ""))
    said = sentence(sides)
    chart = Picture("memory", lambda width: memory_chart(content, (width, 480.0), said), "Peak memory", "GiB")
    return Section("Result", (said,), pictures=(chart,) if any(side.trials for side in sides) else ())


def section(side: LimitSide) -> Section:
    """The trials of a side."""
    result = side.result
    seconds = sum(trial.seconds for trial in side.trials) if result is None else result.seconds
    margin = None if result is None or not result.recommended_batch else result.recommended_batch
    notes = (
        "" if margin is None else f"With a margin: {margin:,}.",
        "" if result is None else result.note or "",
    )
    return Section(
        f"{side.label}: {counted(len(side.trials), 'trial')} in {seconds:,.1f} s",
        headings=_TRIALS,
        rows=tuple(map(_cells, side.trials)),
        right=("Batch", "Peak, MiB", "Seconds"),
        notes=tuple(note for note in notes if note),
    )


def _cells(trial: Trial) -> Cells:
    peak = NONE if trial.peak_mib is None else f"{trial.peak_mib:,.0f}"
    return f"{trial.batch_size:,}", outcome(trial), peak, f"{trial.seconds:,.1f}"


def _rows(titles: Sequence[str], records: Sequence[ProbeRecord]) -> Iterator[Row]:
    for title, record in zip(titles, records, strict=True):
        for trial in record.trials:
            yield {
                "precision": title,
                "batch_size": trial.batch_size,
                "fits": trial.fits,
                "cause": trial.cause or "",
                "peak_mib": trial.peak_mib,
                "reserved_mib": trial.reserved_mib,
                "budget_mib": record.budget_mib,
                "seconds": trial.seconds,
                "steps": trial.steps,
                "uncompiled": trial.uncompiled,
                "note": trial.note or "",
            }


def _values(title: str, record: ProbeRecord) -> dict[str, Any]:
    """A search as `ammeter probe --json` prints it, with its experiment; without a result only its trials."""
    trials = [json.loads(trial.model_dump_json()) for trial in record.trials]
    known = {"trials": trials} if record.result is None else json.loads(record.result.model_dump_json())
    return {"id": record.id, "label": title, "experiment": json.loads(record.experiment.to_json()), **known}
