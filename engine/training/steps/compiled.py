"""The step with compiled forward and backward passes, which falls back to the plain step.

Besides gradients, a pass changes the model's buffers and the random state; both are restored where compiling
fails.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from engine.protocol.events import PhaseName
from engine.training.data.batches import Batch, batch_samples
from engine.training.steps.plain import PlainStep, reason_of

Shape = tuple[torch.Size, ...]


class ForwardState:
    """A copy of the model's buffers (such as BatchNorm's running means) and of the random state."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._device = device
        self._buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
        self._random = torch.get_rng_state()
        self._device_random: Tensor | None = None
        if device.type != "cpu":
            self._device_random = torch.get_device_module(device).get_rng_state()

    def restore(self) -> None:
        """Restores everything in place."""
        with torch.no_grad():
            for buffer, saved in self._buffers:
                buffer.copy_(saved)
        torch.set_rng_state(self._random)
        if self._device_random is not None:
            torch.get_device_module(self._device).set_rng_state(self._device_random)


class CompiledStep(PlainStep):
    """A plain step whose model is compiled by `torch.compile` for batches of one shape.

    The first call compiles. If that fails, the same step is made uncompiled, as if it had never been tried.
    A smaller batch at the end of an epoch goes through the uncompiled model; a larger one than before
    compiles again. Raises RuntimeError where this Python cannot compile at all.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        # A wrapper beside the model: compiled in place, validation would compile too, for its own shapes.
        with _quiet():
            self._compiled: nn.Module | None = cast(nn.Module, torch.compile(self.model, dynamic=False))
        self._shape: Shape | None = None
        self._samples = 0

    @property
    def watched(self) -> nn.Module:
        """The compiled wrapper: hooks on the model itself would cause a recompilation."""
        return self.model if self._compiled is None else self._compiled

    def next_phase(self) -> PhaseName | None:
        is_next = self._compiled is not None and self._shape is None
        return PhaseName.COMPILING if is_next else None

    def gradients(self, batches: Sequence[Batch]) -> Tensor:
        """Makes the plain step; compiles if the batches are larger than any before."""
        samples, inputs = max((batch_samples(batch), number) for number, batch in enumerate(batches))
        if self._compiled is None or (self._shape is not None and samples <= self._samples):
            return super().gradients(batches)
        self._samples = samples
        return self._compile(batches, _shape(batches[inputs][0]))

    def _forward(self, inputs: Any) -> Any:
        if self._compiled is None or _shape(inputs) != self._shape:
            return super()._forward(inputs)
        return self._call(self._compiled, inputs)

    def _compile(self, batches: Sequence[Batch], shape: Shape) -> Tensor:
        state = ForwardState(self.model, self.device)
        self._shape = shape
        _synchronize(self.device)
        began = time.perf_counter()
        try:
            with _quiet():
                loss = super().gradients(batches)
            _synchronize(self.device)  # errors of the kernels show here
        except Exception as error:  # noqa: BLE001 - a compiler may fail in any way
            reason = reason_of(error)
        else:
            self.compile_seconds = (self.compile_seconds or 0.0) + time.perf_counter() - began
            return loss
        # Outside `except`, whose traceback would keep the tensors of the failed pass.
        self._compiled = None
        state.restore()
        self.record.leave_out("compile", f"it failed here ({reason})")
        return super().gradients(batches)


def _shape(inputs: Any) -> Shape:
    if isinstance(inputs, Tensor):
        return (inputs.shape,)
    return tuple(part.shape for part in tree_leaves(inputs) if isinstance(part, Tensor))


@contextmanager
def _quiet() -> Iterator[None]:
    # The compiler's warnings are for the model's authors, or for PyTorch's.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _synchronize(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
