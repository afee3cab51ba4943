"""Numerics on the GPU: time of the map and the ranges, and whether planted faults are named."""

from __future__ import annotations

import tempfile
from pathlib import Path

from numerics import experiment_of, search_of, timed
from planted import PLANTED

from day.work import Work

_FAULT_SECONDS = 30.0


def numerics(work: Work) -> None:
    """Examine ResNet-50 in FP16, batch 64, then model files with one planted fault each."""
    model, batch_size = work.small(("resnet50", 64), ("small-cnn", 2))
    seconds = timed(experiment_of(model, work.device, work.half, batch_size))
    parts = ", ".join(f"{name} {taken:.1f} s" for name, taken in seconds.items())
    work.report("numerics", seconds["all"], f"({parts})")
    missed, asked = [], 0
    for planted in PLANTED[: work.small(len(PLANTED), 1)]:
        if not work.has_time(_FAULT_SECONDS, planted.name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            experiment = planted.experiment(Path(folder))
            search = search_of(experiment.model_copy(update={"device": work.device}))
        asked += 1
        if not planted.is_named_by(search):
            missed.append(planted.name)
            print(f"{planted.name}: {search.sentence} {search.first}", flush=True)
    work.report("planted", len(missed), f"of {asked}: {', '.join(missed) or 'all named'}")
