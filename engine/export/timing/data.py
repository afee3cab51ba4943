"""A timing as data: JSON, CSV files (RFC 4180), and the recorded traces.

The JSON is what `ammeter profile --json` prints, with the device. `x.csv` has the sentences; the tables go
beside it, with a row for each side: `x-parts.csv`, `x-sides.csv` (figures, limits and energy),
`x-kernels.csv`, `x-operations.csv`, `x-modules.csv` and `x-advice.csv`. The trace of the first side with a
trace goes to `x.json.gz`, that of the second to `x-2.json.gz`. Perfetto and chrome://tracing open them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from engine.experiment.problem import ProblemError, request_problem
from engine.export.sections.data import Row, write_object, write_tables
from engine.export.timing.formats import TRACE
from engine.export.timing.tables import sections
from engine.export.timing.values import as_json
from engine.protocol.timing.bar import Bar
from engine.protocol.timing.profile import StepProfile
from engine.protocol.timing.timing import Timing
from engine.store.saved.study import Study
from engine.store.saved.traces import traces_of
from engine.timing.advice import advice_by_side
from engine.timing.names import side_names
from engine.timing.tables import TABLES, Table


def write_json(study: Study[Timing], path: Path) -> None:
    """Writes one object."""
    write_object(study, path, **as_json(study.answer))


def write_csv(study: Study[Timing], path: Path) -> None:
    """Writes the sentences to `path`, and the tables beside it."""
    timing = study.answer
    tables: dict[str, Iterator[Row]] = {"parts": _parts(timing), "sides": _sides(timing)}
    tables |= {table: _rows(timing, table) for table in TABLES}
    tables["advice"] = _advice(timing)
    write_tables(sections(timing), tables, path)


def write_traces(study: Study[Timing], path: Path) -> None:
    """Copies the traces to `path` and beside it. Raises ProblemError where there is none."""
    traces = () if study.folder is None else traces_of(study.answer, study.folder)
    if not traces:
        message = "There is no trace of this timing, or none any more."
        raise ProblemError(request_problem(message, "Profile again.", key="to", value=path.name))
    for number, trace in enumerate(traces, 1):
        beside = f"{path.name[: -len(TRACE)]}-{number}{TRACE}"
        shutil.copyfile(trace, path if number == 1 else path.with_name(beside))


def _profiles(timing: Timing) -> Iterator[tuple[str, StepProfile]]:
    for name, side in zip(side_names(timing), timing.sides, strict=True):
        if side.profile is not None:
            yield name, side.profile


def _parts(timing: Timing) -> Iterator[Row]:
    for name, profile in _profiles(timing):
        for of, bar in (("step", profile.bar), ("validation batch", profile.validation or Bar())):
            for entry in bar.parts:
                share = bar.fraction(entry.part)
                yield {"side": name, "of": of, "part": entry.part.value, "ms": entry.ms, "share": share}


_NOT_FIGURES = {"bar", "validation", "limits", "energy", "advice", "notes", *TABLES}


def _sides(timing: Timing) -> Iterator[Row]:
    for name, profile in _profiles(timing):
        limits, energy = profile.limits, profile.energy
        row = {"side": name, **profile.model_dump(mode="json", exclude=_NOT_FIGURES), "mfu": profile.mfu}
        if limits is not None:
            row |= {f"peak_{peak.format}_tflops": peak.tflops for peak in limits.peaks}
            row["peak_gb_per_second"] = limits.gb_per_second
        if energy is not None:
            row |= {f"energy_{key}": value for key, value in energy.model_dump(mode="json").items()}
            row |= {"joules_per_step": energy.per_step(), "mean_watts": energy.mean_watts}
        yield row


def _rows(timing: Timing, table: Table) -> Iterator[Row]:
    for name, profile in _profiles(timing):
        for row in getattr(profile, table):
            achieved = {"tflops": row.tflops, "gb_per_second": row.gb_per_second}
            yield {"side": name, **row.model_dump(mode="json"), **achieved}


def _advice(timing: Timing) -> Iterator[Row]:
    for names, item in advice_by_side(timing):
        yield {"sides": names, **item.model_dump(mode="json"), "changes": dict(item.changes)}
