"""Runs on two devices, by gloo on the CPU: the losses of one process, and one end for all ranks."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.experiment import Experiment, experiment_from, layered
from engine.experiment.own.code import read_code
from engine.experiment.problem import Kind
from engine.protocol import jobs
from engine.protocol.advice import AdviceKind
from engine.protocol.events import (
    Epoch,
    Event,
    Failed,
    Finished,
    Log,
    Phase,
    PhaseName,
    Samples,
    Skipped,
    Started,
)
from engine.protocol.profile import Limits as DeviceLimits
from engine.protocol.profile import Profiled, StepPart
from engine.worker.perform import perform
from engine.worker.site import WorkerProcess
from engine.worker.supervision import Timeouts

pytestmark = pytest.mark.slow  # each starts two workers, which import torch

REGRESSION: dict[str, Any] = {
    "model": "linear",
    "dataset": "synthetic-regression",
    "samples": 203,
    "steps": 60,
    "device": "cpu",
    "batch_size": 8,
    "optimizer": {"name": "sgd", "learning_rate": 0.02},
    "measure": {"warmup_steps": 1, "block_steps": 2},
}
TEXT: dict[str, Any] = {
    "model": "causal-lm-tiny",
    "dataset": "python-source",
    "sequence_length": 32,
    "samples": 60,
    "steps": 6,
    "device": "cpu",
    "batch_size": 8,
    "validation": {"limit": 12},
}
OWN = """
import os, time
import torch
from torch import distributed, nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(4, 2), 0

    def forward(self, inputs):
        self.calls += 1
        if distributed.is_initialized() and distributed.get_rank() == 1:
            {body}
        return self.layer(inputs)


def model():
    return Net()


def batch(size):
    return torch.randn(size, 4), torch.randint(2, (size,))
