"""A step whose model is compiled by torch.compile, with its recompilations and its time."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch._functorch.config as functorch_config
from torch import Tensor, nn

from engine.experiment.problem import ProblemError, request_error
from engine.protocol.events import PhaseName
from engine.training.data.batches import Batch, batch_samples
from engine.training.precision import leaf_tensors
from engine.training.ranks import DistributedModel
from engine.training.steps.compile_watch import CompileWatch
from engine.training.steps.plain import PlainStep, error_reason
from engine.training.steps.rehearsal import ForwardState, synchronize

Shape = tuple[torch.Size, ...]
_GRAPH_STEPS = 3  # of a shape, until a compile mode has recorded its own CUDA graphs


class CompiledStep(PlainStep):
    """A plain step whose model is compiled by `torch.compile`, if requested.

    The first call compiles. If that fails, the same step runs uncompiled, as if compiling had not been tried.
    If `compile_dynamic` is None, the model is compiled for batches of one shape. A smaller batch, as at the
    end of an epoch, then uses the uncompiled model, and a larger one than before compiles again.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._compiled: nn.Module | None = None
        asked = self.experiment.step
        self._has_one_shape = asked.compile_dynamic is None
        self._makes_graphs = asked.compiles_graphs and self.device.type == "cuda"
        _set_budget(self.experiment.step.activation_budget)
        if self.record.has("compile"):
            # A wrapper beside the model: compiled in place, validation would compile too, for its own shapes.
            try:
                with _quiet():
                    mode, dynamic = asked.compile_mode, bool(asked.compile_dynamic)
                    made = torch.compile(self._called, mode=mode, dynamic=dynamic)
                self._compiled, self.compile_watch = cast(nn.Module, made), CompileWatch()
            except RuntimeError as error:  # a Python or a system that the compiler does not support
                self.record.leave_out("compile", error_reason(error))
        self._shape: Shape | None = None
        self._samples = 0
        self._graph_steps = Counter[Shape]()

    @property
    def compiles(self) -> bool:
        return super().compiles or self._compiled is not None

    @property
    def watched(self) -> nn.Module:
        """The compiled wrapper, because hooks on the model itself would cause a recompilation."""
        return self.model if self._compiled is None else self._compiled

    def next_phase(self) -> PhaseName | None:
        if self._compiled is not None and self._shape is None:
            return PhaseName.COMPILING
        recorded = max(self._graph_steps.values(), default=0)
        if self._compiled is not None and self._makes_graphs and recorded < _GRAPH_STEPS:
            return PhaseName.CAPTURING
        return super().next_phase()

    def gradients(self, batches: Sequence[Batch]) -> Tensor:
        """Run the plain step. Compiles if the batches are larger than any before."""
        watch = self.compile_watch
        if watch is None:
            return super().gradients(batches)
        if self._makes_graphs:
            # nothing of the last step is read any more, so its memory may be overwritten
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        with watch.watching() as events:
            loss = self._compiled_gradients(batches)
        for event in events:
            self.record.note(f"{event.kind.capitalize()} at {event.words}.")
        shape = _shape(batches[0][0])
        if self._makes_graphs and (shape == self._shape or not self._has_one_shape):
            self._graph_steps[shape] += 1
            # to record a graph takes time, too
            watch.has_compiled |= self._graph_steps[shape] <= _GRAPH_STEPS
        return loss

    def _compiled_gradients(self, batches: Sequence[Batch]) -> Tensor:
        samples, inputs = max((batch_samples(batch), number) for number, batch in enumerate(batches))
        if self._shape is not None and (samples <= self._samples or not self._has_one_shape):
            return super().gradients(batches)
        self._samples = samples
        return self._compile(batches, _shape(batches[inputs][0]))

    def _forward(self, inputs: Any) -> Any:
        if self._compiled is None or (self._has_one_shape and _shape(inputs) != self._shape):
            return super()._forward(inputs)
        return self._call(self._compiled, inputs)

    def _compile(self, batches: Sequence[Batch], shape: Shape) -> Tensor:
        state = ForwardState(self.model, self.device)
        self._shape = shape
        synchronize(self.device)
        began = time.perf_counter()
        try:
            with _quiet():
                loss = self._gradients(batches)
            synchronize(self.device)  # errors of the kernels show here
        except ProblemError:
            raise
        except Exception as error:  # noqa: BLE001 - a compiler may fail in any way
            reason = error_reason(error)
        else:
            self.compile_seconds = (self.compile_seconds or 0.0) + time.perf_counter() - began
            return loss
        # Outside `except`, whose traceback would keep the tensors of the failed pass.
        if isinstance(self._called, DistributedModel) and any(
            each.grad is not None for each in self._parameters
        ):
            # a second pass would send them again, and no other device waits for that
            message = f"Compiling the model failed after its gradients were sent to other devices: {reason}."
            raise request_error(
                message, "Remove compile from the optimizations.", key="step.recipe", value="compile"
            )
        self._compiled = self.compile_watch = None
        state.restore()
        self.record.leave_out("compile", f"it failed here ({reason})")
        return super().gradients(batches)


def _set_budget(budget: float | None) -> None:
    wanted = 1.0 if budget is None else budget
    if functorch_config.activation_memory_budget != wanted:
        torch._dynamo.reset()  # what was compiled with another budget
        functorch_config.activation_memory_budget = wanted


def _shape(inputs: Any) -> Shape:
    if isinstance(inputs, Tensor):  # the usual case first
        return (inputs.shape,)
    return tuple(part.shape for part in leaf_tensors(inputs))


@contextmanager
def _quiet() -> Iterator[None]:
    # The compiler's warnings are for the model's authors, or for PyTorch's.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
