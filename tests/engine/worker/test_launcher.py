"""The one gate to a worker, engines that are missing or on trial, and a machine that is kept awake."""

from __future__ import annotations

import re
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import wakepy
from pydantic import BaseModel

import engine
from engine.cli.app import main
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import Code
from engine.experiment.own.trust import UntrustedCodeError, is_untrusted
from engine.experiment.problem import Kind, ProblemError
from engine.limit.driver import LimitDriver
from engine.protocol import jobs
from engine.protocol.events import Failed, Finished
from engine.protocol.trials import Limit, LimitSide
from engine.runner import Runner
from engine.store.record import Status
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target, kept_awake, try_out
from tests.installations import put_installation

ANSWERS = """
import json, os, sys
def say(**event):
    sys.stdout.write(json.dumps(event) + chr(10)); sys.stdout.flush()
say(event="ready", pid=os.getpid(), python="3", torch="2", ammeter="0")
sys.stdin.readline()
status = "ok" if os.environ["AMMETER_ENGINE_PACKAGES"] == "good" else "problem"
say(event="examined", checks=[dict(name="A step under BF16 AMP", status=status, detail="its loss was nan")])
sys.stdin.read()
"""


def command(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def refusal(code: str) -> str:
    with pytest.raises(ProblemError) as refused:
        try_out(Path("bad"), command(code))
    assert refused.value.problem.kind is Kind.NO_ENGINE
    return refused.value.problem.message


def test_packages_that_train_are_accepted() -> None:
    try_out(Path("good"), command(ANSWERS))


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (ANSWERS, "A step under BF16 AMP: its loss was nan."),
        ("raise ImportError('libcudart.so.13: cannot open it')", "libcudart.so.13: cannot open it."),
        ("import os; os.kill(os.getpid(), 4)", "The training process ended mid-run by signal 4 (SIGILL)."),
    ],
)
def test_why_packages_do_not_train_is_told(code: str, why: str) -> None:
    assert refusal(code).endswith(f"does not train here: {why}")


def test_the_machine_is_kept_awake_only_while_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEPY_FAKE_SUCCESS", "1")
    with kept_awake() as is_kept:
        assert is_kept
        assert len(wakepy.global_modes()) == 1
    assert wakepy.global_modes() == []


def test_a_system_that_refuses_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEPY_FORCE_FAILURE", "1")
    with kept_awake() as is_kept:
        assert not is_kept


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
    assert capsys.readouterr().err.count("PyTorch is not installed") == 1
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


CODE = Code(file="net.py", folder="/there", text="def model(): ...\n")
Scripted = Callable[[str], Launcher]


def own(**settings: Any) -> Experiment:
    return experiment_from({"model": CODE.file, "code": CODE.to_json(), "device": "cpu", **settings})


def holds_experiment(kind: type[BaseModel]) -> bool:
    """Whether any field of a job is, or holds, an experiment."""
    return any("Experiment" in str(field.annotation) for field in kind.model_fields.values())


WITH_EXPERIMENT = [kind for kind in typing.get_args(jobs.Job) if holds_experiment(kind)]


def test_jobs_have_their_experiment_where_the_gate_looks_for_it() -> None:
    assert len(WITH_EXPERIMENT) == 6
    for kind in WITH_EXPERIMENT:
        assert kind.model_fields["experiment"].annotation is Experiment
        others = {name: field for name, field in kind.model_fields.items() if name != "experiment"}
        assert not any("Experiment" in str(field.annotation) for field in others.values())


@pytest.mark.parametrize("kind", WITH_EXPERIMENT)
def test_no_job_passes_with_code_that_is_not_trusted(
    kind: type[jobs.Train], scripted: Scripted, tmp_path: Path
) -> None:
    launcher, job = scripted("finished(0, False)"), kind(experiment=own())
    with pytest.raises(UntrustedCodeError):
        launcher.start(job)
    worker = launcher.fresh_worker()
    try:
        with pytest.raises(UntrustedCodeError):
            launcher.start_on(worker, job, launcher.limits)
    finally:
        worker.discard()
    with Launcher(Target.THREAD) as here, pytest.raises(UntrustedCodeError):
        here.start(job)
    assert not (tmp_path / "job.json").exists()
    launcher.trusted_code.add(CODE)
    launcher.start(job).close()


@pytest.mark.parametrize("kind", WITH_EXPERIMENT)
def test_a_script_is_only_trained_and_only_if_it_is_trusted(
    kind: type[jobs.Train], scripted: Scripted, tmp_path: Path
) -> None:
    launcher = scripted("finished(0, False)")
    script = experiment_from({"command": {"line": "python train.py"}})
    with pytest.raises(ProblemError) as refused:
        launcher.start(kind(experiment=script))
    assert isinstance(refused.value, UntrustedCodeError) == (kind is jobs.Train)
    launcher.trusted_code.name_command(script.command)
    if kind is jobs.Train:
        launcher.start(kind(experiment=script)).close()
        return
    with pytest.raises(ProblemError, match=r"^A script"):
        launcher.start(kind(experiment=script))
    assert not (tmp_path / "job.json").exists()


def test_only_the_gate_makes_sessions() -> None:
    folder = Path(engine.__file__).parent
    made = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(r"(?<!class )\b(Process|Thread)Session\(", path.read_text(encoding="utf-8"))
    }
    assert made == {"worker/launcher.py"}


def test_no_tool_gets_such_code_to_a_worker(store: Store, scripted: Scripted, tmp_path: Path) -> None:
    launcher = scripted("finished(0, False)")
    runner = Runner(store, launcher)
    side = LimitSide(label="FP32", experiment=own(memory_cap_gib=1.0))
    limit = Limit(sides=(side,))
    for refused in (
        lambda: runner.forecast(own()),
        lambda: runner.check(own()),
        lambda: list(LimitDriver(store, launcher).follow(Study(answer=limit))),
    ):
        with pytest.raises(UntrustedCodeError):
            refused()
    run = store.add(own())
    *_, last = runner.run(run.id)
    assert isinstance(last, Failed) and is_untrusted(last.problem)
    assert store.runs() == () and not (tmp_path / "job.json").exists()


def test_a_refused_run_of_the_window_is_kept_and_runs_once_it_is_accepted(
    store: Store, scripted: Scripted
) -> None:
    launcher = scripted("started(); finished(0, False)")
    runner = Runner(store, launcher, keeps_refused=True)
    list(runner.run(store.add(own()).id))
    (kept,) = store.runs()
    assert kept.status is Status.FAILED and kept.problem is not None and is_untrusted(kept.problem)
    launcher.trusted_code.add(CODE)
    assert isinstance(list(runner.run(store.add(own()).id))[-1], Finished)