"""


@dataclass(frozen=True)
class Run:
    """The events of one run."""

    events: tuple[Event, ...]

    @property
    def losses(self) -> list[float]:
        return [loss for event in self.of(Samples) for loss in event.loss]

    @property
    def skipped(self) -> list[int]:
        return [step for event in self.of(Skipped) for step in event.steps]

    @property
    def finished(self) -> Finished:
        last = self.events[-1]
        assert isinstance(last, Finished), last
        return last

    @property
    def failed(self) -> Failed:
        last = self.events[-1]
        assert isinstance(last, Failed), last
        return last

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


Act = Callable[[Event, jobs.Control], None]


def trained(
    experiment: Experiment, folder: Path | None = None, act: Act = lambda event, control: None, **job: Any
) -> Run:
    control, events = jobs.Control(), []
    checkpoints = None if folder is None else str(folder)
    for event in perform(jobs.Train(experiment=experiment, checkpoints=checkpoints, **job), control):
        events.append(event)
        act(event, control)
    return Run(tuple(events))


def together(base: dict[str, Any], **settings: Any) -> Experiment:
    halved = base["batch_size"] // 2
    return experiment_from(layered(base, {"batch_size": halved, "devices": 2}, settings))


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., Experiment]:
    """An experiment of two ranks, the second of which does something of its own in its forward pass."""

    def make(body: str, **settings: Any) -> Experiment:
        path = tmp_path / "net.py"
        path.write_text(OWN.format(body=body), encoding="utf-8")
        rest = {"samples": 800, "steps": 100, "measure": {"warmup_steps": 1, "block_steps": 2}}
        chosen = {"model": str(path), "code": read_code(path).to_json(), "dataset": "own", "device": "cpu"}
        return experiment_from({**chosen, "devices": 2, "batch_size": 4, **rest, **settings})

    return make


@pytest.fixture(autouse=True)
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[WorkerProcess]]:
    """The workers of the ranks, none of which is alive in the end."""
    started: list[WorkerProcess] = []

    class Noted(WorkerProcess):
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **settings)
            started.append(self)

    monkeypatch.setattr("engine.worker.perform.WorkerProcess", Noted)
    yield started
    assert not any(worker.is_alive for worker in started)


@pytest.mark.parametrize(
    ("base", "settings", "tolerance"),
    [
        (
            REGRESSION,
            {
                "precision": "fp16",
                "scaler": {"init_scale": 1e30},
                "step": {"gradient_accumulation": 3, "clip_norm": 0.5},
            },
            1e-5,
        ),
        (TEXT, {"precision": "bf16", "step": {"recipe": "fused"}}, 1e-3),
        (TEXT, {"optimizer": {"name": "muon"}, "step": {"activation_checkpointing": "selective"}}, 1e-3),
    ],
)
def test_two_ranks_have_the_losses_of_one_process_at_the_global_batch(
    base: dict[str, Any], settings: dict[str, Any], tolerance: float
):
    alone, both = trained(experiment_from(layered(base, settings))), trained(together(base, **settings))
    # the samples that cannot be shared out evenly are left out of an epoch
    batches = settings.get("step", {}).get("gradient_accumulation", 1) * base["batch_size"]
    shared = base["samples"] // batches if base is REGRESSION else len(alone.losses)
    assert len(both.losses) == len(alone.losses) == base["steps"]
    assert both.losses[:shared] == pytest.approx(alone.losses[:shared], rel=tolerance)
    assert both.skipped == alone.skipped
    mine, theirs = both.finished.summary, alone.finished.summary
    assert mine.skipped_steps == theirs.skipped_steps
    assert mine.final_validation_accuracy == theirs.final_validation_accuracy
    (started,) = both.of(Started)
    assert started.experiment.devices == 2 and len(mine.ranks) == 2


def test_a_run_pauses_on_all_ranks_goes_on_and_stops_at_the_same_step():
    done: list[str] = []

    def act(event: Event, control: jobs.Control) -> None:
        if isinstance(event, Samples) and not done:
            control.obey(jobs.Pause())
            done.append("asked")
        elif isinstance(event, Phase) and event.name is PhaseName.PAUSED:
            control.obey(jobs.Continue())
            done.append("paused")
        elif isinstance(event, Samples) and done[-1] == "paused" and event.step[-1] > 300:
            control.obey(jobs.Stop())

    run = trained(together(REGRESSION, steps=10_000_000, samples=100_000), act=act)
    steps = [step for event in run.of(Samples) for step in event.step]
    assert done[-1] == "paused" and run.finished.stopped
    # every rank has sent all of its steps, and none has one more
    assert steps == list(range(1, run.finished.summary.steps + 1))


def test_a_stopped_run_is_resumed_as_if_it_had_never_been(tmp_path: Path):
    experiment = together(
        TEXT,
        steps=20,
        samples=80,
        checkpoint={"last": True},
        optimizer={"name": "adamw"},
        validation={"every": 0},
    )

    def stop(event: Event, control: jobs.Control) -> None:
        if isinstance(event, Samples):
            control.obey(jobs.Stop())

    whole = trained(experiment)
    first = trained(experiment, tmp_path, stop)
    assert first.finished.stopped and 0 < first.finished.summary.steps < 20
    rest = trained(experiment, tmp_path, resume=True)
    (started,) = rest.of(Started)
    assert started.resumed_step == first.finished.summary.steps
    assert first.losses + rest.losses == whole.losses
    assert rest.finished.summary.final_train_loss == whole.finished.summary.final_train_loss


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("raise torch.OutOfMemoryError('CUDA out of memory.')", Kind.OUT_OF_MEMORY, "ran out of memory"),
        ("raise ValueError('odd')", Kind.REQUEST, "net.py, line 15, in forward: ValueError: odd."),
    ],
)
def test_what_fails_on_a_rank_ends_all_and_names_it(
    own: Callable[..., Experiment], body: str, kind: Kind, words: str
):
    problem = trained(own(f"if self.calls == 7: {body}")).failed.problem
    assert problem.kind is kind
    assert problem.message.startswith("Rank 1 of 2: ") and words in problem.message


def test_a_killed_rank_is_named_though_the_others_lose_it_first(workers: list[WorkerProcess]):
    def kill(event: Event, _control: jobs.Control) -> None:
        if isinstance(event, Samples):
            workers[0].kill()

    run = trained(together(REGRESSION, steps=10_000_000), act=kill)
    problem = run.failed.problem
    assert (problem.kind, problem.message) == (
        Kind.WORKER_DIED,
        "Rank 0 of 2: The training process ended mid-run by signal 9 (SIGKILL).",
    )
    assert run.losses  # what was trained is kept


def test_a_nan_of_one_rank_is_named_and_ends_the_run_on_all(own: Callable[..., Experiment]):
    nan = "if self.calls >= 7: return self.layer(inputs) * float('nan')"
    run = trained(own(nan, on_nan="stop", steps=1_000_000, samples=10_000_000))
    assert run.finished.stopped and run.finished.summary.first_nan_step == 7
    told = [event.message for event in run.of(Log)]
    assert "Rank 1: The loss is not a number (NaN) from step 7 on." in told


@pytest.mark.parametrize(
    ("body", "limits", "words"),
    [
        (
            "time.sleep(600)",
            Timeouts(standstill=dict.fromkeys(PhaseName, 60.0) | {PhaseName.MEASURING: 5.0}),
            "There was no progress for 5 seconds while measuring, after",
        ),
        ("os.kill(os.getpid(), 19)", Timeouts(silence=5.0), "The training process was silent for 5 seconds"),
    ],
)
def test_a_rank_that_hangs_is_named_and_where(
    own: Callable[..., Experiment], monkeypatch: Any, capfd: Any, body: str, limits: Timeouts, words: str
):
    monkeypatch.setattr("engine.worker.perform.LIMITS", limits)
    problem = trained(own(f"if self.calls == 7: {body}")).failed.problem
    assert problem.kind is Kind.HANG and problem.message.startswith(f"Rank 1 of 2: {words}")
    # the supervisor finds the user's line in what the process wrote
    assert 'net.py", line 15 in forward' in capfd.readouterr().err or "silent" in words


def test_a_stop_during_a_validation_ends_it_on_all():
    """No rank waits for one that has left, and the run resumes with that validation."""

    def stop(event: Event, control: jobs.Control) -> None:
        if isinstance(event, Phase) and event.name is PhaseName.VALIDATING:
            control.obey(jobs.Stop())

    whole = {"samples": 2_000_000, "steps": 20, "validation": {"limit": None}}
    run = trained(together(TEXT, **whole, ranks={"strategy": "fsdp"}), act=stop)
    assert run.finished.stopped and not run.of(Epoch) and run.finished.summary.steps == 20


def test_an_overflow_on_one_rank_skips_the_step_on_all_and_names_it(own: Callable[..., Experiment]):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left, living = (Path(tempfile.mkdtemp(prefix=f"ammeter-ranks-{pid}-")) for pid in (gone.pid, os.getpid()))
    run = trained(own("if self.calls == 7: return self.layer(inputs) * 1e38", precision="fp16", steps=12))
    told = [event.message for event in run.of(Log) if "overflowed" in event.message]
    assert told == ["Rank 1 of 2: all ranks skipped step 7, but only this rank's gradients overflowed."]
    assert run.skipped == [7] and run.finished.summary.skipped_steps == 1
    assert not [event for event in run.of(Log) if "different steps" in event.message]
    # the folder of a run that was killed is deleted by the next
    assert not left.exists() and living.exists()
    living.rmdir()


def test_a_profile_names_the_rank_that_the_others_wait_for(own: Callable[..., Experiment], tmp_path: Path):
    limits = DeviceLimits(peaks=(), gb_per_second=1e5)
    trace = tmp_path / "trace.json.gz"
    job = jobs.Profile(experiment=own("time.sleep(0.03)"), limits=limits, trace=str(trace))
    *_, profiled, last = perform(job, jobs.Control())
    assert isinstance(profiled, Profiled) and isinstance(last, Finished)
    found = profiled.profile.exchange
    assert found is not None and len(found.ranks) == 2 and found.messages and found.rates
    assert found.slowest == 1
    (told,) = [each for each in profiled.profile.advice if each.kind is AdviceKind.STRAGGLER]
    assert told.message.startswith("The others wait for Rank 1") and "between operations" in told.evidence
    # rank 0 waits in place of computing, and the other leaves its device idle
    first, second = found.ranks
    assert first.exposed_ms > 10 and second.bar.ms(StepPart.HOST) > 10
    assert profiled.profile.samples == 8 and trace.is_file()


def test_a_step_of_its_own_averages_what_its_optimizers_use(tmp_path: Path):
    path = tmp_path / "own_step.py"
    path.write_text(
        "import torch\n"
        "from torch import nn\n"
        "def model(): return nn.ModuleDict({'a': nn.Linear(4, 4), 'b': nn.Linear(4, 1)})\n"
        "def optimizer(model):\n"
        "    return {name: torch.optim.SGD(model[name].parameters(), 0.05) for name in 'ab'}\n"
        "def dataset():\n"
        "    inputs = torch.randn(64, 4)\n"
        "    return torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))\n"
        "def step(train, batch):\n"
        "    for name in 'ab':\n"
        "        hidden = train.model['a'](batch[0])\n"
        "        loss = (train.model['b'](hidden) - batch[1]).square().mean()\n"
        "        train.backward(loss)\n"
        "        train.step(train.optimizers[name])\n"
        "    return loss\n",
        encoding="utf-8",
    )
    base = {"model": str(path), "code": read_code(path).to_json(), "dataset": "own", "batch_size": 8}
    base |= {"device": "cpu", "steps": 16}
    alone, both = trained(experiment_from(base)), trained(together(base))
    assert both.losses == pytest.approx(alone.losses, rel=1e-5)


def test_all_devices_of_a_machine_with_one_are_one():
    run = trained(experiment_from({**REGRESSION, "devices": "all", "steps": 3}))
    assert run.of(Started)[0].experiment.devices == 1 and not run.finished.summary.ranks


def test_an_iterable_dataset_is_gone_through_once_by_both(tmp_path: Path):
    path, seen = tmp_path / "stream.py", tmp_path / "seen"
    seen.mkdir()
    path.write_text(
        "import os, torch\n"
        "from torch import nn\n"
        "class Stream(torch.utils.data.IterableDataset):\n"
        "    def __iter__(self): return iter(range(48))\n"
        "    def __len__(self): return 48\n"
        "def collate(samples):\n"
        f"    with open({str(seen)!r} + f'/{{os.getpid()}}', 'a') as file:\n"
        "        file.write(' '.join(map(str, samples)) + ' ')\n"
        "    inputs = torch.tensor(samples).float().reshape(-1, 1)\n"
        "    return inputs, inputs\n"
        "def model(): return nn.Linear(1, 1)\n"
        "def dataset(): return Stream()\n"
        "def loss(outputs, targets): return (outputs - targets).square().mean()\n",
        encoding="utf-8",
    )
    base = {"model": str(path), "code": read_code(path).to_json(), "dataset": "own", "batch_size": 8}
    run = trained(together({**base, "device": "cpu", "epochs": 1, "optimizer": {"learning_rate": 1e-4}}))
    assert run.finished.summary.steps == 6
    drawn = [list(map(int, file.read_text().split())) for file in seen.iterdir()]
    assert len(drawn) == 2 and sorted(number for each in drawn for number in each) == list(range(48))
