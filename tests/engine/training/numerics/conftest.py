"""Benches of tiny experiments on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from engine.experiment.experiment import Experiment, layered
from engine.experiment.own.code import with_code
from engine.protocol import jobs
from engine.protocol.events import Event, PartMeasured
from engine.protocol.jobs import Control
from engine.protocol.numerics import NonfiniteSearch
from engine.training.doctor import read_catalog
from engine.training.numerics.bench import Bench, open_bench
from engine.training.numerics.study import study_numerics
from engine.training.runs.plan import RunPlan
from tests.benchmarks.planted import PLANTED, Planted

TINY: dict[str, Any] = {
    "model": "small-cnn",
    "dataset": "synthetic",
    "image_size": 8,
    "num_classes": 4,
    "samples": 64,
    "batch_size": 16,
    "device": "cpu",
    "steps": 4,
}

FEW: dict[str, Any] = {"samples": 16, "batch_size": 4}
"""Few enough samples for a CPU that only emulates FP16."""

MakeBench = Callable[..., Bench]
Result = TypeVar("Result")
Plant = Callable[..., Experiment]


def end_of(making: Generator[Any, None, Result]) -> Result:
    """What a generator returns in the end."""
    while True:
        try:
            next(making)
        except StopIteration as end:
            result: Result = end.value
            return result


def part_of(bench: Bench, make: Callable[..., Generator[Event, None, Result]]) -> Result:
    """A part of the bench's numerics."""
    return end_of(make(bench, jobs.StudyNumerics(experiment=bench.experiment)))


def own_settings(folder: Path, text: str, name: str = "model") -> dict[str, Any]:
    """The settings of a file that brings its model and its data."""
    (folder / "net.py").write_text(text)
    own = {"model": f"{folder}/net.py:{name}", "dataset": "own", "image_size": None, "num_classes": None}
    return with_code(own, names_model=True, names_dataset=True)


@pytest.fixture
def make_bench() -> Iterator[MakeBench]:
    """Opens a bench of a tiny experiment with other `settings`; `control` may stop it."""
    with ExitStack() as stack:

        def make(control: Control | None = None, **settings: Any) -> Bench:
            experiment = Experiment.model_validate(layered(TINY, settings))
            bench = end_of(open_bench(RunPlan(experiment, read_catalog()), control or Control()))
            assert bench is not None
            return stack.enter_context(closing(bench))

        yield make


def searched(experiment: Experiment, control: Control | None = None, **job: Any) -> NonfiniteSearch:
    asked = jobs.StudyNumerics(experiment=experiment, parts=("nan",), **job)
    events = study_numerics(asked, control or Control())
    results = [event.result for event in events if isinstance(event, PartMeasured)]
    (search,) = [result for result in results if isinstance(result, NonfiniteSearch)]
    return search


def fault_named(name: str) -> Planted:
    """The planted fault of that name."""
    return next(fault for fault in PLANTED if fault.name == name)


@pytest.fixture
def planted(tmp_path: Path) -> Plant:
    def make(text: str, **settings: Any) -> Experiment:
        return Planted("", text, "", (), (), settings=settings).experiment(tmp_path)

    return make
