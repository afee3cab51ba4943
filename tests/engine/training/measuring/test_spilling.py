"""Windows and WSL, where a driver puts what does not fit on a card into the host's memory; simulated."""

from __future__ import annotations

import platform
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.experiment.experiment import Experiment
from engine.protocol.events import Event, Heartbeat
from engine.protocol.jobs import Control
from engine.protocol.trials import SPILLED, Tried
from engine.training.measuring.memory import AllocatorMeter
from engine.training.measuring.memory_cap import AllocatorTrial, memory_cap
from engine.training.runs import trial
from engine.training.runs.trial import try_batch
from engine.worker import __main__ as worker

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

    def memory_stats(self, device: torch.device) -> dict[str, int]:
        return {}

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
def on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "release", lambda: "6.8.0-51-generic")


@pytest.mark.usefixtures("spilling")
@pytest.mark.parametrize(("cap_gib", "limit_gib"), [(None, 6), (2.0, 2), (100.0, 6)])
def test_a_card_is_capped_at_what_is_free(card: Card, cap_gib: float | None, limit_gib: int) -> None:
    with memory_cap(CARD, cap_gib):
        assert card.fraction == limit_gib / 8
    assert card.fraction == 1.0


@pytest.mark.usefixtures("on_linux")
def test_on_linux_a_card_has_the_cap_that_was_asked_for(card: Card) -> None:
    with memory_cap(CARD, None):
        assert card.fraction == 1.0
    with memory_cap(CARD, 7.0):
        assert card.fraction == 7 / 8


@pytest.mark.usefixtures("spilling")
def test_a_run_tells_what_it_took_beyond_what_was_free(card: Card) -> None:
    meter = AllocatorMeter(CARD)
    meter.count(True)
    card.reserved = 6 * GIB
    assert meter.peaks().spilled_mib is None
    card.reserved = 7 * GIB
    assert meter.peaks().spilled_mib == 1_024
    assert AllocatorTrial(CARD, None).has_spilled()


@pytest.mark.usefixtures("on_linux")
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
