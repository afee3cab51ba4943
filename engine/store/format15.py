"""Brings a store of format 15 over, which had tables of their own for each kind of study."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from pydantic import ValidationError

from engine.experiment.experiment import Precision
from engine.experiment.problem import Problem
from engine.protocol.numerics.numerics import Numerics, NumericsResults
from engine.protocol.profiles import Profiles
from engine.protocol.trials import Limit
from engine.protocol.tune import Tuning
from engine.store.saved.study import Study, columns_of
from engine.store.schema import STUDIES, insert

FORMAT = 15

_KEPT = ("created", "ammeter", "ended")
_OLD_TABLES = ("probe_trials", "probes", "diagnosis_parts", "diagnoses", "timing_sides", "timings", "tunings")


def bring_over(connection: sqlite3.Connection) -> None:
    """Makes the table of studies of the older tables, within a transaction.

    Work that no longer can be read, which no list showed, is left behind.
    """
    connection.execute(STUDIES)
    for kind, read in _READERS.items():
        for number, (row, study) in enumerate(read(connection), 1):
            columns = columns_of(replace(study, number=number)) | {name: row[name] for name in _KEPT}
            insert(connection, "studies", kind=kind, id=study.id, number=number, **columns)
    _bring_queue_over(connection)
    for table in _OLD_TABLES:
        connection.execute(f"DROP TABLE {table}")


_Found = Iterator[tuple[Mapping[str, Any], Study[Any]]]


def _limits(connection: sqlite3.Connection) -> _Found:
    rows = connection.execute(
        "SELECT *, (SELECT min(number) FROM probes AS other WHERE other.series = probes.series) AS first"
        " FROM probes ORDER BY first, number"
    ).fetchall()
    for series, group in groupby(rows, key=itemgetter("series")):
        sides = [*group]
        first = {**dict(sides[0]), "ended": sides[0]["created"], "problem": None, "id": series}
        with suppress(ValidationError):
            made = [_limit_side(connection, side) for side in sides]
            yield first, _study(first, Limit(sides=made, margin_fraction=first["margin_fraction"]))


def _limit_side(connection: sqlite3.Connection, row: sqlite3.Row) -> dict[str, Any]:
    trials = connection.execute(
        "SELECT trial, budget_mib FROM probe_trials WHERE probe = ? ORDER BY position", (row["id"],)
    ).fetchall()
    known = [json.loads(trial["trial"]) for trial in trials]
    result = json.loads(row["result"]) if row["result"] else None
    experiment = json.loads(row["experiment"])
    return {
        "label": Precision(experiment["precision"]).label,
        "experiment": experiment,
        "granularity": row["granularity"],
        "trials": known,
        "budget_mib": trials[-1]["budget_mib"] if trials else None,
        "result": None if result is None else {**result, "trials": known},
    }


def _numerics(connection: sqlite3.Connection) -> _Found:
    for row in connection.execute("SELECT * FROM diagnoses ORDER BY number").fetchall():
        parts = connection.execute(
            "SELECT name, result FROM diagnosis_parts WHERE diagnosis = ?", (row["id"],)
        )
        results = NumericsResults()
        for part in parts.fetchall():
            # one part must not hide the others
            with suppress(ValidationError):
                read = NumericsResults.model_validate_json(f'{{"{part["name"]}": {part["result"]}}}')
                results = results.model_copy(update={part["name"]: getattr(read, part["name"])})
        with suppress(ValidationError):
            asked = {"parts": json.loads(row["parts"]), "run_id": row["run"]}
            answer = Numerics(experiment=json.loads(row["experiment"]), **asked, results=results)
            yield row, _study(row, answer)


def _measured(connection: sqlite3.Connection) -> _Found:
    for row in connection.execute("SELECT * FROM timings ORDER BY number").fetchall():
        sides = connection.execute(
            "SELECT * FROM timing_sides WHERE timing = ? ORDER BY position", (row["id"],)
        ).fetchall()
        is_known = any(side["profile"] for side in sides)
        problems = [side["problem"] for side in sides if side["problem"] and not is_known]
        found = {**dict(row), "problem": problems[0] if problems else None}
        with suppress(ValidationError):
            yield found, _study(found, Profiles.model_validate({"sides": [*map(_profile_side, sides)]}))


def _profile_side(row: sqlite3.Row) -> dict[str, Any]:
    texts = {name: row[name] for name in ("experiment", "profile", "problem")}
    known = {name: None if text is None else json.loads(text) for name, text in texts.items()}
    return {**known, "run_id": row["run"]}


def _tunings(connection: sqlite3.Connection) -> _Found:
    for row in connection.execute("SELECT * FROM tunings ORDER BY number").fetchall():
        with suppress(ValidationError):
            yield row, _study(row, Tuning.model_validate_json(row["tuning"]))


_READERS: Mapping[str, Callable[[sqlite3.Connection], _Found]] = {
    "limit": _limits,
    "numerics": _numerics,
    "profile": _measured,
    "tune": _tunings,
}


def _study(row: Mapping[str, Any] | sqlite3.Row, answer: Any) -> Study[Any]:
    problem = Problem.model_validate_json(row["problem"]) if row["problem"] else None
    created, device = datetime.fromtimestamp(row["created"], UTC), row["device_name"]
    return Study(id=row["id"], created=created, device_name=device, problem=problem, answer=answer)


_QUEUE_KINDS = {"search": "limit", "diagnosis": "numerics", "timing": "profile", "tuning": "tune"}


def _bring_queue_over(connection: sqlite3.Connection) -> None:
    for row in connection.execute("SELECT * FROM waiting").fetchall():
        if (kind := _QUEUE_KINDS.get(row["kind"])) is None:
            continue
        request = row["request"]
        # one that cannot be read is kept as it is: the queue says so when it is taken up
        with suppress(ValidationError, ValueError, KeyError):
            request = _request(connection, kind, json.loads(request))
        connection.execute(
            "UPDATE waiting SET kind = ?, request = ? WHERE key = ?", (kind, request, row["key"])
        )


def _request(connection: sqlite3.Connection, kind: str, order: dict[str, Any]) -> str:
    match kind:
        case "limit":
            sides = [
                {"label": label, "experiment": experiment, "granularity": order["granularity"]}
                for label, experiment in order["sides"]
            ]
            return Limit(sides=sides, margin_fraction=order["margin_fraction"]).model_dump_json()
        case "numerics":
            return Numerics(**{name: order[name] for name in order if name != "key"}).model_dump_json()
        case "profile":
            run_ids = order["run_ids"] or [None] * len(order["experiments"])
            pairs = zip(order["experiments"], run_ids, strict=True)
            sides = [{"experiment": experiment, "run_id": run_id} for experiment, run_id in pairs]
            return Profiles.model_validate({"sides": sides}).model_dump_json()
    answer = connection.execute("SELECT answer FROM studies WHERE id = ?", (order["key"],)).fetchone()
    return str(answer["answer"]) if answer is not None else json.dumps(order)
