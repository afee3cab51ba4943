"""Save sweeps: a grid, its plan, the state of each combination, and the process that runs the sweep."""

from __future__ import annotations

import sqlite3
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

from engine import __version__
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.sweep import Grid, Pilot, Plan
from engine.experiment.value import one_line
from engine.store.connection import Connection
from engine.store.queue import leave, owner_from, this_owner
from engine.store.record import RUN_COLUMNS, RunRecord, Status, moment, run_from
from engine.store.runs import add_comparison, cleaned_name, drop_comparison
from engine.store.saved.studies import SavedTable, new_id
from engine.store.schema import SEALED, insert, is_intact, seal

DOES_NOT_FIT = "does not fit"
"""The end of the saved reason why a cell is excluded, if it needs more memory than there is."""


@dataclass(frozen=True)
class CellRecord:
    """A saved cell of a sweep (one combination of its values), with its runs in the order of their repeats.

    `left_out` is the reason if the cell is excluded, `problem` the error that ended its last run early.
    """

    index: int
    left_out: str = ""
    is_paused: bool = False
    pilot: Pilot | None = None
    problem: Problem | None = None
    runs: tuple[RunRecord, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class SweepRecord:
    """A saved sweep: its grid, plan and cells. Its runs belong to `comparison`.

    `ended` is None while runs are left to train. `is_claimed` is True while a running process trains it.
    `machine` is where it trains, "" for this one. `spent_seconds` count towards the plan's time limit.
    `problem` is the error that ended it early.
    """

    grid: Grid = field(repr=False)
    plan: Plan
    cells: tuple[CellRecord, ...] = field(repr=False)
    id: str = ""
    number: int = 0
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    name: str = ""
    device_name: str = ""
    comparison: str | None = None
    spent_seconds: float = 0.0
    ended: datetime | None = None
    problem: Problem | None = None
    is_claimed: bool = False
    ammeter: str | None = None
    machine: str = ""


class SweepTable(SavedTable):
    """The table of saved sweeps. Runs are added to a sweep by `Store.add`."""

    _table = "sweeps"

    def __init__(self, connection: Connection, *, is_bare: bool = False) -> None:
        super().__init__(connection)
        self._is_bare = is_bare
        self._runs: dict[str, tuple[tuple[object, ...], RunRecord]] = {}

    @property
    def bare(self) -> SweepTable:
        """The same table, but sweeps are read without their cells, of which there can be thousands."""
        return SweepTable(self._connection, is_bare=True)

    def newest(self, limit: int | None = None) -> tuple[SweepRecord, ...]:
        """Return the readable sweeps, newest first, all without a limit."""
        statement = "SELECT * FROM sweeps ORDER BY number DESC LIMIT ?"
        records = []
        with self._connection.reading() as connection:
            for row in connection.execute(statement, (-1 if limit is None else limit,)).fetchall():
                # one sweep must not hide the others
                with suppress(ProblemError, ValueError):
                    records.append(self._record(connection, row))
        return tuple(records)

    def find(self, work_id: str) -> SweepRecord:
        with self._connection.reading() as connection:
            return self._record(connection, self._row(connection, work_id))

    def claim(self, work_id: str) -> None:
        """Mark a sweep as run by this process. Raises ProblemError if another process runs it."""
        with self._connection.writing() as connection:
            self._free_row(connection, work_id)
            self._change(connection, work_id, owner=this_owner(), ended=None, problem=None)

    def add(
        self,
        name: str,
        grid: Grid,
        plan: Plan,
        *,
        device_name: str,
        left_out: Mapping[int, str] | None = None,
        machine: str = "",
    ) -> str:
        """Add a sweep and the comparison of its runs, and return its id. Without a name it is "Sweep N".

        `left_out` are the excluded cells, by index, with the reason as a sentence.
        """
        sweep_id, comparison, reasons = new_id(), new_id(), left_out or {}
        with self._connection.writing() as connection:
            number = connection.execute("SELECT coalesce(max(number), 0) + 1 FROM sweeps").fetchone()[0]
            title = cleaned_name(name) or f"Sweep {number}"
            add_comparison(connection, comparison, title)
            insert(
                connection,
                "sweeps",
                id=sweep_id,
                number=number,
                created=time.time(),
                ammeter=__version__,
                name=title,
                grid=grid.model_dump_json(),
                plan=plan.model_dump_json(),
                device_name=device_name,
                comparison=comparison,
                machine=machine,
            )
            seal(connection, self._table, sweep_id)
            connection.executemany(
                "INSERT INTO sweep_cells (sweep, position, left_out) VALUES (?, ?, ?)",
                [(sweep_id, index, reasons.get(index)) for index in range(grid.size)],
            )
        return sweep_id

    def set_pilot(self, sweep_id: str, cell: int, pilot: Pilot) -> None:
        self._set_cell(sweep_id, cell, pilot=pilot.model_dump_json())

    def set_cell_problem(self, sweep_id: str, cell: int, problem: Problem | None) -> None:
        """Record why a cell is not trained further. None allows it again."""
        self._set_cell(sweep_id, cell, problem=None if problem is None else problem.model_dump_json())

    def pause(self, sweep_id: str, cell: int, is_paused: bool) -> None:
        """Keep a cell from being trained, or allow it again, also if it was skipped or has failed."""
        allowed = {} if is_paused else {"problem": None}
        self._set_cell(sweep_id, cell, is_held=int(is_paused), **allowed)

    def leave_out(self, sweep_id: str, cell: int, why: str) -> None:
        """Exclude a cell, with a reason as a sentence. An empty reason includes it again."""
        self._set_cell(sweep_id, cell, left_out=why or None)

    def rename(self, sweep_id: str, name: str) -> None:
        """Rename a sweep and the comparison of its runs. An empty name changes nothing."""
        if not (title := cleaned_name(name)):
            return
        with self._connection.writing() as connection:
            self._change(connection, sweep_id, name=title)
            statement = (
                "UPDATE comparisons SET title = ? WHERE id = (SELECT comparison FROM sweeps WHERE id = ?)"
            )
            connection.execute(statement, (title, sweep_id))

    def spend(self, sweep_id: str, seconds: float) -> None:
        """Add to the time spent on a sweep. Pauses are subtracted."""
        statement = "UPDATE sweeps SET spent_seconds = spent_seconds + ? WHERE id = ?"
        with self._connection.writing() as connection:
            connection.execute(statement, (seconds, sweep_id))

    def end(self, sweep_id: str, problem: Problem | None = None) -> None:
        """Mark a sweep as finished and remove it from the queue. `problem` ended it early."""
        text = None if problem is None else problem.model_dump_json()
        with self._connection.writing() as connection:
            self._change(connection, sweep_id, ended=time.time(), problem=text)
            leave(connection, sweep_id)

    def delete(self, work_id: str) -> None:
        """Delete a sweep, but not its runs. Refused while another process runs it."""
        with self._connection.writing() as connection:
            row = self._free_row(connection, work_id)
            connection.execute("DELETE FROM sweeps WHERE id = ?", (work_id,))
            leave(connection, work_id)
            drop_comparison(connection, row["comparison"])

    def _set_cell(self, sweep_id: str, cell: int, **columns: object) -> None:
        changes = ", ".join(f"{name} = ?" for name in columns)
        with self._connection.writing() as connection:
            connection.execute(
                f"UPDATE sweep_cells SET {changes} WHERE sweep = ? AND position = ?",
                (*columns.values(), sweep_id, cell),
            )

    def _cells(self, connection: sqlite3.Connection, sweep_id: str) -> tuple[CellRecord, ...]:
        runs: dict[int, list[RunRecord]] = defaultdict(list)
        for run in connection.execute(
            f"SELECT {RUN_COLUMNS} FROM runs WHERE sweep = ? AND deleted IS NULL ORDER BY cell, repeat",
            (sweep_id,),
        ):
            # one run must not hide the others
            with suppress(ProblemError, ValueError, TypeError, OverflowError, OSError):
                runs[run["cell"]].append(self._run(run))
        statement = "SELECT * FROM sweep_cells WHERE sweep = ? ORDER BY position"
        return tuple(
            CellRecord(
                index=row["position"],
                left_out=row["left_out"] or "",
                is_paused=bool(row["is_held"]),
                pilot=Pilot.model_validate_json(row["pilot"]) if row["pilot"] else None,
                problem=_problem(row["problem"]),
                runs=tuple(runs[row["position"]]),
            )
            for row in connection.execute(statement, (sweep_id,)).fetchall()
        )

    def _run(self, row: sqlite3.Row) -> RunRecord:
        # a sweep is read after every turn; an unchanged run keeps what was parsed of it
        values, known = tuple(row), self._runs.get(row["id"])
        if known is None or known[0] != values:
            run = run_from(row)
            if run.status is Status.FINISHED:
                # its figures count, so damage shows here, where it costs no more than this run
                _ = run.experiment, run.summary
            known = self._runs[row["id"]] = values, run
        return known[1]

    def _record(self, connection: sqlite3.Connection, row: sqlite3.Row) -> SweepRecord:
        if not is_intact(row, SEALED["sweeps"]):
            message = f"{one_line(row['name'])} cannot be read. Its settings are damaged (checksum mismatch)."
            remedy = "Delete it and start it again. Its runs are kept."
            raise ProblemError(Problem(kind=Kind.STORE, message=message, remedy=remedy))
        owner = None if row["owner"] is None else owner_from(row["owner"])
        return SweepRecord(
            id=row["id"],
            number=row["number"],
            created=moment(row["created"]),
            ammeter=row["ammeter"],
            machine=one_line(row["machine"]),
            name=row["name"],
            grid=_grid(row["grid"]),
            plan=Plan.model_validate_json(row["plan"]),
            device_name=row["device_name"],
            comparison=row["comparison"],
            spent_seconds=row["spent_seconds"],
            ended=None if row["ended"] is None else moment(row["ended"]),
            problem=_problem(row["problem"]),
            is_claimed=owner is not None and not owner.is_gone,
            cells=() if self._is_bare else self._cells(connection, row["id"]),
        )


@lru_cache(maxsize=8)
def _grid(text: str) -> Grid:
    # a sweep is read after every turn, and thousands of cells take a second to validate
    return Grid.model_validate_json(text)


def _problem(text: str | None) -> Problem | None:
    return Problem.model_validate_json(text) if text else None
