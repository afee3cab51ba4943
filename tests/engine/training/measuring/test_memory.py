"""Memory on a CPU, measured and capped, and drivers that spill into the host's, simulated."""

from __future__ import annotations

import gc
import json
import mmap
import platform
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.experiment.checks import DeviceEntry
from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.protocol.events import Event, Heartbeat
from engine.protocol.jobs import Control
from engine.protocol.trials import SPILLED, Tried
from engine.training.data.batches import Batch
from engine.training.measuring.memory import AllocatorMeter, ResidentMeter, memory_meter
from engine.training.measuring.memory_cap import AllocatorTrial, check_cap, memory_cap
from engine.training.precision import other_accelerator_precisions
from engine.training.runs import trial
from engine.training.runs.trial import try_batch
from engine.training.steps.plain import PlainStep
from engine.worker import __main__ as worker

ROOT = Path(__file__).resolve().parents[4]
CPU = torch.device("cpu")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="caps a CPU's memory only on Linux")

# A process of its own: the peak of one that has run other tests says little, and a cap may end it. It takes
# seconds to import torch, and so does all of it: first what freed memory of its own would spoil, then the run
# whose peak is looked at.
_CHILD = """
import json, sys
import torch
from engine.training.data.batches import Batch
from engine.training.measuring.memory import status_bytes
from engine.training.measuring.memory_cap import memory_cap
with memory_cap(torch.device("cpu"), 64.0):
    pieces = [torch.empty(100 * 1024, dtype=torch.uint8) for _ in range(200)]
    full = status_bytes("VmData")
    del pieces[:-1]
    print(full - status_bytes("VmData"))
from engine.experiment.experiment import Experiment
from engine.protocol.jobs import Control
from engine.training.failures import problem_of
from engine.training.runs.loop import train
for experiment in sys.argv[1:]:
    try:
        *_, last = train(Experiment.from_json(experiment), Control())
        answer = last.summary.model_dump()
    except Exception as error:
        answer = {"kind": problem_of(error).kind, "message": problem_of(error).message}
    print(json.dumps(answer))
"""

BIG: dict[str, Any] = {
    "model": "small-cnn",
    "dataset": "synthetic",
    "image_size": 48,
    "num_classes": 10,
    "batch_size": 64,
    "device": "cpu",
}
FITS = BIG | {
    "steps": 2,
    "samples": 128,
    "memory_cap_gib": 4,
    "measure": {"warmup_steps": 0, "block_steps": 1},
}
# so large that it cannot live on what the first run gave back to its process alone
RUNS_OUT = BIG | {"steps": 1, "batch_size": 512, "memory_cap_gib": 0.05}


@pytest.fixture(scope="module")
def capped() -> list[Any]:
    """The bytes of freed pieces, what came of a run that fits its cap, and of one that does not."""
    command = [sys.executable, "-c", _CHILD, json.dumps(FITS), json.dumps(RUNS_OUT)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=90, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
@on_linux
def test_running_out_under_a_cap_is_told_as_that(capped: list[Any]) -> None:
    assert capped[2] == {"kind": "out-of-memory", "message": "The device ran out of memory."}


@on_linux
def test_a_run_that_fits_its_cap_has_a_peak_but_no_speed(capped: list[Any]) -> None:
    summary = capped[1]
    # the first layer's output alone, before and after its ReLU, is 36 MiB for 64 pictures
    assert 36 < summary["peak_resident_mib"] < 4_096
    assert summary["samples_per_second"] is None and "cap" in summary["speed_note"]


@on_linux
def test_a_cap_ends_with_its_context() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    with memory_cap(CPU, 64.0):
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] != before[0]
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


@on_linux
def test_under_a_cap_freed_memory_counts_no_longer_though_a_later_piece_is_kept(capped: list[Any]) -> None:
    assert capped[0] >= 15 * 2**20


