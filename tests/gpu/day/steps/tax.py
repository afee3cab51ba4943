"""What the program itself costs a training: its telemetry, its waits for the card, its window."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import torch
import window_tax
from side_by_side import ratio
from telemetry_tax import measure, workload_for
from torch.nn.functional import cross_entropy

from day.waits import waits_in
from day.work import Work
from engine.experiment.experiment import experiment_from
from engine.training.models.build import build_model
from engine.training.steps.recipe import build_step
from engine.worker.launcher import Target
from gui.window.app import make_application

_WAITS = {"waits-fast": ("fast", "fast"), "waits-fused": ("fused", "plain, fused")}


def tax(work: Work) -> None:
    """Telemetry on over off in one step object, in turns; how often the host waits in a step."""
    workload = workload_for(torch.device(work.device), work.small(100, 2))
    for recipe in ("plain", "fast"):
        on, off = measure(workload, recipe, work.small(20, 1))
        middle, low, high = ratio([[value] for value in on], [[value] for value in off])
        work.tell(f"telemetry-{recipe}", middle, f"({low:.3f} to {high:.3f}, {len(on)} pairs)")
    for key, (recipe, words) in _WAITS.items():
        count, in_force = _waits(work, recipe)
        work.tell(key, count, f"in 5 steps of {words}; in force: {in_force}")


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
    """The speed with the live window over that without it, at three repaint rates."""
    application = make_application([])
    experiment = window_tax.workload(not work.is_rehearsal, steps=work.small(None, 6))
    where = work.small(Target.PROCESS, Target.THREAD)
    rates: Sequence[int] = (10, 30, 60)
    with tempfile.TemporaryDirectory() as name:
        found = window_tax.ratios_of(
            application,
            experiment,
            [(where, hz) for hz in rates],
            Path(name),
            pairs=work.small(10, 1),
            # a pair at each rate takes a while, and the last begins before the end
            seconds=0.7 * work.left,
            without=where,
        )
    for (_, hz), ratios in found.items():
        middle, low, high = window_tax.interval(ratios)
        work.tell(f"window-{hz}", middle, f"({low:.3f} to {high:.3f}, {len(ratios)} pairs)")
