"""The whole step as a CUDA graph, and the plan of when to capture it or give up.

The graph holds forward, backward, unscale, clip, optimizer, scaler and figures; batches are copied into its
memory.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only

from engine.experiment.settings import UNCAPTURED_STEPS
from engine.protocol.events import PhaseName
from engine.training.data.batches import Batch, batch_samples
from engine.training.steps.plain import PlainStep, reason_of


@contextmanager
def no_collection() -> Iterator[None]:
    """Collects before the context begins and not while it lasts; afterwards as before."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


Shapes = tuple[Any, ...]


class Action(Enum):
    """The work with a group of batches."""

    WARM_UP = auto()
    """Train uncaptured: a capture needs the optimizer's state and tuned kernels."""
    CAPTURE = auto()
    """Capture for groups like this one, then replay."""
    REPLAY = auto()
    BESIDE = auto()
    """Train uncaptured, since the group has other shapes; the captured graph stays."""
    GO_WITHOUT = auto()
    """Train as if capture had not been requested."""


class CapturePlan:
    """Decides from the shapes of the batches alone.

    The largest group so far is captured, after `UNCAPTURED_STEPS` like it; a larger one starts this again.
    Where most groups have other shapes, capture is given up.
    """

    def __init__(self) -> None:
        self._is_given_up = False
        self._begin((), 0)

    def _begin(self, shapes: Shapes, samples: int) -> None:
        self._shapes, self._samples = shapes, samples
        self._warm_steps = self._odd_steps = 0
        self._is_captured = False

    @property
    def is_given_up(self) -> bool:
        return self._is_given_up

    @property
    def phase(self) -> PhaseName | None:
        """The purpose of the next group; None once the step is steady."""
        if self._is_given_up or self._is_captured:
            return None
        return PhaseName.WARMING_UP if self._warm_steps < UNCAPTURED_STEPS else PhaseName.CAPTURING

    def give_up(self) -> None:
        """From now on every group trains uncaptured."""
        self._is_given_up = True

    def action_for(self, batches: Sequence[Batch]) -> Action:
        """The action for the group, which then counts as done."""
        if self._is_given_up:
            return Action.GO_WITHOUT
        shapes = shapes_of(batches)
        samples = sum(map(batch_samples, batches))
        if samples > self._samples:
            self._begin(shapes, samples)
        if shapes != self._shapes:
            return self._beside()
        if self._is_captured:
            return Action.REPLAY
        if self._warm_steps < UNCAPTURED_STEPS:
            self._warm_steps += 1
            return Action.WARM_UP
        self._is_captured = True
        return Action.CAPTURE

    def _beside(self) -> Action:
        if not self._is_captured:
            self._odd_steps += 1
            if self._odd_steps > 2 * UNCAPTURED_STEPS:
                self.give_up()
                return Action.GO_WITHOUT
        return Action.BESIDE


def shapes_of(batches: Sequence[Batch]) -> Shapes:
    """The shapes that must be equal in two groups for one graph to serve both."""
    leaves, structure = tree_flatten(list(batches))
    sizes = tuple((part.shape, part.dtype) if isinstance(part, Tensor) else part for part in leaves)
    return (structure, *sizes)


class Capture:
    """Captures a step for batches of these shapes, without training on them.

    The optimizer must have its state from earlier steps on `stream`. Raises the error of a failed capture;
    model, optimizer, scaler and random state are then as before. Waits for the device.
    """

    def __init__(self, step: PlainStep, batches: Sequence[Batch], stream: torch.cuda.Stream) -> None:
        self._batches: list[Batch] = tree_map_only(Tensor, Tensor.clone, list(batches))
        self._tensors = _tensors(self._batches)
        self._graph = torch.cuda.CUDAGraph()
        # The graph takes memory of its own, so the last step's gradients are freed first.
        step.optimizer.zero_grad(set_to_none=True)
        self._row = self._capture(step, stream)
        self._gradients = [(parameter, parameter.grad) for parameter in step.model.parameters()]

    def replay(self, batches: Sequence[Batch]) -> Tensor:
        """Trains on the batches; returns the figures, which the next replay overwrites."""
        for own, new in zip(self._tensors, _tensors(batches), strict=True):
            own.copy_(new, non_blocking=True)
        self._graph.replay()
        return self._row

    def restore_gradients(self) -> None:
        """Gives the parameters the graph's gradients again, after a step beside it.

        The graph itself does not need this: it reads and writes the memory of its capture, which nothing
        else gets while it lives.
        """
        for parameter, gradient in self._gradients:
            parameter.grad = gradient

    def _capture(self, step: PlainStep, stream: torch.cuda.Stream) -> Tensor:
        generator = torch.cuda.default_generators[stream.device.index]
        random = generator.clone_state()
        pool = torch.cuda.graph_pool_handle()
        try:
            with (
                # Up to torch 2.11 collecting an earlier graph during a capture can break it.
                no_collection(),
                torch.cuda.stream(stream),  # current again even where ending the capture raises
                # Other threads may query events meanwhile, which must not break the capture.
                torch.cuda.graph(self._graph, pool=pool, stream=stream, capture_error_mode="thread_local"),
            ):
                return step(self._batches)
        except BaseException:
            _abandon(self._graph, stream.device, pool)
            # Up to torch 2.11 the generator still believes that it is being captured.
            generator.graphsafe_set_state(random)
            _forget(step.optimizer, step.scaler)
            raise


