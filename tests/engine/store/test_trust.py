"""Code from elsewhere runs only once it was accepted, by whatever way it would run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import Code
from engine.experiment.problem import Kind
from engine.limit.prober import Prober
from engine.protocol.events import Failed, Finished
from engine.runner import Runner
from engine.store.record import Status
from engine.store.store import Store
from engine.store.trust import UntrustedCodeError, is_untrusted
from engine.worker.launcher import Launcher

TEXT = "from layers import Net\n\ndef model():\n    return Net()\n"
CODE = Code(file="net.py", folder="/there", text=TEXT, beside={"layers.py": "class Net: pass\n"})
Scripted = Callable[[str], Launcher]


def own(code: Code = CODE, **settings: Any) -> Experiment:
    return experiment_from({"model": code.file, "code": code.to_json(), "device": "cpu", **settings})


def copied(code: Code, **changes: Any) -> Code:
    return Code.model_validate({**code.model_dump(), **changes})


def test_code_is_known_by_its_text_and_its_folder(store: Store) -> None:
    store.trusted_code.add(CODE)
    store.trusted_code.add(CODE)
    store.trusted_code.check(own(precision="bf16"))
    store.trusted_code.check(Experiment())
    # other modules may lie there
    assert not store.trusted_code.has(copied(CODE, folder="/elsewhere"))
    changed = copied(CODE, beside={"layers.py": "import os\nclass Net: pass\n"})
    with pytest.raises(UntrustedCodeError) as raised:
        store.trusted_code.check(own(changed))
    problem = raised.value.problem
    assert (
        problem.kind is Kind.REQUEST
        and is_untrusted(problem)
        and problem.message.startswith("The code of net.py (")
    )
    assert "ammeter show RUN --code" in problem.remedy and "--trust-code" in problem.remedy
    assert raised.value.code == changed


def test_trust_stays_with_the_store(path: Path) -> None:
    with Store(path) as store:
        store.trusted_code.add(CODE)
    with Store(path) as store:
        assert store.trusted_code.has(CODE)


def test_no_job_gets_code_that_is_not_trusted(store: Store, scripted: Scripted, tmp_path: Path) -> None:
    launcher = scripted("finished(0, False)")
    runner = Runner(store, launcher)
    for refused in (
        lambda: runner.forecast(own()),
        lambda: runner.check(own()),
        lambda: list(Prober(store, launcher).probe(own(memory_cap_gib=1.0))),
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
    runner = Runner(store, scripted("started(); finished(0, False)"), keeps_refused=True)
    list(runner.run(store.add(own()).id))
    (kept,) = store.runs()
    assert kept.status is Status.FAILED and kept.problem is not None and is_untrusted(kept.problem)
    store.trusted_code.add(CODE)
    assert isinstance(list(runner.run(store.add(own()).id))[-1], Finished)
