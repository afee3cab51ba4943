"""Small real runs on the CPU, of the catalog's models and of workload files of a few lines."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeVar

import pytest

from engine.experiment.experiment import Experiment, experiment_from, layered
from engine.experiment.own.code import with_code
from engine.experiment.problem import Problem, ProblemError
from engine.protocol.events import Epoch, Event, Finished, Log, Samples, Skipped, Started, Summary
from engine.protocol.jobs import Control
from engine.training.failures import problem_of
from engine.training.runs.loop import train

HELLO: dict[str, Any] = {
    "model": "linear",
    "dataset": "synthetic-regression",
    "samples": 20,
    "batch_size": 20,
    "device": "cpu",
    "optimizer": {"name": "sgd", "learning_rate": 0.1},
    "measure": {"warmup_steps": 0, "block_steps": 1},
}
PICTURES: dict[str, Any] = {
    "model": "small-cnn",
    "dataset": "synthetic",
    "image_size": 8,
    "num_classes": 4,
    "samples": 32,
    "batch_size": 16,
    "device": "cpu",
    "optimizer": {"learning_rate": 0.01},
    "measure": {"warmup_steps": 2, "block_steps": 1},
}
SHORT = {
    "batch_size": 4,
    "samples": 16,
    "steps": 6,
    "device": "cpu",
    "measure": {"warmup_steps": 1, "block_steps": 1},
}

_Kind = TypeVar("_Kind")


def refusal(act: Callable[..., Any], *arguments: Any, **settings: Any) -> Problem:
    """The problem by which a call is refused, with the place in the user's code."""
    with pytest.raises(ProblemError) as raised:
        act(*arguments, **settings)
    return problem_of(raised.value)


def line_of(text: str, part: str) -> int:
    """The number of the first line that has `part`."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


@pytest.fixture(scope="session", autouse=True)
def _tracker() -> None:
    """Start Python's own helper of spawned processes, which no test needs to end."""
    if hasattr(resource_tracker, "ensure_running") and sys.platform != "win32":
        resource_tracker.ensure_running()


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """torch.compile without helper processes, which would outlive the test, or an earlier compilation.

    Nor does it try what vectors this machine can do, or optimise its C++, which takes longer than a test.
    """
    import torch._inductor.config
    from torch._inductor import cpp_builder

    torch._dynamo.reset()
    monkeypatch.setattr(cpp_builder, "_get_inductor_debug_symbol_cflags", lambda: ([], []), raising=False)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))
    settings = {"compile_threads": 1, "cpp_cache_precompile_headers": False, "cpp.vec_isa_ok": False}
    with torch._inductor.config.patch({**settings, "aot_inductor.debug_compile": True}):
        yield
    torch._dynamo.reset()


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """torch.compile traces forward and backward as it always does, and then compiles no C++ of them."""
    import torch

    torch._dynamo.reset()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    yield
    torch._dynamo.reset()


@pytest.fixture
def forked_loaders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loader processes are forked where the system can, in place of started, to import torch anew."""
    if hasattr(os, "fork"):
        contexts = vars(multiprocessing.context)["_concrete_contexts"]
        monkeypatch.setitem(contexts, "spawn", contexts["fork"])


@dataclass(frozen=True)
class Trained:
    """The events of one run."""

    events: tuple[Event, ...]

    def of(self, kind: type[_Kind]) -> list[_Kind]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def started(self) -> Started:
        assert isinstance(self.events[0], Started)
        return self.events[0]

    @property
    def finished(self) -> Finished:
        assert isinstance(self.events[-1], Finished)
        return self.events[-1]

    @property
    def summary(self) -> Summary:
        return self.finished.summary

    @property
    def samples(self) -> Samples:
        joined, *batches = self.of(Samples)
        for batch in batches:
            joined = joined.followed_by(batch)
        return joined

    @property
    def losses(self) -> tuple[float, ...]:
        return sum((event.loss for event in self.of(Samples)), ())

    @property
    def epochs(self) -> list[Epoch]:
        return self.of(Epoch)

    @property
    def skipped_steps(self) -> list[int]:
        return [step for event in self.of(Skipped) for step in event.steps]

    @property
    def logs(self) -> list[str]:
        return [event.message for event in self.of(Log)]


def trained(
    experiment: Experiment,
    folder: Path | None = None,
    *,
    stop_after: int | None = None,
    resume: bool = False,
) -> Trained:
    """The run of an experiment, stopped once `stop_after` steps are known to be done."""
    control, events = Control(), []
    for event in train(experiment, control, folder, resume=resume):
        events.append(event)
        if stop_after is not None and control.step >= stop_after:
            control.stop_requested.set()
    return Trained(tuple(events))


@pytest.fixture
def hello() -> Callable[..., Trained]:
    """Trains the linear model on 20 samples, with settings over the smallest ones."""
    return lambda **settings: _trained(HELLO, settings)


@pytest.fixture
def pictures() -> Callable[..., Trained]:
    """Trains the small CNN on synthetic 8x8 pictures, with settings over the smallest ones."""
    return lambda **settings: _trained(PICTURES, settings)


@pytest.fixture
def fashion() -> Callable[..., Trained]:
    """Trains the small CNN on the built-in pictures for a few steps."""
    base = {"device": "cpu", "steps": 3, "validation": {"limit": 100}, "measure": {"warmup_steps": 0}}
    return lambda **settings: _trained(base, settings)


def _trained(base: dict[str, Any], settings: dict[str, Any]) -> Trained:
    return trained(Experiment.model_validate(layered(base, settings)))


class OwnRuns:
    """Writes workload files into an empty folder, and trains them for a few steps in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, text: str, name: str = "net.py") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    def experiment(self, path: Path | str, /, **settings: Any) -> Experiment:
        asked = {**SHORT, **settings, "model": str(path)}
        return experiment_from(with_code(asked, names_model=True, names_dataset="dataset" in settings))

    def asked(self, text: str, /, **settings: Any) -> Experiment:
        return self.experiment(self.write(text), **settings)

    def run(self, text: str, /, **settings: Any) -> Trained:
        return trained(self.asked(text, **settings))


@pytest.fixture
def own(tmp_path: Path) -> OwnRuns:
    return OwnRuns(tmp_path)
