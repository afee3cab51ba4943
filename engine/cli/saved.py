"""The verbs for saved runs: `runs`, `show` and `delete`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from engine.cli import output, tables
from engine.cli.options import AsJson
from engine.experiment import flattened
from engine.exports.plain_values import plain_column
from engine.records.record import RunRecord
from engine.records.store import Store

_ROWS_SHOWN = 20

RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or any unambiguous start of it.")]
RunIds = Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids, or unambiguous starts of them.")]


def runs(
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many.", metavar="N")] = None,
    as_json: AsJson = False,
) -> int:
    """List the saved runs, newest first."""
    with saved_runs() as store:
        found, unreadable = store.listing(limit)
    if as_json:
        left_out = [{"id": run.id, "name": run.name, "message": run.why} for run in unreadable]
        told = {"unreadable": left_out} if left_out else {}
        output.json_object({"runs": [run.to_dict() for run in found], **told})
        return 0
    for left in unreadable:
        output.warning(f"{left.name} ({left.id}) is left out. {left.why}")
    if found:
        tables.runs_table(found)
    elif not unreadable:
        output.line("There are no saved runs yet. `ammeter run --preset hello-amp` makes the first.")
    return 0


def show(
    run: RunId,
    samples: Annotated[bool, typer.Option("--samples", help="Add the curves, one value a step.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show one run, whole: settings, environment and summary."""
    with saved_runs() as store:
        found = store.run(run)
        columns = store.samples(found.id) if samples else None
    if as_json:
        whole = found.to_dict()
        if columns is not None:
            whole["samples"] = {name: plain_column(values) for name, values in columns.items()}
        output.json_object(whole)
    else:
        _show(found, columns)
    return 0


def delete(runs: RunIds, as_json: AsJson = False) -> int:
    """Delete saved runs with their samples."""
    with saved_runs(writes=True) as store:
        found = dict(map(store.name, runs))
        store.remove(found)
    if as_json:
        output.json_object({"deleted": list(found)})
    else:
        for run_id, name in found.items():
            output.line(f"Deleted {name} ({run_id}).")
    return 0


@contextmanager
def saved_runs(*, writes: bool = False) -> Iterator[Store]:
    """The store, in which runs whose process is gone count as interrupted.

    Raises ProblemError where nothing can be saved, for a verb that `writes`; another is told.
    """
    with Store() as store:
        store.recover()
        for note in store.notes:
            output.aside(note)
        if writes:
            store.check_writable()
        elif store.unwritable is not None:
            output.warning(store.unwritable.message)
        yield store


def _show(run: RunRecord, columns: dict[str, NDArray[Any]] | None) -> None:
    tables.run_summary(run)
    if run.problem is not None:
        output.line(f"\n{run.problem.message}\n{run.problem.remedy}")
    if run.tags:
        output.line(f"\nTags: {', '.join(run.tags)}")
    if run.note:
        output.line(f"\n{run.note}")
    output.line("\nSettings")
    output.pairs(_shown(flattened(run.experiment)))
    if run.environment is not None:
        output.line("\nEnvironment")
        output.pairs(_shown(run.environment.model_dump()))
    if columns:
        _show_curves(columns)


def _shown(settings: dict[str, Any]) -> list[tuple[str, str]]:
    return [(key, "none" if value is None else str(value)) for key, value in settings.items()]


def _show_curves(columns: dict[str, NDArray[Any]]) -> None:
    rows = len(next(iter(columns.values())))
    chosen = np.unique(np.linspace(0, rows - 1, min(rows, _ROWS_SHOWN)).astype(int))
    output.line(f"\nCurves: {len(chosen)} of {rows:,} steps; --json has them all")
    cells = [[f"{columns[name][row]:,.6g}" for name in columns] for row in chosen]
    output.table(list(columns), cells, list(columns))
