"""A pass of a batch before training, to observe its operations, after which everything is as before."""

from __future__ import annotations

import random
import time
from contextlib import AbstractContextManager, suppress

import numpy as np
import torch
from torch import nn

from engine.training.data.batches import Batch
from engine.training.models.own import random_states, restore_random_states
from engine.training.steps.own import OwnStep
from engine.training.steps.plain import PlainStep

_PLAIN = (bool, int, float, str, tuple, type(None))


class ForwardState:
    """A copy of a model's buffers, such as BatchNorm's running means, and of all random states.

    Plain attributes of its modules, such as a count of calls, are copied too.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._device = device
        self._buffers = [
            (module._buffers, name, buffer, None if buffer is None else buffer.clone())
            for module in model.modules()
            for name, buffer in module._buffers.items()
        ]
        self._attributes = [
            (vars(module), {name: value for name, value in vars(module).items() if isinstance(value, _PLAIN)})
            for module in model.modules()
        ]
        self._hosts_random = random.getstate(), np.random.get_state()
        self._random = random_states(device)

    def restore(self) -> None:
        """Bring the copied state back, into the same tensors and modules."""
        with torch.no_grad():
            for owner, name, buffer, saved in self._buffers:
                # a pass may have put another tensor in its place
                owner[name] = buffer
                if buffer is not None and saved is not None:
                    buffer.copy_(saved)
        for attributes, plain in self._attributes:
            attributes.update(plain)
        restore_random_states(self._random, self._device)
        random.setstate(self._hosts_random[0])
        np.random.set_state(self._hosts_random[1])


def synchronize(device: torch.device) -> None:
    """Wait until the device, unless it is the CPU, has finished its work."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def rehearse(step: PlainStep, batch: Batch, watch: AbstractContextManager[object]) -> float:
    """Pass a batch forward and backward within `watch`, uncompiled and alone, and restore all state.

    Return the seconds that it took. Gradients are neither kept nor sent to other devices. A failure, as for
    lack of memory, has no effect. A step that the model's file defines is not rehearsed, because it changes
    weights, nor one with an activation budget, because its uncompiled model may not fit.
    """
    if isinstance(step, OwnStep) or step.experiment.step.activation_budget is not None:
        return 0.0
    synchronize(step.device)
    began = time.perf_counter()
    state = ForwardState(step.model, step.device)
    weights = [weight for weight in step.model.parameters() if weight.requires_grad]
    with suppress(Exception), torch.compiler.set_stance("force_eager"), watch:
        torch.autograd.grad(step.uncompiled_loss(batch), weights, allow_unused=True)
    state.restore()
    if step.device.type in ("cuda", "xpu"):
        # its memory is not the run's
        module = torch.get_device_module(step.device)
        module.empty_cache()
        module.reset_peak_memory_stats(step.device)
    synchronize(step.device)
    return time.perf_counter() - began
