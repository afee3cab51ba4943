"""Small real runs on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.experiment import Experiment, layered
from engine.protocol.events import Epoch, Event, Finished, Samples, Skipped, Started, Summary
from engine.protocol.jobs import Control
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


@dataclass(frozen=True)
class Trained:
    """The events of one run."""

    events: tuple[Event, ...]

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
        batches = [event for event in self.events if isinstance(event, Samples)]
        joined = batches[0]
        for batch in batches[1:]:
            joined = joined.followed_by(batch)
        return joined

    @property
    def epochs(self) -> list[Epoch]:
        return [event for event in self.events if isinstance(event, Epoch)]

    @property
    def skipped_steps(self) -> list[int]:
        return [step for event in self.events if isinstance(event, Skipped) for step in event.steps]


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
    experiment = Experiment.model_validate(layered(base, settings))
    return Trained(tuple(train(experiment, Control())))
