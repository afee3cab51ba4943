"""One step in one CUDA graph, with the memory that its batches are copied into."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.training.data.batches import Batch
from engine.training.garbage import no_collection
from engine.training.steps.plain import PlainStep


class Capture:
    """Captures a step for batches shaped as the given ones, which it does not train on.

    The optimizer's state must be there, so some steps have been made on `stream`. Raises what the capture
    fails with; model, optimizer, scaler and random state are then as before. Waits for the device.
    """

    def __init__(self, step: PlainStep, batches: Sequence[Batch], stream: torch.cuda.Stream) -> None:
        self._inputs = [inputs.clone() for inputs, _ in batches]
        self._targets = [targets.clone() for _, targets in batches]
        self._graph = torch.cuda.CUDAGraph()
        # The graph takes memory of its own, so what the last step left is given back first.
        step.optimizer.zero_grad(set_to_none=True)
        self._row = self._capture(step, stream)
        self._gradients = [(parameter, parameter.grad) for parameter in step.model.parameters()]

    def replay(self, batches: Sequence[Batch]) -> Tensor:
        """Trains on the batches; returns the figures, which the next replay overwrites."""
        for inputs, targets, batch in zip(self._inputs, self._targets, batches, strict=True):
            inputs.copy_(batch[0], non_blocking=True)
            targets.copy_(batch[1], non_blocking=True)
        self._graph.replay()
        return self._row

    def restore_gradients(self) -> None:
        """Lets the parameters show the graph's gradients again, after a step that was made beside it.

        The graph itself does not need it: it writes and reads where it did when captured, in memory that
        nothing else is given while it lives.
        """
        for parameter, gradient in self._gradients:
            parameter.grad = gradient

    def _capture(self, step: PlainStep, stream: torch.cuda.Stream) -> Tensor:
        generator = torch.cuda.default_generators[stream.device.index]
        random = generator.clone_state()
        pool = torch.cuda.graph_pool_handle()
        static = list(zip(self._inputs, self._targets, strict=True))
        try:
            with (
                # Up to torch 2.11 a graph of before that is collected in a capture can break it.
                no_collection(),
                torch.cuda.stream(stream),  # current again even where ending the capture raises
                # Other threads may ask the device for events meanwhile, which must not break the capture.
                torch.cuda.graph(self._graph, pool=pool, stream=stream, capture_error_mode="thread_local"),
            ):
                return step(static)
        except BaseException:
            _abandon(self._graph, stream.device, pool)
            # Up to torch 2.11 a generator goes on believing that it is being captured.
            generator.graphsafe_set_state(random)
            _forget(step.optimizer, step.scaler)
            raise


# Up to torch 2.11 an allocator that has not learnt of a capture's end goes on asking its graph.
_abandoned: list[torch.cuda.CUDAGraph] = []


def _abandon(graph: torch.cuda.CUDAGraph, device: torch.device, pool: tuple[int, int]) -> None:
    """Gives back a graph whose capture broke, with its memory."""
    graph.reset()
    try:
        # Where ending the capture raised, older versions leave this to nobody; where it did not, and in
        # newer versions, it is done by now, and refused.
        torch._C._cuda_endAllocateToPool(device.index, pool)
    except RuntimeError:
        return
    torch._C._cuda_releasePool(device.index, pool)
    _abandoned.append(graph)


def _forget(optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> None:
    """Takes back what a broken step has told the optimizer and the scaler: no value has changed yet."""
    optimizer.zero_grad(set_to_none=True)
    for name in ("grad_scale", "found_inf"):
        if hasattr(optimizer, name):
            delattr(optimizer, name)
    if scaler.is_enabled():
        # Setting the scale that it has is the public way to a scaler at the beginning of a step.
        scaler.update(scaler.get_scale())
