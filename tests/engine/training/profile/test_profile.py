"""A profile: what the job sends, the trace it leaves, and that looking changes no number."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from engine.busyness import OtherPrograms
from engine.experiment.experiment import Experiment, experiment_from, layered
from engine.experiment.own.code import with_code
from engine.protocol import jobs
from engine.protocol.events import Event, Finished, Phase, PhaseName, Profiled, is_last
from engine.protocol.jobs import Control
from engine.protocol.profile import Limits, Peak, StepPart, StepProfile
from engine.training.measuring.telemetry import Rows
from engine.training.precision import EMULATED_NOTE
from engine.training.profile import profile as profile_module
from engine.training.profile.profile import profile_steps
from engine.training.profile.recording import MODULE, _module_marks
from engine.training.runs.loop import train
from engine.training.runs.run import Run

TINY: dict[str, Any] = {
    "model": "small-cnn",
    "dataset": "fashion",
    "batch_size": 16,
    "device": "cpu",
    "steps": 4,
    "measure": {"warmup_steps": 2},
}
DRAWN: dict[str, Any] = {"dataset": "synthetic", "image_size": 8, "num_classes": 4, "samples": 40}
LINEAR: dict[str, Any] = {"model": "linear", "dataset": "synthetic-regression", "samples": 64}
# beyond any processor: a limit that a step exceeds is raised
LIMITS = Limits(peaks=(Peak(format="fp32", tflops=1e4),), gb_per_second=1e5)


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few timed steps suffice: what is tested is no time."""
    monkeypatch.setattr("engine.training.profile.recording._LEAST_SECONDS", 0.0)


def events(trace: Path | None = None, control: Control | None = None, **settings: Any) -> Iterator[Event]:
    experiment = Experiment.model_validate(layered(TINY, settings))
    job = jobs.Profile(experiment=experiment, trace=None if trace is None else str(trace), limits=LIMITS)
    return profile_steps(job, control or Control())


def profiled(trace: Path | None = None, **settings: Any) -> StepProfile:
    (found,) = [event.profile for event in events(trace, **settings) if isinstance(event, Profiled)]
    return found


def marks_in(trace: Path) -> Counter[str]:
    records = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    names = (record["name"] for record in records if record.get("ph") == "X")
    return Counter(name.removeprefix("ammeter.") for name in names if name.startswith("ammeter."))


@pytest.mark.slow
def test_the_job_tells_its_phases_the_profile_and_its_end(tmp_path):
    sent = list(events(tmp_path / "trace.json.gz"))
    phases = [event.name for event in sent if isinstance(event, Phase)]
    assert phases[:3] == [PhaseName.BUILDING, PhaseName.WARMING_UP, PhaseName.PROFILING]
    assert isinstance(sent[-2], Profiled) and isinstance(sent[-1], Finished) and not sent[-1].stopped
    assert sum(map(is_last, sent)) == 1
    found = sent[-2].profile
    assert found.limits == LIMITS and found.trace == "trace.json.gz" and found.format == "fp32"
    assert found.samples == 16 and found.threads == 1
    assert found.bar.total_ms == pytest.approx(found.step_ms, rel=0.01)
    assert found.bar.ms(StepPart.MATRIX) > 0 and found.bar.ms(StepPart.OPTIMIZER) > 0
    assert found.validation is not None and found.validation.ms(StepPart.MATRIX) > 0
    assert found.operations and found.modules
    assert found.flops is not None and found.flops > 0
    assert list(tmp_path.iterdir()) == [tmp_path / "trace.json.gz"]
    check_marks(tmp_path / "trace.json.gz", found)


@pytest.mark.slow
def test_the_profilers_file_has_a_name_that_windows_can_open_whatever_the_users_name(tmp_path, monkeypatch):
    folder, here, opened = (
        tmp_path / "J\N{LATIN SMALL LETTER U WITH DIAERESIS}rgen \u65e5\u672c",
        Path.cwd(),
        [],
    )
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    export = torch.profiler.profile.export_chrome_trace

    def watched(self: torch.profiler.profile, path: str, **settings: Any) -> None:
        opened.append(path)
        export(self, path, **settings)

    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", watched)
    found = profiled(folder / "trace.json.gz", **LINEAR)
    assert opened and all(path.isascii() for path in opened)
    assert Path.cwd() == here and marks_in(folder / "trace.json.gz")["step"] == found.steps
    assert list(folder.iterdir()) == [folder / "trace.json.gz"]


@pytest.mark.slow
def test_a_peak_that_the_step_exceeds_is_measured_again_and_then_withheld(monkeypatch):
    monkeypatch.setattr(f"{__name__}.LIMITS", LIMITS.with_peak("fp32", 1e-9))
    monkeypatch.setattr(profile_module, "measure_again", lambda limits, name, *_: limits.with_peak(name, 1e3))
    found = profiled(**LINEAR)
    assert (
        found.limits is not None
        and found.limits.tflops("fp32") == 1e3
        and found.fraction_of_measured_peak is not None
    )
    monkeypatch.setattr(
        profile_module, "measure_again", lambda limits, name, *_: limits.with_peak(name, 1e-8)
    )
    withheld = profiled(**LINEAR)
    assert withheld.limits is not None and withheld.limits.withheld == ("fp32",)
    assert withheld.fraction_of_measured_peak is None


def check_marks(trace: Path, found: StepProfile) -> None:
    marks = marks_in(trace)
    assert marks["step"] == marks["data"] == marks["optimizer"] == found.steps
    assert marks["validation"] == 1
    # the validation batch goes through the model too
    assert marks["module:"] == marks["module:features.0"] == found.steps + 1


