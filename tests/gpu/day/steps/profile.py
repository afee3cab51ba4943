"""Profiles on the GPU: recorded and unprofiled steps, unknown kernels, % of peak, and their tests."""

from __future__ import annotations

from typing import Any

from day.steps.tests import run_tests
from day.work import Work
from engine.experiment.experiment import Experiment
from engine.protocol import jobs
from engine.protocol.events import Profiled
from engine.protocol.jobs import Control
from engine.protocol.profile import Limits, StepPart, StepProfile, TimeRow
from engine.training.profile.profile import profile_steps

_PICTURES: dict[str, Any] = {
    "dataset": "synthetic",
    "image_size": 224,
    "num_classes": 1_000,
    "batch_size": 32,
}
MODELS: dict[str, dict[str, Any]] = {
    "resnet50": _PICTURES,
    "vit_b_16": _PICTURES,
    "causal-lm-tiny": {"dataset": "synthetic-tokens", "batch_size": 8},
}
_SMALL: dict[str, dict[str, Any]] = {"small-cnn": {"dataset": "fakedata", "image_size": 16, "batch_size": 4}}
_MODEL_SECONDS = 60.0


def profiled(model: str, precision: str, device: str, limits: Limits | None, **settings: Any) -> StepProfile:
    """Return the profile of a model's step; measure the device's limits if none are given."""
    values = {"model": model, "precision": precision, "device": device, "steps": 60, **settings}
    job = jobs.Profile(experiment=Experiment.model_validate(values), limits=limits)
    (found,) = [event.profile for event in profile_steps(job, Control()) if isinstance(event, Profiled)]
    return found


def unnamed(found: StepProfile) -> list[TimeRow]:
    """Return the kernels of no known family that take more than 1% of the time."""
    whole = sum(row.ms for row in found.kernels)
    return [row for row in found.kernels if row.part is StepPart.OTHER and row.ms > 0.01 * whole]


def profiles(work: Work) -> None:
    """Profile models in several precisions, on limits that are measured once; then the tests of profiles."""
    found: dict[str, StepProfile] = {}
    limits: Limits | None = None
    for model, settings in work.small(MODELS, _SMALL).items():
        for precision in work.small(("fp32", "tf32", "fp16", "bf16"), (work.half,)):
            name = f"{model} in {precision}"
            if not work.has_time(_MODEL_SECONDS, name):
                continue
            found[name] = profiled(model, precision, work.device, limits, **settings)
            limits = found[name].limits
            _show(name, found[name])
    off = {name: 100 * abs(each.recorded_ms / each.step_ms - 1) for name, each in found.items()}
    work.report("bar", max(off.values()), f"({max(off, key=off.__getitem__)}, {len(found)} profiles)")
    without = [f"{row.name[:60]} ({name})" for name, each in found.items() for row in unnamed(each)]
    work.report("unnamed", len(without), "; ".join(without))
    fractions = {name: each.fraction_of_measured_peak or 0.0 for name, each in found.items()}
    work.report("mfu", max(fractions.values()), f"({max(fractions, key=fractions.__getitem__)})")
    outcome = run_tests(work, "profiles", "tests/gpu/test_profile_cuda.py", seconds=work.left - 20)
    work.report("profile-tests", outcome.bad, outcome.words)


def _show(name: str, found: StepProfile) -> None:
    parts = ", ".join(f"{entry.part.value} {entry.ms:.2f}" for entry in found.bar.parts)
    reached = found.fraction_of_measured_peak
    of_peak = "unknown" if reached is None else f"{reached:.3f}"
    print(
        f"{name}: step {found.step_ms:.2f} ms, recorded {found.recorded_ms:.2f}, of peak {of_peak}: {parts}"
    )
    for row in found.kernels[:5]:
        print(f"    {row.ms:>8.3f} ms  {row.part.value:<13}{row.name[:90]}", flush=True)