def test_a_device_that_cannot_be_capped_says_so() -> None:
    mps = DeviceEntry(name="mps", title="A GPU", memory_mib=8_192, precisions=other_accelerator_precisions())
    check_cap(mps, None)
    with pytest.raises(ProblemError) as raised:
        check_cap(mps, 4)
    assert raised.value.problem.key == "memory_cap_gib"


def test_resident_memory_is_counted_over_the_idle_level() -> None:
    meter = memory_meter(CPU)
    assert isinstance(meter, ResidentMeter)
    assert meter.peaks().resident_mib is None, "nothing has counted yet"
    meter.count(True)
    # large beside what other tests' threads may give back meanwhile
    held = _resident(mib=256)
    sampled, peak = meter.sample()["resident_mib"], meter.peaks().resident_mib
    assert peak is not None and peak >= sampled > 160
    assert meter.peaks().allocated_mib is None
    held.close()


def _resident(*, mib: int) -> mmap.mmap:
    """Pages of its own: an allocation may lie in memory that earlier tests freed and the process kept."""
    held = mmap.mmap(-1, mib * 2**20)
    for place in range(0, len(held), mmap.PAGESIZE):
        held[place] = 1
    return held


def statistics_of(allocated: int, reserved: int) -> dict[str, Any]:
    """What an allocator reports of peaks in bytes, among much else."""
    peaks = {"allocated_bytes": allocated, "reserved_bytes": reserved}
    return {name: {"all": {"peak": peak}} for name, peak in peaks.items()}


class Allocator:
    """Counts in MiB as PyTorch's allocator on a device does: `peak` since it was reset."""

    def __init__(self) -> None:
        self.held = self.peak = self.cached = self.asked = 0

    def step(self, takes: int) -> None:
        """Takes so much and gives it back."""
        self.peak = max(self.peak, self.held + takes)

    def init(self) -> None: ...

    def empty_cache(self) -> None:
        self.cached = 0

    def reset_peak_memory_stats(self, device: torch.device) -> None:
        self.peak = self.held

    def memory_stats_as_nested_dict(self, device: torch.device) -> dict[str, Any]:
        self.asked += 1
        return statistics_of(self.peak * 2**20, max(2 * self.peak, self.held + self.cached) * 2**20)


def test_only_what_counts_as_training_is_in_its_peak() -> None:
    allocator = Allocator()
    meter = AllocatorMeter(CPU, allocator)
    for counts, takes in ((False, 500), (True, 100), (False, 300), (True, 80)):
        meter.count(counts)
        allocator.step(takes)
    assert meter.sample()["allocated_mib"] == 80
    peaks = meter.peaks()
    assert (peaks.allocated_mib, peaks.reserved_mib, peaks.whole_run_mib) == (100, 200, 500)


def test_the_allocator_is_read_once_a_period_however_often_a_sample_is_sent_and_no_peak_is_missed() -> None:
    allocator = Allocator()
    meter = AllocatorMeter(CPU, allocator, period_seconds=1e9)
    meter.count(True)
    allocator.step(100)
    before = allocator.asked
    assert [meter.sample()["allocated_mib"] for _ in range(20)] == [100] * 20
    assert allocator.asked == before + 1
    allocator.step(300)
    assert meter.sample()["allocated_mib"] == 100 and meter.peaks().allocated_mib == 300
    meter.count(True)
    allocator.step(50)
    assert meter.sample()["allocated_mib"] == 50, "a phase begins with a sample of its own"


def test_what_only_the_first_steps_took_is_not_reserved_for_the_others() -> None:
    allocator = Allocator()
    meter = AllocatorMeter(CPU, allocator)
    allocator.step(5_000)  # cuDNN's search
    allocator.cached = 5_000
    meter.settle()
    allocator.step(100)
    meter.count(True)
    allocator.step(100)
    assert meter.peaks().reserved_mib == 200 and meter.peaks().whole_run_mib == 5_000


