"""The whole step as one CUDA graph: forward, backward, unscale, clip, optimizer, scaler and figures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from engine.events import PhaseName
from engine.training.data.batches import Batch
from engine.training.steps.breakage import reason_of
from engine.training.steps.capture_plan import Action, CapturePlan
from engine.training.steps.graph_capture import Capture
from engine.training.steps.plain import PlainStep


class CapturedStep:
    """Captures an inner step for groups of one shape, and replays it.

    Its first calls warm up: they train uncaptured, on the stream that will capture, each on its own batches.
    The next call captures, which computes nothing, and replays. A group of another shape (the last one of an
    epoch) trains uncaptured on the same optimizer and scaler; a larger one than before is captured anew.
    The inner step's optimizer is capturable, and with a scaler fused.
    """

    def __init__(self, inner: PlainStep, *, warmup_steps: int) -> None:
        self._inner = inner
        self._plan = CapturePlan(warmup_steps)
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
        """Gives back the memory of a graph for smaller groups."""
        if self._capture is not None:
            torch.cuda.synchronize(self._inner.device)
            self._capture = None

    def _uncaptured(self, batches: Sequence[Batch]) -> Tensor:
        # On the capture's own stream: gradients accumulate on the stream that first made them, and one that
        # is not the capture's would break it.
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
