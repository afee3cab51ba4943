"""The doctor as a whole: it works without an engine, and asks a worker where there is one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine import __version__
from engine.cli import main
from engine.doctor.doctor import worker_checks
from engine.worker.launcher import Launcher, Target


@pytest.mark.usefixtures("home", "no_engine")
def test_without_an_engine_the_verb_says_so_and_tells_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    (engine,) = [check for check in answer["checks"] if check["name"] == "Engine"]
    assert engine["status"] == "problem" and "ammeter engine install" in engine["remedy"]
    assert answer["error"]["remedy"] == engine["remedy"]
    assert {"Ammeter", "System", "Processor", "Saved runs", "Disk"} <= {c["name"] for c in answer["checks"]}
    assert main(["doctor", "--report"]) == 1
    report = capsys.readouterr().out
    assert report.startswith("| Check |") and __version__ in report and str(Path.home()) not in report


@pytest.mark.usefixtures("home")
def test_a_worker_that_cannot_be_started_is_a_problem(tmp_path: Path) -> None:
    with Launcher(command=(str(tmp_path / "no such program"),)) as launcher:
        (check,) = worker_checks(launcher)
    assert (check.name, check.status) == ("Worker", "problem") and check.remedy


def test_where_nobody_wants_the_answer_the_worker_is_ended() -> None:
    with Launcher(Target.PROCESS) as launcher:
        assert worker_checks(launcher, lambda: True) == ()