@pytest.mark.slow
def test_the_trace_of_a_fused_step_in_bf16_has_its_marks(tmp_path):
    trace = tmp_path / "trace.json.gz"
    check_marks(trace, profiled(trace, precision="bf16", step={"recipe": "fused", "clip_norm": 1.0}))


OWN_STEP = """
import torch
from torch import nn

def model():
    return nn.ModuleDict({"g": nn.Linear(8, 8), "d": nn.Linear(8, 1)})

def batch(size):
    return torch.randn(size, 8), None

def optimizer(model):
    return [torch.optim.SGD(part.parameters(), lr=0.1) for part in model.values()]

def step(train, batch):
    g, d = train.model.values()
    for_g, for_d = train.optimizers
    fake = g(torch.randn_like(batch[0]))
    train.backward((d(fake.detach()) - d(batch[0])).mean())
    train.step(for_d)
    train.backward(-d(fake).mean())
    train.step(for_g)
"""


def test_a_step_of_the_users_own_is_recorded(tmp_path):
    path, trace = tmp_path / "net.py", tmp_path / "kept" / "trace.json.gz"
    path.write_text(OWN_STEP)
    asked = {"model": str(path), "batch_size": 4, "samples": 32, "steps": 3, "device": "cpu"}
    experiment = experiment_from(with_code(asked, names_model=True, names_dataset=False))
    job = jobs.Profile(experiment=experiment, trace=str(trace), limits=LIMITS)
    (found,) = [event.profile for event in profile_steps(job, Control()) if isinstance(event, Profiled)]
    marks = marks_in(trace)
    assert found.samples == 4 and marks["step"] == found.steps
    # both optimizers, and the end of the step
    assert marks["optimizer"] == 3 * found.steps
    assert marks["module:g"] == found.steps and marks["module:d"] == 3 * found.steps
    assert found.bar.ms(StepPart.OPTIMIZER) > 0


@pytest.mark.slow
def test_a_profile_changes_no_loss(monkeypatch):
    losses: list[float] = []
    take = Run.take

    def noted(run: Run, rows: Rows) -> None:
        losses.extend(rows.figures["loss"].tolist())
        take(run, rows)

    monkeypatch.setattr(Run, "take", noted)
    settings = DRAWN | {"steps": 12, "measure": {"warmup_steps": 0}}
    profiled(**settings)
    of_profile, losses[:] = list(losses), []
    list(train(Experiment.model_validate(layered(TINY, settings)), Control()))
    assert len(losses) == 12 and of_profile[:12] == losses


def test_a_profile_beside_other_programs_says_so(monkeypatch):
    monkeypatch.setattr(OtherPrograms, "share", lambda _: 0.4)
    note = profiled(**LINEAR).notes[0]
    assert note.startswith("The timing of the steps is unreliable: other programs used 40%")


@pytest.mark.slow
def test_fp8_on_a_cpu_is_called_emulated():
    pytest.importorskip("torchao")
    assert EMULATED_NOTE in profiled(precision="fp8").notes


def test_a_stopped_profile_leaves_no_trace_file(tmp_path):
    control = Control()
    sent = []
    for event in events(tmp_path / "trace.json.gz", control, **LINEAR):
        sent.append(event)
        if isinstance(event, Phase) and event.detail.startswith("recording"):
            control.stop_requested.set()
    assert not any(isinstance(event, Profiled) for event in sent)
    assert isinstance(sent[-1], Finished) and sent[-1].stopped
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_large_trace_is_recorded_again_in_short(tmp_path, monkeypatch):
    trace = tmp_path / "trace.json.gz"
    profiled(trace, **LINEAR)
    monkeypatch.setattr(profile_module, "_MOST_TRACE_BYTES", trace.stat().st_size // 2)
    trace.unlink()
    found = profiled(trace, **LINEAR)
    assert found.steps == 5 and marks_in(trace)["step"] == 1
    assert any("contains one step" in note for note in found.notes)
    monkeypatch.setattr(profile_module, "_MOST_TRACE_BYTES", 10)
    trace.unlink()
    assert profiled(trace, **LINEAR).trace is None and not list(tmp_path.iterdir())


class Nested(nn.Module):
    """Calls a part twice, itself once more, and has another part recomputed."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = nn.Linear(4, 4)
        self.block = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, inputs: Tensor, depth: int = 1) -> Tensor:
        if depth:
            again: Tensor = self(inputs.tanh(), depth - 1)
            return again
        outputs: Tensor = checkpoint(self.block, self.twice(self.twice(inputs)), use_reentrant=False)
        return outputs


def marks_of(model: nn.Module, inputs: Tensor) -> Counter[str]:
    with profile(activities=[ProfilerActivity.CPU]) as profiler, _module_marks(model):
        model(inputs).sum().backward()
    names = (event.name for event in profiler.events())
    return Counter(name.removeprefix(MODULE) for name in names if name.startswith(MODULE))


def test_each_forward_of_a_module_is_marked_the_recomputed_ones_too():
    model = Nested()
    marks = marks_of(model, torch.randn(2, 4, requires_grad=True))
    assert marks[""] == 2 and marks["twice"] == 2
    assert marks["block"] == marks["block.0"] == 2, "forward, and again in the backward pass"
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_failed_forward_leaves_no_mark_open():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 5))
    with profile(activities=[ProfilerActivity.CPU]) as profiler, _module_marks(model):
        with pytest.raises(RuntimeError):
            model(torch.randn(2, 4))
        torch.ones(3).exp_()
    (exponential,) = [event for event in profiler.events() if event.name == "aten::exp_"]
    assert exponential.cpu_parent is None
