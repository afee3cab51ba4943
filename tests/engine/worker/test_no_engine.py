"""Without an engine no worker is started; with another installation no idle worker of the old one is left."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.cli import main
from engine.experiment.problem import Kind, ProblemError
from engine.protocol import jobs
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from tests.installations import put_installation

WAITS = (sys.executable, "-c", "import sys; sys.stdin.read()")


@pytest.mark.parametrize("target", Target)
@pytest.mark.usefixtures("no_engine")
def test_a_job_is_refused_with_a_sentence_on_what_to_do(target: Target) -> None:
    with Launcher(target) as launcher:
        launcher.prepare()
        with pytest.raises(ProblemError) as refused:
            launcher.start(jobs.ReadCatalog())
        assert not launcher.idle_worker_pids
    assert refused.value.problem.kind is Kind.NO_ENGINE
    assert "ammeter engine install" in refused.value.problem.remedy


@pytest.mark.usefixtures("no_engine")
def test_a_run_that_needs_one_leaves_nothing_behind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--preset", "hello-amp"]) == 1
    assert capsys.readouterr().err.count("PyTorch has to be downloaded first") == 1
    with Store() as store:
        assert not store.runs()


def test_idle_workers_of_an_earlier_installation_are_ended(no_engine: Path) -> None:
    put_installation(no_engine)
    with Launcher(command=WAITS) as launcher:
        launcher.prepare()
        (first,) = launcher.idle_worker_pids
        launcher.prepare()
        assert launcher.idle_worker_pids == {first}
        put_installation(no_engine, "second")
        launcher.prepare()
        assert first not in launcher.idle_worker_pids


def test_a_broken_installation_is_refused_as_an_absent_one_is(no_engine: Path) -> None:
    put_installation(no_engine, python="2.7")
    with Launcher() as launcher, pytest.raises(ProblemError, match=r"Python 2\.7"):
        launcher.start(jobs.ReadCatalog())
