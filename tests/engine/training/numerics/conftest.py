"""Benches of tiny experiments on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.experiment import Experiment, layered
from engine.protocol import jobs
from engine.protocol.events import PartMeasured
from engine.protocol.jobs import Control
from engine.protocol.numerics.nonfinite import NonfiniteSearch
from engine.training.doctor import read_catalog
from engine.training.numerics.bench import Bench, open_bench
from engine.training.numerics.parts import study_numerics
from engine.training.runs.prepare import RunPlan
from tests.benchmarks.planted import Planted

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

MakeBench = Callable[..., Bench]
Plant = Callable[..., Experiment]


@pytest.fixture
def make_bench() -> Iterator[MakeBench]:
    """Opens a bench of a tiny experiment with other `settings`; `control` may stop it."""
    with ExitStack() as stack:

        def make(control: Control | None = None, **settings: Any) -> Bench:
            experiment = Experiment.model_validate(layered(TINY, settings))
            opening = open_bench(RunPlan(experiment, read_catalog()), control or Control())
            while True:
                try:
                    next(opening)
                except StopIteration as end:
                    bench = end.value
                    assert isinstance(bench, Bench)
                    return stack.enter_context(closing(bench))

        yield make


def searched(experiment: Experiment, control: Control | None = None, **job: Any) -> NonfiniteSearch:
    asked = jobs.StudyNumerics(experiment=experiment, parts=("nan",), **job)
    events = study_numerics(asked, control or Control())
    results = [event.result for event in events if isinstance(event, PartMeasured)]
    (search,) = [result for result in results if isinstance(result, NonfiniteSearch)]
    return search


@pytest.fixture
def planted(tmp_path: Path) -> Plant:
    def make(text: str, **settings: Any) -> Experiment:
        return Planted("", text, "", (), (), settings=settings).experiment(tmp_path)

    return make