@pytest.mark.parametrize(("warmup", "expected"), [(0, []), (1, []), (2, [1]), (4, [3])])
def test_the_cache_is_emptied_once_before_the_last_step_that_warms_up(warmup, expected, hello, monkeypatch):
    settled: list[int] = []
    made: list[int] = []
    trains = PlainStep.__call__

    def counted(step: PlainStep, batches: Sequence[Batch]) -> torch.Tensor:
        made.append(len(batches))
        return trains(step, batches)

    monkeypatch.setattr(ResidentMeter, "settle", lambda meter: settled.append(len(made)))
    monkeypatch.setattr(PlainStep, "__call__", counted)
    assert hello(epochs=6, measure={"warmup_steps": warmup}).summary.steps == len(made) == 6
    assert settled == expected


def test_a_captured_step_takes_what_its_capture_took() -> None:
    allocator = Allocator()
    allocator.held = 10
    meter = AllocatorMeter(CPU, allocator)
    allocator.step(500)  # warming up, with the libraries' search for algorithms
    meter.count(False, captures=True)
    allocator.step(100)
    meter.count(True)  # replays, of whose memory the allocator knows nothing
    assert meter.sample()["allocated_mib"] == 110
    assert meter.peaks().allocated_mib == 110 and meter.peaks().reserved_mib == 20
    assert meter.peaks().whole_run_mib == 510


def test_a_sample_shows_the_peak_since_the_one_before() -> None:
    meter = ResidentMeter(period_seconds=0)
    if not meter._has_own_peak:
        pytest.skip("this system does not tell")
    # what earlier tests left must not be freed while this one measures
    gc.collect()
    meter = ResidentMeter(period_seconds=0)
    meter.count(True)
    meter.sample()
    held = _resident(mib=128)
    before = meter.sample()["resident_mib"]
    held.close()
    meter.sample()
    after, peak = meter.sample()["resident_mib"], meter.peaks().resident_mib
    assert peak is not None and after + 100 < before <= peak


def test_the_peak_of_a_warm_up_or_a_validation_is_not_the_trainings() -> None:
    meter = ResidentMeter()
    if not meter._has_own_peak:
        pytest.skip("this system does not tell")
    gc.collect()
    meter = ResidentMeter()
    for counts, mib in ((False, 256), (True, 64), (False, 256)):
        meter.count(counts)
        held = _resident(mib=mib)
        held.close()
    sampled, peaks = meter.sample()["resident_mib"], meter.peaks()
    assert peaks.resident_mib is not None and 32 < peaks.resident_mib < 160 < sampled
    # the first sample of what counts is of nothing before it
    meter.count(True)
    assert meter.sample()["resident_mib"] < 160


CARD = torch.device("cuda:0")
GIB = 2**30


class Card:
    """8 GiB, of which others hold 2 and this process 1; `reserved` is its peak."""

    total, others, held, reserved = 8 * GIB, 2 * GIB, 1 * GIB, 1 * GIB

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fraction = 1.0
        monkeypatch.setattr(torch, "get_device_module", lambda device: self)
        monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None, raising=False)
        for name in ("mem_get_info", "memory_reserved", "get_device_properties"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        for name in ("get_per_process_memory_fraction", "set_per_process_memory_fraction"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))

    def mem_get_info(self, device: torch.device) -> tuple[int, int]:
        return self.total - self.others - self.held, self.total

    def memory_reserved(self, device: torch.device) -> int:
        return self.held

    def get_device_properties(self, device: torch.device) -> Any:
        return SimpleNamespace(total_memory=self.total)

    def get_per_process_memory_fraction(self, device: torch.device) -> float:
        return self.fraction

    def set_per_process_memory_fraction(self, fraction: float, device: torch.device) -> None:
        self.fraction = fraction

    def max_memory_reserved(self, device: torch.device) -> int:
        return self.reserved

    max_memory_allocated = memory_allocated = memory_reserved

    def memory_stats_as_nested_dict(self, device: torch.device) -> dict[str, Any]:
        return statistics_of(self.held, self.reserved)

    def init(self, *of: object) -> None: ...

    synchronize = empty_cache = reset_peak_memory_stats = init


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    return Card(monkeypatch)


