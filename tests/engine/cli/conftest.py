"""The command line as the tests call it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from engine.cli.app import main
from engine.experiment.paths import store_path
from engine.experiment.problem import Problem
from engine.experiment.value import Message
from engine.protocol.advice import Checked, Finding, ModuleRow
from engine.protocol.events import Finished, Summary
from engine.protocol.numerics import NumericsResults, PartMeasured
from engine.protocol.profile import Profiled, StepProfile
from engine.store.store import Store
from engine.training.doctor import read_catalog
from engine.training.precision import Processor
from engine.worker.launcher import Launcher
from tests.gui.numerics.conftest import (
    advices,
    divergence,
    fp32_modules,
    precision_map,
    ranges,
    results,
    search,
)
from tests.profiles import fp16_profile, fp32_profile

__all__ = ["advices", "divergence", "fp16_profile", "fp32_modules", "fp32_profile", "precision_map", "ranges"]
__all__ += ["results", "search"]

Answer = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Answer:
    """Calls a verb; its exit status and the one JSON object on stdout."""

    def call(*arguments: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        status = main([*arguments, "--json"])
        out = capsys.readouterr().out
        assert out.count("\n") == 1
        return status, json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    return call


def _saved() -> list[str]:
    if not store_path().exists():
        return []
    with Store() as store:
        return [each.id for each in (*store.runs(), *store.sweeps.newest(), *store.studies.newest())]


@pytest.fixture
def refused(answer: Answer) -> Callable[..., dict[str, Any]]:
    """Calls a verb that refuses its request and leaves nothing behind; the error."""

    def call(*arguments: str) -> dict[str, Any]:
        before = _saved()
        status, found = answer(*arguments)
        assert status == 2 and set(found) == {"error"}
        assert set(found["error"]) == set(Problem.model_fields)
        assert _saved() == before
        return dict(found["error"])

    return call


WORKER = """
import gzip
if job["job"] == "catalog":
    say(event="catalog", catalog=json.loads(CATALOG))
    sys.exit()
asked = job["experiment"]
if known := KNOWN.get(asked["precision"] if job["job"] == "profile" else job["job"]):
    if job.get("trace"):
        os.makedirs(os.path.dirname(job["trace"]), exist_ok=True)
        with gzip.open(job["trace"], "wt") as trace:
            json.dump({"traceEvents": [job["job"]]}, trace)
    print(*known, sep=chr(10), flush=True)
    sys.exit()
batch, is_mixed = asked["batch_size"], asked["precision"] == "bf16"
if job["job"] == "try":
    fits = batch <= 64 * (1 + is_mixed)
    trial = dict(batch_size=batch, fits=fits, steps=3, cause=None if fits else "memory")
    say(event="tried", budget_mib=1024.0, trial=dict(trial, peak_mib=7.0 * batch) if fits else trial)
    sys.exit()
speed = (1_000.0 + asked["seed"]) * (1.6 if is_mixed else 1.0) * min(batch, 64) / 32
count = asked["steps"]
steps = list(range(1, count + 1))
started()
say(event="samples", step=steps, seconds=[0.01 * step for step in steps], loss=[1.0 / step for step in steps],
    samples_per_second=[speed] * count, learning_rate=[0.1] * count)
say(event="epoch", epoch=1, step=count, seconds=1.0, train_loss=0.5, validation_accuracy=0.75)
if asked["seed"] == 7:
    say(event="failed", problem=dict(kind="nan", message="The loss is NaN.", remedy="Use BF16."))
    sys.exit()
say(event="finished", summary=dict(steps=count, samples_per_second=speed, step_ms=1e3 * batch / speed,
    peak_resident_mib=4.0 * batch, final_train_loss=0.5, final_validation_accuracy=0.75, seconds=1.0,
    speed_note="other programs used 40% of the CPU" if asked["seed"] == 9 else None))
"""
"""A worker that trains at known speeds. Seed 7 diverges, and seed 9 is disturbed."""
CHECKED = Checked(
    findings=(Finding(kind="waits", severity="warning", message="A value is read.", remedy="Do not."),),
    tree=(ModuleRow(name="", class_name="Net", parameters=85, output="2×10", dtype="float32"),),
    parameters=85,
    inputs="2×10 float32",
)


@pytest.fixture
def trains(
    scripted: Callable[..., Launcher],
    monkeypatch: pytest.MonkeyPatch,
    results: NumericsResults,
    fp32_profile: StepProfile,
    fp16_profile: StepProfile,
) -> None:
    """Commands get a worker of known speeds, and known answers to other questions than training."""
    machine = Processor("A processor", 16_384.0, computes_bf16=True, computes_fp16=True)
    monkeypatch.setattr("engine.training.doctor.processor", lambda: machine)
    end = Finished(summary=Summary())
    parts = (PartMeasured(result=part) for _, part in results if part is not None)
    events: dict[str, tuple[Message, ...]] = {"diagnose": (*parts, end), "check": (CHECKED,)}
    profiles = {"fp32": fp32_profile, "bf16": fp16_profile}
    events |= {name: (Profiled(profile=profile), end) for name, profile in profiles.items()}
    known = {name: [event.model_dump_json() for event in said] for name, said in events.items()}
    worker = WORKER.replace("CATALOG", repr(read_catalog().model_dump_json())).replace("KNOWN", repr(known))
    monkeypatch.setattr("engine.cli.session.launcher_for", lambda *_: scripted(worker))
