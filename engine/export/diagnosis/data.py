"""A diagnosis as data: JSON, and CSV files (RFC 4180).

The JSON is what `ammeter diagnose --json` prints, with the experiment and its device. `x.csv` has a row for
each known part with its sentences; a part's table goes beside it: `x-map.csv`, `x-range.csv`, `x-ladder.csv`,
`x-modules.csv` (how far each module is from FP32 on each rung), `x-islands.csv` and `x-advice.csv`. What a
format loses of gradients is at the loss scale, though their exponents are without it. An apostrophe precedes
text that a spreadsheet would run as a formula.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.export.diagnosis.tables import lost_shares, sections
from engine.export.sections.data import Row, write_object, write_tables
from engine.protocol.numerics.diagnosis import Diagnosis, Numerics
from engine.protocol.numerics.formats import SMALL_FORMATS
from engine.protocol.numerics.ranges import ModuleRange, Ranges
from engine.store.saved.study import Study


def write_json(study: Study[Numerics], path: Path) -> None:
    """Writes one object."""
    problem = study.problem
    write_object(
        study,
        path,
        run=study.answer.run_id,
        parts=list(study.answer.parts),
        problem=None if problem is None else problem.model_dump(mode="json"),
        experiment=json.loads(study.answer.experiment.to_json()),
        **study.answer.diagnosis.as_json(),
    )


def write_csv(study: Study[Numerics], path: Path) -> None:
    """Writes the sentences to `path`, and the tables of the known parts beside it."""
    diagnosis = study.answer.diagnosis
    tables = {name: rows_of(diagnosis) for name, rows_of in _TABLES.items()}
    write_tables(sections(diagnosis), tables, path)


def _map(diagnosis: Diagnosis) -> Iterator[Row]:
    classes = {} if diagnosis.map is None else {row.name: row.class_name for row in diagnosis.map.modules}
    for row in () if diagnosis.map is None else diagnosis.map.operations:
        yield {
            "module": row.module,
            "class": classes.get(row.module, ""),
            "operation": row.name,
            "computed_in": row.computed_in,
            **row.model_dump(exclude={"module", "name"}),
        }


def _ranges(diagnosis: Diagnosis) -> Iterator[Row]:
    ranges = diagnosis.range
    if ranges is None:
        return
    for row in ranges.rows:
        held = row.exponents
        yield {
            **row.model_dump(exclude={"exponents"}),
            **{name: getattr(held, name) for name in ("total", "zeros", "infinite", "nan")},
            **{name: getattr(held, name) for name in ("smallest", "largest")},
            **dict(_lost(ranges, row)),
        }


def _lost(ranges: Ranges, row: ModuleRange) -> Iterator[tuple[str, float]]:
    for form in SMALL_FORMATS:
        yield from zip(
            (f"{form.name}_underflow", f"{form.name}_overflow"), lost_shares(ranges, row, form), strict=True
        )


def _ladder(diagnosis: Diagnosis) -> Iterator[Row]:
    ladder = diagnosis.ladder
    if ladder is None:
        return
    repeats = [(f"FP32 {number}", losses) for number, losses in enumerate(ladder.repeats, 1)]
    for label, losses in (*repeats, *((rung.label, rung.losses) for rung in ladder.rungs)):
        for place, loss in enumerate(losses):
            low, high = (
                edge[place] if place < len(edge) else None for edge in (ladder.band_low, ladder.band_high)
            )
            yield {"rung": label, "step": place + 1, "loss": loss, "band_low": low, "band_high": high}


def _modules(diagnosis: Diagnosis) -> Iterator[Row]:
    for rung in () if diagnosis.ladder is None else diagnosis.ladder.rungs:
        for error in rung.errors:
            yield {"rung": rung.label, "precision": rung.precision.value, **error.model_dump()}


def _islands(diagnosis: Diagnosis) -> Iterator[Row]:
    for trial in () if diagnosis.islands is None else diagnosis.islands.trials:
        yield trial.model_dump()


def _advice(diagnosis: Diagnosis) -> Iterator[Row]:
    for item in () if diagnosis.advice is None else diagnosis.advice.items:
        yield {**item.model_dump(mode="json"), "changes": dict(item.changes)}


_TABLES: dict[str, Callable[[Diagnosis], Iterator[Row]]] = {
    "map": _map,
    "range": _ranges,
    "ladder": _ladder,
    "modules": _modules,
    "islands": _islands,
    "advice": _advice,
}