@pytest.fixture(params=["win32", "wsl"])
def spilling(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "wsl":
        monkeypatch.setattr(platform, "release", lambda: "5.15.167.4-microsoft-standard-WSL2")
    else:
        monkeypatch.setattr(sys, "platform", "win32")


@pytest.fixture
def on_linux_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "release", lambda: "6.8.0-51-generic")


@pytest.mark.usefixtures("spilling")
@pytest.mark.parametrize(("cap_gib", "limit_gib"), [(None, 6), (2.0, 2), (100.0, 6)])
def test_a_card_is_capped_at_what_is_free(card: Card, cap_gib: float | None, limit_gib: int) -> None:
    with memory_cap(CARD, cap_gib):
        assert card.fraction == limit_gib / 8
    assert card.fraction == 1.0


@pytest.mark.usefixtures("on_linux_alone")
def test_on_linux_a_card_has_the_cap_that_was_asked_for(card: Card) -> None:
    with memory_cap(CARD, None):
        assert card.fraction == 1.0
    with memory_cap(CARD, 7.0):
        assert card.fraction == 7 / 8


@pytest.mark.usefixtures("on_linux_alone")
@pytest.mark.parametrize(("cap_gib", "before_gib", "after_gib"), [(None, 6, 5), (5.5, 5.5, 5), (2.0, 2, 2)])
def test_what_libraries_took_beside_the_allocator_is_not_the_next_trials(
    card: Card, cap_gib: float | None, before_gib: float, after_gib: float
) -> None:
    of_trial = AllocatorTrial(CARD, None if cap_gib is None else cap_gib * 1_024)
    assert of_trial.budget_mib == before_gib * 1_024
    card.others += 1 * GIB  # as NCCL does
    of_trial.release()
    assert of_trial.budget_mib == after_gib * 1_024


@pytest.mark.usefixtures("spilling")
def test_a_run_tells_what_it_took_beyond_what_was_free(card: Card) -> None:
    meter = AllocatorMeter(CARD)
    meter.count(True)
    card.reserved = 6 * GIB
    assert meter.peaks().spilled_mib is None
    card.reserved = 7 * GIB
    assert meter.peaks().spilled_mib == 1_024
    assert AllocatorTrial(CARD, None).has_spilled()


@pytest.mark.usefixtures("on_linux_alone")
def test_on_linux_more_than_was_free_was_freed_by_another_program(card: Card) -> None:
    meter, of_trial = AllocatorMeter(CARD), AllocatorTrial(CARD, None)
    meter.count(True)
    card.others, card.reserved = 0, 7 * GIB
    assert meter.peaks().spilled_mib is None and not of_trial.has_spilled()


TINY: dict[str, Any] = {"model": "linear", "dataset": "synthetic-regression", "samples": 20, "batch_size": 10}


def test_a_trial_that_spills_says_so_in_each_heartbeat_and_by_its_name_at_its_end(monkeypatch):
    made = trial.trial_memory

    def spilled(device: torch.device, cap_gib: float | None) -> Any:
        memory = made(device, cap_gib)
        monkeypatch.setattr(memory, "has_spilled", lambda: True)
        return memory

    monkeypatch.setattr(trial, "trial_memory", spilled)
    control = Control()
    events = try_batch(Experiment.model_validate({**TINY, "device": "cpu", "steps": 2}), control)
    said = [(event, control.has_spilled()) for event in events]
    *within, (last, says_after) = said
    assert within and all(says for _, says in within) and not says_after
    assert isinstance(last, Tried)
    assert (last.trial.fits, last.trial.cause, last.trial.note) == (False, "spill", SPILLED)


def test_heartbeats_say_whether_a_trial_spills(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "HEARTBEAT_SECONDS", 0.0)
    control, done, put = Control(step=3), threading.Event(), []

    def take(event: Event) -> None:
        put.append(event)
        control.has_spilled = lambda: True
        if len(put) == 2:
            done.set()

    worker._beat(control, SimpleNamespace(put=take), done)  # type: ignore[arg-type]
    assert put == [Heartbeat(step=3), Heartbeat(step=3, has_spilled=True)]
