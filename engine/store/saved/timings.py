"""Saved timings: the profiles of several experiments side by side, and their traces as files."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from pydantic import BaseModel

from engine.experiment.experiment import Experiment
from engine.experiment.paths import file_name_of, traces_folder
from engine.experiment.problem import Problem, request_problem
from engine.protocol.timing.profile import StepProfile
from engine.protocol.timing.timing import Timing, TimingSide
from engine.store.saved.work import SavedWork, created


@dataclass(frozen=True)
class TimingRecord:
    """A timing; `device_name` is the device of its first side.

    `is_over` is False while it goes on, or if its program ended; what was known by then is there all the
    same.
    """

    id: str
    number: int
    created: datetime
    device_name: str
    is_over: bool
    bare: Timing = field(repr=False)
    """The sides without their profiles."""
    profiles: tuple[str | None, ...] = field(repr=False)
    """The sides' profiles as JSON."""
    folder: Path = field(repr=False)
    """Where the traces are."""
    ammeter: str | None = None

    @cached_property
    def timing(self) -> Timing:
        """The sides with their profiles, read at first use; those that cannot be read are left out."""
        timing = self.bare
        for place, text in enumerate(self.profiles):
            # one profile must not hide the others
            with suppress(ValueError):
                if text is not None:
                    timing = timing.with_side(place, profile=StepProfile.model_validate_json(text))
        return timing

    def traces(self) -> tuple[Path, ...]:
        """The files of the profiles' traces, as far as they are there."""
        traces = (_trace(self.folder, profile) for profile in self.timing.profiles())
        return tuple(path for path in traces if path is not None)


class Timings(SavedWork[TimingRecord]):
    """The saved timings."""

    _table = "timings"

    def add(self, timing: Timing, *, device_name: str, timing_id: str | None = None) -> str:
        """Adds a timing, as yet without profiles, and returns its id, a new one by default."""
        with self._connection.writing() as connection:
            timing_id = self._add(connection, timing_id, device_name=device_name)
            connection.executemany(
                "INSERT INTO timing_sides (timing, position, experiment, run) VALUES (?, ?, ?, ?)",
                [
                    (timing_id, place, side.experiment.to_json(), side.run_id)
                    for place, side in enumerate(timing.sides)
                ],
            )
        return timing_id

    def record(self, timing_id: str, place: int, side: TimingSide) -> None:
        """Writes a side's profile or problem."""
        with self._connection.writing() as connection:
            connection.execute(
                "UPDATE timing_sides SET profile = ?, problem = ? WHERE timing = ? AND position = ?",
                (_json(side.profile), _json(side.problem), timing_id, place),
            )

    def end(self, timing_id: str) -> None:
        """Marks a timing as over."""
        self._set(timing_id, ended=time.time())

    def delete(self, work_id: str) -> None:
        """Deletes a timing with its profiles and traces."""
        super().delete(work_id)
        _remove(path for path in self._traces() if _stem(path) == file_name_of(work_id))

    def newest_of_runs(self, run_ids: Sequence[str]) -> str | None:
        """The id of the newest timing of exactly these runs, in this order, with a profile, if any."""
        rows = self._connection.read(
            "SELECT id, run, profile IS NOT NULL AS is_known FROM timings JOIN timing_sides ON timing = id "
            "WHERE id IN (SELECT timing FROM timing_sides WHERE run = ?) ORDER BY number DESC, position",
            (run_ids[0],),
        )
        for timing_id, sides in groupby(rows, key=itemgetter("id")):
            runs, known = zip(*((side["run"], side["is_known"]) for side in sides), strict=True)
            if runs == tuple(run_ids) and any(known):
                return str(timing_id)
        return None

    def trace_path(self, timing_id: str, place: int) -> Path:
        """The file for the trace of a side; its worker makes the folder."""
        return self._folder / f"{file_name_of(timing_id)}-{place + 1}.json.gz"

    def delete_trace(self, timing_id: str, place: int) -> None:
        """Deletes the trace of a side, and what a killed worker wrote of it."""
        _remove(self._folder.glob(f"*{self.trace_path(timing_id, place).name}*"))

    def trace_of(self, profile: StepProfile) -> Path | None:
        """The file of a profile's trace; None if there is none, or none any more."""
        return _trace(self._folder, profile)

    def clean_up(self) -> None:
        """Deletes traces whose timing is gone."""
        saved = {file_name_of(row["id"]) for row in self._connection.read("SELECT id FROM timings")}
        _remove(path for path in self._traces() if _stem(path) not in saved)

    def _traces(self) -> list[Path]:
        """The traces, also half-written ones; the folder may be a link to one that holds other files, too."""
        return [path for path in self._folder.glob("*-*") if _TRACE.fullmatch(path.name)]

    @property
    def _folder(self) -> Path:
        return traces_folder(self._connection.path)

    def _missing(self, work_id: str) -> Problem:
        message = f"There is no timing with the id '{work_id}'."
        return request_problem(message, "Profile again.", key="timing", value=work_id)

    def _record(self, connection: sqlite3.Connection, row: sqlite3.Row) -> TimingRecord:
        sides = connection.execute(
            "SELECT * FROM timing_sides WHERE timing = ? ORDER BY position", (row["id"],)
        ).fetchall()
        return TimingRecord(
            id=row["id"],
            number=row["number"],
            created=created(row),
            ammeter=row["ammeter"],
            device_name=row["device_name"],
            is_over=row["ended"] is not None,
            bare=Timing(
                sides=tuple(
                    TimingSide(
                        experiment=Experiment.from_json(side["experiment"]),
                        run_id=side["run"],
                        problem=Problem.model_validate_json(side["problem"]) if side["problem"] else None,
                    )
                    for side in sides
                )
            ),
            profiles=tuple(side["profile"] for side in sides),
            folder=self._folder,
        )


_TRACE = re.compile(r"\.?\w+-\d+\.json\.gz(\.part)?")


def _stem(trace: Path) -> str:
    """The id of a trace's timing."""
    return trace.name.lstrip(".").split("-")[0]


def _trace(folder: Path, profile: StepProfile) -> Path | None:
    path = None if profile.trace is None else folder / Path(profile.trace).name
    # in a folder from elsewhere a link would bring any file of this disk
    return path if path is not None and path.is_file() and not path.is_symlink() else None


def _json(message: BaseModel | None) -> str | None:
    return None if message is None else message.model_dump_json()


def _remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        # the system may refuse it for as long as another program has it open
        with suppress(OSError):
            path.unlink()