def _tensors(batches: Sequence[Batch]) -> list[Tensor]:
    return [part for part in tree_leaves(list(batches)) if isinstance(part, Tensor)]


# Up to torch 2.11 an allocator that was not told of a capture's end keeps asking its graph.
_abandoned: list[torch.cuda.CUDAGraph] = []


def _abandon(graph: torch.cuda.CUDAGraph, device: torch.device, pool: tuple[int, int]) -> None:
    """Frees a graph whose capture failed, with its memory."""
    graph.reset()
    try:
        # Older versions leave this undone where ending the capture raised; otherwise it is done by now, and
        # refused.
        torch._C._cuda_endAllocateToPool(device.index, pool)
    except RuntimeError:
        return
    torch._C._cuda_releasePool(device.index, pool)
    _abandoned.append(graph)


def _forget(optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> None:
    """Undoes what a failed step has set on the optimizer and the scaler; no value has changed yet."""
    optimizer.zero_grad(set_to_none=True)
    for name in ("grad_scale", "found_inf"):
        if hasattr(optimizer, name):
            delattr(optimizer, name)
    if scaler.is_enabled():
        # Setting its own scale is the public way to reset a scaler to the beginning of a step.
        scaler.update(scaler.get_scale())


class CapturedStep:
    """Captures an inner step for groups of one shape, and replays it.

    The first calls warm up: they train uncaptured, on the stream that will capture. The next call captures,
    which computes nothing, and replays. A group of another shape (an epoch's last) trains uncaptured with the
    same optimizer and scaler; a larger group than before is captured again. The inner step's optimizer is
    capturable, and fused if there is a scaler.
    """

    def __init__(self, inner: PlainStep) -> None:
        self._inner = inner
        self._plan = CapturePlan()
        self._stream = torch.cuda.Stream(inner.device)  # type: ignore[no-untyped-call]
        self._capture: Capture | None = None
        self._capture_seconds: float | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return self._inner.columns

    @property
    def model(self) -> nn.Module:
        return self._inner.model

    @property
    def watched(self) -> nn.Module:
        return self._inner.watched

    @property
    def running(self) -> PlainStep | None:
        return self._inner if self._capture is None else None

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        return self._inner.optimizer

    @property
    def scaler(self) -> torch.amp.GradScaler:
        return self._inner.scaler

    @property
    def memory_format(self) -> torch.memory_format:
        return self._inner.memory_format

    @property
    def recipe(self) -> str:
        return self._inner.recipe

    @property
    def left_out(self) -> Mapping[str, str]:
        return self._inner.left_out

    @property
    def compile_seconds(self) -> float | None:
        return self._inner.compile_seconds

    @property
    def capture_seconds(self) -> float | None:
        return self._capture_seconds

    def take_notes(self) -> list[str]:
        return self._inner.take_notes()

    @property
    def rate_factor(self) -> float:
        return self._inner.rate_factor

    def set_learning_rate(self, value: float) -> None:
        self._inner.set_learning_rate(value)

    def next_phase(self) -> PhaseName | None:
        return self._inner.next_phase() or self._plan.phase

    def __call__(self, batches: Sequence[Batch]) -> Tensor:
        was_given_up = self._plan.is_given_up
        action = self._plan.action_for(batches)
        if self._plan.is_given_up and not was_given_up:
            self._inner.record.leave_out("capture", "the batches change their shape")
        if action in (Action.WARM_UP, Action.CAPTURE, Action.GO_WITHOUT):
            self._drop()
        if action in (Action.WARM_UP, Action.BESIDE):
            return self._uncaptured(batches)
        if action is Action.CAPTURE:
            self._capture = self._captured(batches)
        return self._inner(batches) if self._capture is None else self._capture.replay(batches)

    def _drop(self) -> None:
        """Frees the memory of a graph for smaller groups."""
        if self._capture is not None:
            torch.cuda.synchronize(self._inner.device)
            self._capture = None

    def _uncaptured(self, batches: Sequence[Batch]) -> Tensor:
        # On the capture's own stream: gradients accumulate on the stream that first made them, and any other
        # would break the capture.
        current = torch.cuda.current_stream(self._inner.device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            row = self._inner(batches)
        current.wait_stream(self._stream)
        if self._capture is not None:
            self._capture.restore_gradients()
        return row

    def _captured(self, batches: Sequence[Batch]) -> Capture | None:
        began = time.perf_counter()
        try:
            capture = Capture(self._inner, batches, self._stream)
        except Exception as error:  # noqa: BLE001 - what cannot be captured may fail in any way
            self._inner.record.leave_out("capture", f"it failed here ({reason_of(error)})")
            self._plan.give_up()
            return None
        self._capture_seconds = (self._capture_seconds or 0.0) + time.perf_counter() - began
        return capture
