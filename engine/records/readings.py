"""The saved runs as they are read: all of them, or one by the start of its id."""

from __future__ import annotations

from engine.problem import ProblemError, request_problem
from engine.records.connection import Connection
from engine.records.record import RUN_COLUMNS, RunRecord, run_from

_SELECT = f"SELECT {RUN_COLUMNS} FROM runs WHERE deleted IS NULL"


class Readings:
    """Reads runs that are not deleted. A run that has not changed is the same record each time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, tuple[tuple[object, ...], RunRecord]] = {}

    def runs(self, limit: int | None = None) -> tuple[RunRecord, ...]:
        """The runs, newest first."""
        statement = f"{_SELECT} ORDER BY number DESC LIMIT ?"
        rows = self._connection.read(statement, (-1 if limit is None else limit,))
        before, self._known = self._known, {}
        for row in rows:
            values, known = tuple(row), before.get(row["id"])
            self._known[row["id"]] = known if known and known[0] == values else (values, run_from(row))
        return tuple(record for _, record in self._known.values())

    def run(self, id_or_start: str) -> RunRecord:
        """The run of that id, or the only one whose id starts so. Raises ProblemError."""
        statement = f"{_SELECT} AND substr(id, 1, ?) = ? ORDER BY number DESC LIMIT 6"
        start = id_or_start.strip().lower()
        rows = self._connection.read(statement, (len(start), start)) if start else []
        if len(rows) == 1:
            return run_from(rows[0])
        if rows:
            ids = ", ".join(row["id"] for row in rows)
            message = f"'{id_or_start}' is the start of more than one run's id: {ids}."
            remedy = "Give more of the id."
        else:
            message = f"There is no run whose id starts with '{id_or_start}'."
            remedy = "See the ids with `ammeter runs`."
        raise ProblemError(request_problem(message, remedy, key="run", value=id_or_start))
