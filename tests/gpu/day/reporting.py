"""A pytest plugin that gives each test a time limit and records its result at once."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

REPORT, SECONDS, LEFT = "AMMETER_DAY_REPORT", "AMMETER_DAY_TEST_SECONDS", "AMMETER_DAY_LEFT"
NOT_RUN = "not run"
_BEGAN, _MARGIN_SECONDS = time.monotonic(), 5.0


@dataclass(frozen=True)
class Entry:
    """The result of a test: "passed", "failed", "skipped" or "not run", and why."""

    test: str
    outcome: str = NOT_RUN
    seconds: float = 0.0
    said: str = ""

    @property
    def is_bad(self) -> bool:
        return self.outcome not in ("passed", "skipped")


def read(path: Path) -> dict[str, Entry]:
    """Return the tests by their names; one whose teardown failed is failed."""
    found: dict[str, Entry] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        entry = Entry(**json.loads(line))
        known = found.get(entry.test)
        if known is None or known.outcome != "failed":
            found[entry.test] = entry
    return found


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write down what there is to run. A test without a limit of its own gets one: if it hangs, it must not
    take all the others' time."""
    for item in session.items:
        _write(Entry(item.nodeid))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(float(os.environ[SECONDS])))


def pytest_runtest_setup() -> None:
    """Skip the test if no time is left."""
    if time.monotonic() - _BEGAN > float(os.environ[LEFT]) - _MARGIN_SECONDS:
        pytest.skip(NOT_RUN)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down the outcome of a test."""
    if report.when != "call" and report.passed:
        return
    said = ""
    if report.failed:
        lines = [line[1:].strip() for line in str(report.longrepr).splitlines() if line.startswith("E ")]
        said = next(filter(None, lines), str(report.longrepr).strip().splitlines()[-1])
    elif report.skipped and isinstance(report.longrepr, tuple):
        said = str(report.longrepr[2])
    outcome = NOT_RUN if NOT_RUN in said and report.skipped else report.outcome
    _write(Entry(report.nodeid, outcome, report.duration, said))


def _write(entry: Entry) -> None:
    with Path(os.environ[REPORT]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(entry)) + "\n")
