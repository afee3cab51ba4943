"""The engine compared with Lightning and accelerate as users run them: ResNet-50, batch 64, FP16.

Each is measured where it is installed. All have the same batches on the device already, AdamW and
cross-entropy; Lightning's logger, progress bar and checkpoints are off.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from by_hand import Workload
from side_by_side import Arm, engine, ratio, speed
from torch import nn
from torch.nn.functional import cross_entropy

from day.steps.speed import experiment_for, measured, uncompiled_in_rehearsals, workload_of
from day.work import Work

Batch = tuple[torch.Tensor, torch.Tensor]


def frameworks(work: Work) -> None:
    """Measure the installed frameworks, alternating with the engine's fast recipe."""
    workload = workload_of("resnet50-64", work)
    arms: Mapping[str, tuple[str, Callable[[Workload], list[float]]]] = {
        "lightning": ("lightning", lightning_blocks),
        "accelerate": ("accelerate", accelerate_blocks),
    }
    here: dict[str, Arm] = {
        name: partial(blocks, workload) for name, (module, blocks) in arms.items() if find_spec(module)
    }
    if not here:
        print("neither Lightning nor accelerate is installed")
        return
    fast = partial(engine, workload, "fast", experiment_for(workload, "fast"))
    with uncompiled_in_rehearsals(work):
        found = measured(work, {"engine": fast, **here})
    for name in here:
        count = min(len(found["engine"]), len(found[name]))
        if count:
            middle, low, high = ratio(found["engine"][:count], found[name][:count])
            speeds = f"{speed(found['engine']):,.0f} and {speed(found[name]):,.0f} samples/s"
            work.report(name, middle, f"({low:.2f} to {high:.2f}, {count} rounds; {speeds})")


class _Clock:
    """Notes the end of each block of steps; the device is waited for there."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._ends: list[float] = []

    def step_ended(self, number: int) -> None:
        """`number` counts the steps from 1."""
        over = number - self._workload.warmup
        if over >= 0 and over % self._workload.block == 0:
            if self._workload.device.type == "cuda":
                torch.cuda.synchronize()
            self._ends.append(time.perf_counter())

    def speeds(self) -> list[float]:
        """Return the samples per second of each block."""
        samples = self._workload.block * self._workload.batch_size
        return [samples / (end - begin) for begin, end in itertools.pairwise(self._ends)]


class _Batches(torch.utils.data.IterableDataset[Batch]):
    """As many batches as there are steps, out of those on the device."""

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        self._batches = workload.batches(torch.contiguous_format)
        self._count = workload.warmup + workload.steps

    def __iter__(self) -> Iterator[Batch]:
        return itertools.islice(itertools.cycle(self._batches), self._count)


def _loader(workload: Workload) -> torch.utils.data.DataLoader[Batch]:
    return torch.utils.data.DataLoader(_Batches(workload), batch_size=None)


def lightning_blocks(workload: Workload) -> list[float]:
    """Return the throughput of each block of a Trainer's steps."""
    from lightning.pytorch import LightningModule, Trainer

    clock, network = _Clock(workload), workload.network()

    class Classifier(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def training_step(self, batch: Batch, _: int) -> torch.Tensor:
            return cross_entropy(self.network(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-3, weight_decay=0.0)

        def on_train_batch_end(self, outputs: Any, batch: Batch, batch_index: int) -> None:
            clock.step_ended(batch_index + 1)

    trainer = Trainer(
        accelerator="gpu" if workload.device.type == "cuda" else "cpu",
        devices=1,
        precision="16-mixed" if workload.precision == "fp16" else "bf16-mixed",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), _loader(workload))
    return clock.speeds()


def accelerate_blocks(workload: Workload) -> list[float]:
    """Return the throughput of each block of a loop with an Accelerator."""
    from accelerate import Accelerator

    accelerator = Accelerator(mixed_precision=workload.precision, cpu=workload.device.type == "cpu")
    network: nn.Module = workload.network()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.0)
    network, optimizer, loader = accelerator.prepare(network, optimizer, _loader(workload))
    clock = _Clock(workload)
    for number, (inputs, targets) in enumerate(loader, 1):
        optimizer.zero_grad()
        loss = cross_entropy(network(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        clock.step_ended(number)
    return clock.speeds()
