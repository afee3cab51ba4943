"""Costs of the program to training: telemetry, synchronizations with the GPU, the window."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
import torch
import window_tax
from side_by_side import median_interval
from telemetry_tax import CONTROL, OFF, TELEMETRY, measure, overhead, show, workload_for
from torch.nn.functional import cross_entropy

from day.waits import waits_in
from day.work import Work
from engine.experiment.experiment import experiment_from
from engine.training.models.build import build_model
from engine.training.steps.recipe import build_step
from engine.worker.launcher import Target
from gui.window.app import make_application

_HZ = 30
_WAITS = {"waits-fast": ("fast", "fast"), "waits-fused": ("fused", "plain, fused")}


def tax(work: Work) -> None:
    """Measure each part of the telemetry in one step object, and count the host's waits for the device."""
    workload = workload_for(torch.device(work.device), work.small(25, 2))
    for recipe in ("plain", "fast"):
        found = measure(workload, recipe, work.small(50.0, 0.0))
        show(found, f"{workload}, {recipe}")
        off = float(np.median(found[OFF]))
        control, least, most = overhead(found, CONTROL)
        again = f"off again {control:+.1f} us ({least:.1f} to {most:.1f})"
        if recipe == "plain":
            work.report("telemetry-control", abs(control), f"({again})")
        more, low, high = overhead(found, TELEMETRY)
        speeds = f"{off / (off + high):.3f} to {off / (off + low):.3f}, {len(found[OFF])} rounds"
        words = f"({speeds}; {more:+.1f} us on a step of {off / 1e3:.2f} ms; {again})"
        work.report(f"telemetry-{recipe}", off / (off + more), words)
    for key, (recipe, words) in _WAITS.items():
        count, in_force = _waits(work, recipe)
        work.report(key, count, f"in 5 steps of {words}; in force: {in_force}")


def _waits(work: Work, recipe: str) -> tuple[int, str]:
    """How often the host waited in five steps, and the recipe in force."""
    tables = {"precision": work.half, "measure": {"warmup_steps": 3}, "step": {"recipe": recipe}}
    model = build_model("small-cnn", image_size=16, channels=3, num_classes=10, seed=0)
    device = torch.device(work.device)
    step = build_step(model, cross_entropy, experiment_from(tables), device, is_convolutional=True)
    batches = [
        (torch.randn(32, 3, 16, 16, device=device), torch.randint(10, (32,), device=device)) for _ in range(5)
    ]
    return waits_in(step, batches), step.record.recipe


def window(work: Work) -> None:
    """Measure the speed with the live window over that without it. A pair of fresh processes takes 30 s."""
    application = make_application([])
    experiment = window_tax.workload(not work.is_rehearsal, steps=work.small(None, 6))
    where = work.small(Target.PROCESS, Target.THREAD)
    with tempfile.TemporaryDirectory() as name:
        found = window_tax.ratios_of(
            application,
            experiment,
            [(where, _HZ)],
            Path(name),
            pairs=work.small(10, 1),
            # the last pair begins before the end
            seconds=0.9 * work.left,
            without=where,
        )
    ratios = found[where, _HZ]
    middle, low, high = median_interval(ratios)
    work.report(f"window-{_HZ}", middle, f"({low:.3f} to {high:.3f}, {len(ratios)} pairs)")
