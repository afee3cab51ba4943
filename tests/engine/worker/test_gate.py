"""Code from elsewhere runs only once it was accepted, by whatever way it would run: there is one gate."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import engine
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import Code
from engine.experiment.own.trust import UntrustedCodeError, is_untrusted
from engine.limit.driver import LimitDriver
from engine.protocol import jobs
from engine.protocol.events import Failed, Finished
from engine.protocol.trials import Limit, LimitSide
from engine.runner import Runner
from engine.store.record import Status
from engine.store.saved.study import Study
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target

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
