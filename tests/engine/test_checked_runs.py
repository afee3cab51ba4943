"""A file that exits or crashes ends its check alone, and nothing is saved; prints end nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import with_code
from engine.experiment.own.trust import TrustedCode
from engine.experiment.problem import Kind
from engine.protocol.events import Event, Failed, Finished, Log, Phase, PhaseName
from engine.runner import Runner
from engine.store.store import Store

NET = """
import ctypes, sys, torch
from torch import nn

class Net(nn.Linear):
    def forward(self, x):
        return super().forward(x)

def model():
    return Net(4, 4)

def batch(size):
    return torch.randn(size, 4), torch.randn(size, 4)
"""
FORWARD = "return super().forward(x)"
SHORT = {"batch_size": 4, "samples": 8, "steps": 2, "device": "cpu"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with Store(tmp_path / "runs.sqlite") as store:
        yield store


def own_experiment(store: Store, folder: Path, text: str) -> Experiment:
    path = folder / "net.py"
    path.write_text(text, encoding="utf-8")
    asked = {**SHORT, "model": str(path)}
    experiment = experiment_from(with_code(asked, names_model=True, names_dataset=False))
    assert experiment.own_code is not None
    TrustedCode().add(experiment.own_code)
    return experiment


def trained(store: Store, launcher, folder: Path, text: str) -> list[Event]:
    experiment = own_experiment(store, folder, text)
    return list(Runner(store, launcher).run(store.add(experiment).id))


@pytest.mark.parametrize("mistake", ["sys.exit(0)", "ctypes.string_at(0)"])
def test_a_file_that_exits_or_crashes_ends_alone_and_leaves_nothing(
    store, launcher, tmp_path, mistake
) -> None:
    first, last = trained(store, launcher, tmp_path, NET.replace(FORWARD, f"{mistake}; {FORWARD}"))
    assert isinstance(first, Phase) and first.name is PhaseName.CHECKING
    assert isinstance(last, Failed) and last.problem.kind is Kind.REQUEST
    line = NET.splitlines().index(f"        {FORWARD}") + 1
    assert last.problem.message.startswith(f"net.py:{line}:")
    assert store.runs() == ()


def test_a_file_that_prints_a_lot_is_trained_with_its_warning_logged(store, launcher, tmp_path) -> None:
    noisy = "print('x' * 1_000_000); x.sum().item()"
    *events, last = trained(store, launcher, tmp_path, NET.replace(FORWARD, f"{noisy}; {FORWARD}"))
    assert isinstance(last, Finished)
    (warning,) = [event for event in events if isinstance(event, Log) and event.level == "warning"]
    assert warning.message.startswith("net.py:7:") and "item" in warning.message
