"""Takes the ranges of a run's numbers while it trains, every so many steps."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
import torch

from engine.protocol.events import Diagnosed, Event, Log
from engine.protocol.numerics.ranges import Ranges
from engine.training.data.batches import Batch
from engine.training.failures import problem_of
from engine.training.measuring.ranges import in_fp32, measured_ranges, watched_pass
from engine.training.precision import float32_mode
from engine.training.runs.prepare import RunPlan, plain_step
from engine.training.steps.plain import PlainStep, TrainingStep
from engine.training.steps.recipe import no_cudnn_search


class RangeSampler:
    """Samples the ranges of a run on a model of its own, with the run's weights and the batches of a step.

    The run itself is only read: it has the same bits as without, compiled and captured too. Between two
    samples the model is in the host's memory.
    """

    def __init__(self, plan: RunPlan, step: TrainingStep) -> None:
        self._plan = plan
        self._step = step
        self._own: PlainStep | None = None
        self._has_failed = False

    def is_due(self, steps: int) -> bool:
        return steps % self._plan.experiment.measure.range_every == 0 and not self._has_failed

    def sample(self, group: Sequence[Batch], steps: int) -> Event:
        """The ranges after `steps` steps, or a remark on why there are none. Waits for the device."""
        with _own_cache(self._plan.device):
            return self._sampled(group, steps)

    def _sampled(self, group: Sequence[Batch], steps: int) -> Event:
        try:
            with _own_random(self._plan.device), no_cudnn_search():
                return Diagnosed(result=self._ranges(group, steps))
        except Exception as error:  # noqa: BLE001 - a run goes on, however its sampling failed
            problem = problem_of(error)
        # outside the except block, where the exception no longer pins the tensors of its frames
        self._has_failed, self._own = True, None
        message = f"No ranges from step {steps:,} on, though the run goes on. {problem.message}"
        return Log(level="warning", message=message, step=steps)

    def _ranges(self, group: Sequence[Batch], steps: int) -> Ranges:
        experiment, scaler = self._plan.experiment, self._step.scaler
        reference = in_fp32(experiment)
        with float32_mode(reference.precision, reference.step.autocast_tf32):
            weights = self._step.model.state_dict()
            if self._own is None:
                self._own = plain_step(self._plan, reference, weights)
            model = self._own.model
            model.to(self._plan.device).load_state_dict(weights)
            seen = watched_pass(model, partial(self._own.gradients, group))
        scale = scaler.get_scale() if scaler.is_enabled() else 1.0
        ranges = measured_ranges(
            seen, precision=experiment.precision, scale=scale, first_scale=scale, step=steps
        )
        model.zero_grad(set_to_none=True)
        model.cpu()
        if self._plan.workload.body is not None:
            # a step of the model file's own also steps its optimizers, whose state stays on the device
            self._own = None
        return ranges


@contextmanager
def _own_cache(device: torch.device) -> Iterator[None]:
    """Gives back what the context leaves in the allocator's cache, which would count as the run's."""
    if device.type not in ("cuda", "xpu"):
        yield
        return
    module: Any = torch.get_device_module(device)
    reserved = module.memory_reserved(device)
    yield
    module.empty_cache()
    # Taken again in one piece: the next step, which is measured, would ask the device for many. Another
    # program may have been quicker.
    with suppress(torch.OutOfMemoryError):
        torch.empty(max(0, reserved - module.memory_reserved(device)), dtype=torch.uint8, device=device)


@contextmanager
def _own_random(device: torch.device) -> Iterator[None]:
    """Leaves the random numbers outside of the context as they were, those of the user's code too."""
    of_python, of_numpy = random.getstate(), np.random.get_state()
    devices = [] if device.type == "cpu" else [device]
    try:
        with torch.random.fork_rng(devices, device_type=device.type if devices else "cuda"):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
