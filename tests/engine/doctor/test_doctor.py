"""The doctor as a whole: it works without an engine, and asks a worker where there is one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine import __version__
from engine.cli.app import main
from engine.doctor.doctor import Private, private_here, report_text, worker_checks
from engine.protocol.events import Check
from engine.worker.launcher import Launcher, Target


@pytest.mark.usefixtures("home", "no_engine")
def test_without_an_engine_the_verb_says_so_and_tells_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    (engine,) = [check for check in answer["checks"] if check["name"] == "PyTorch"]
    assert engine["status"] == "problem" and "ammeter engine install" in engine["remedy"]
    assert answer["error"]["remedy"] == engine["remedy"]
    assert {"Ammeter", "System", "CPU", "Saved runs", "Disk"} <= {c["name"] for c in answer["checks"]}
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


ANNA = Private(
    home="/home/anna.meier",
    names=("anna.meier", "meier-laptop.example.org", "meier-laptop"),
    paths=("/mnt/my secret data/engine", "/home/anna.meier/.local/share/Ammeter", "/usr/bin"),
)
OF_ANNA = ("anna", "meier", "secret", "thesis", "laptop", "Ammeter/run")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Nothing can be saved: /home/anna.meier/thesis 1 cannot be written.", "~"),
        ("/home/anna.meier/.local/share/Ammeter/run of anna.meier.sqlite", "~"),
        ("AMMETER_ENGINE names /mnt/my secret data/engine, which does not exist yet.", "does not exist yet"),
        ("1.0 GiB free at /srv/meier-group/thesis", "1.0 GiB free at"),
        (r"1.0 GiB free at C:\Users\anna.meier\thesis", "1.0 GiB free"),
        (r"\\meier-laptop\thesis cannot be written", "cannot be written"),
        ("The display 'meier-laptop:10.0' of Anna.Meier does not answer.", "does not answer"),
        ("LD_LIBRARY_PATH has /usr/local/cuda/lib64, whose libcudnn.so.9", "/usr/local/cuda/lib64"),
        (
            "Install it from https://www.nvidia.com/drivers or set 1/2",
            "https://www.nvidia.com/drivers or set 1/2",
        ),
    ],
)
def test_names_and_paths_are_left_out(text: str, kept: str) -> None:
    report = report_text((Check(name="A", status="problem", detail=text, remedy=text),), ANNA)
    assert kept in report and "**problem**" in report
    assert not [word for word in OF_ANNA if word in report.casefold()]


def test_this_users_home_and_variables_are_private(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna.meier")
    monkeypatch.setenv("USERPROFILE", "/home/anna.meier")
    monkeypatch.setenv("LOGNAME", "anna.meier")
    monkeypatch.setenv("AMMETER_HOME", "/data of anna")
    private = private_here()
    assert private.home == "/home/anna.meier" and "anna.meier" in private.names
    check = Check(name="A", status="ok", detail="/data of anna/ammeter.sqlite | /home/anna.meier")
    assert "anna" not in report_text((check,), private)
