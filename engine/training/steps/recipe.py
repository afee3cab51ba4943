"""Steps with optimizations: build a step by its recipe, with a compiled model or as a CUDA graph."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum, auto
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map_only

from engine.experiment.experiment import Experiment, Precision, named
from engine.experiment.settings import FAST, UNCAPTURED_STEPS, RecipePart
from engine.protocol.events import PhaseName
from engine.training.data.batches import Batch, batch_samples
from engine.training.models.forward import make_bfloat16
from engine.training.models.outputs import Forward, LossFunction, call_model
from engine.training.precision import leaf_tensors
from engine.training.ranks import shard_model, uses_fsdp
from engine.training.steps.compiled import CompiledStep
from engine.training.steps.counters import HostCounters, counting_norms
from engine.training.steps.optimizers import build_optimizer, combine_optimizers, no_fused_form, uses_torchao
from engine.training.steps.own import Body, OwnStep
from engine.training.steps.plain import PlainStep, RecipeRecord, error_reason

Shapes = tuple[Any, ...]
_NOT_SHARDED: dict[RecipePart, str] = {
    "channels_last": "FSDP2 shards only contiguous weights",
    "compile": "Ammeter does not compile a model sharded by FSDP2",
    "host_counters": "Ammeter does not combine it with FSDP2",
}


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Collect garbage, then disable Python's garbage collector in this context."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class GroupAction(Enum):
    """How a group of batches is trained by a step with a CUDA graph: captured, replayed or uncaptured."""

    WARM_UP = auto()  # train uncaptured: a capture needs the optimizer's state and tuned kernels
    CAPTURE = auto()
    REPLAY = auto()
    UNCAPTURED = auto()  # train uncaptured, since the group has other shapes; the captured graph stays
    GIVEN_UP = auto()


class CapturePlan:
    """Decides, from the shapes of batches alone, when to capture a CUDA graph and when to replay it.

    The largest group of batches so far is captured, after `UNCAPTURED_STEPS` steps with that size. A larger
    one starts this again. If most groups have other shapes, the graph is given up.
    """

    def __init__(self) -> None:
        self.is_given_up = False
        self._begin((), 0)

    def _begin(self, shapes: Shapes, samples: int) -> None:
        self._shapes, self._samples = shapes, samples
        self._warm_steps = self._odd_steps = 0
        self._is_captured = False

    @property
    def phase(self) -> PhaseName | None:
        """The purpose of the next group. None once the step is steady."""
        if self.is_given_up or self._is_captured:
            return None
        return PhaseName.WARMING_UP if self._warm_steps < UNCAPTURED_STEPS else PhaseName.CAPTURING

    def action_for(self, batches: Sequence[Batch]) -> GroupAction:
        """Return the action for the group, which then counts as done."""
        if self.is_given_up:
            return GroupAction.GIVEN_UP
        shapes = shapes_of(batches)
        samples = sum(map(batch_samples, batches))
        if samples > self._samples:
            self._begin(shapes, samples)
        if shapes != self._shapes:
            self._odd_steps += not self._is_captured
            self.is_given_up = self._odd_steps > 2 * UNCAPTURED_STEPS
            return GroupAction.GIVEN_UP if self.is_given_up else GroupAction.UNCAPTURED
        if self._is_captured:
            return GroupAction.REPLAY
        if self._warm_steps < UNCAPTURED_STEPS:
            self._warm_steps += 1
            return GroupAction.WARM_UP
        self._is_captured = True
        return GroupAction.CAPTURE


def shapes_of(batches: Sequence[Batch]) -> Shapes:
    """Return the shapes that must be equal for two groups to use one graph."""
    leaves, structure = tree_flatten(list(batches))
    sizes = tuple((part.shape, part.dtype) if isinstance(part, Tensor) else part for part in leaves)
    return (structure, *sizes)


class Capture:
    """A CUDA graph of a full training step, for batches of the given shapes. Capturing does not train.

    The optimizer must have its state from earlier steps on `stream`. Raises the error of a failed capture,
    and leaves model, optimizer, scaler and random state as before. Synchronizes with the device.
    """

    def __init__(self, step: PlainStep, batches: Sequence[Batch], stream: torch.cuda.Stream) -> None:
        self._batches: list[Batch] = tree_map_only(Tensor, Tensor.clone, list(batches))
        self._tensors = leaf_tensors(self._batches)
        self._graph = torch.cuda.CUDAGraph()
        # The graph takes memory of its own, so the last step's gradients are freed first.
        step.optimizer.zero_grad(set_to_none=True)
        self._row = self._capture(step, stream)
        self._gradients = [(parameter, parameter.grad) for parameter in step.model.parameters()]

    def replay(self, batches: Sequence[Batch]) -> Tensor:
        """Train on the batches. Return the values, which the next replay overwrites."""
        for own, new in zip(self._tensors, leaf_tensors(list(batches)), strict=True):
            own.copy_(new, non_blocking=True)
        self._graph.replay()
        return self._row

    def restore_gradients(self) -> None:
        """Give the parameters the graph's gradients again, after a step outside it.

        The graph itself does not need this. It reads and writes the memory of its capture, which nothing else
        gets while it exists.
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
                without_garbage_collection(),
                torch.cuda.stream(stream),  # current again even where ending the capture raises
                # Other threads may query events meanwhile, which must not break the capture.
                torch.cuda.graph(self._graph, pool=pool, stream=stream, capture_error_mode="thread_local"),
            ):
                return step.update(step.gradients(self._batches))
        except BaseException:
            _abandon(self._graph, stream.device, pool)
            # Up to torch 2.11 the generator still believes that it is being captured.
            generator.graphsafe_set_state(random)
            _forget(step.optimizer, step.scaler)
            _take_last_errors(stream.device)
            raise


# Up to torch 2.11 an allocator that was not told of a capture's end keeps asking its graph.
_abandoned: list[torch.cuda.CUDAGraph] = []


def _abandon(graph: torch.cuda.CUDAGraph, device: torch.device, pool: tuple[int, int]) -> None:
    graph.reset()
    try:
        # Older versions leave this undone where ending the capture raised; otherwise it is done by now, and
        # refused.
        torch._C._cuda_endAllocateToPool(device.index, pool)
    except RuntimeError:
        return
    torch._C._cuda_releasePool(device.index, pool)
    _abandoned.append(graph)


def _take_last_errors(device: torch.device) -> None:
    # CUDA keeps a thread's last error until it is read. What fails in a capture leaves one in the thread of
    # backward passes, where the next kernel, of a sound step, would raise it.
    for _ in range(2):  # one for each thread
        with suppress(RuntimeError):
            probe = torch.ones(1, device=device, requires_grad=True)
            (probe * probe).backward()  # type: ignore[no-untyped-call]
            return


def _forget(optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> None:
    # what a failed step has set; no value has changed yet
    optimizer.zero_grad(set_to_none=True)
    for name in ("grad_scale", "found_inf"):
        if hasattr(optimizer, name):
            delattr(optimizer, name)
    if scaler.is_enabled():
        # Setting its own scale is the public way to reset a scaler to the beginning of a step.
        scaler.update(scaler.get_scale())


class CapturedStep(CompiledStep):
    """A step that is captured as a CUDA graph for batches of one shape, and then replayed.

    The first calls train uncaptured as a warm-up, on the stream that will capture. The next call captures,
    which computes nothing, and replays. Batches of another shape, as at the end of an epoch, train uncaptured
    with the same optimizer and scaler. A larger shape than before is captured again. The optimizer is
    capturable, and fused if there is a scaler.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._plan = CapturePlan()
        self._stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        self._capture: Capture | None = None

    @property
    def is_replayed(self) -> bool:
        return self._capture is not None

    def next_phase(self) -> PhaseName | None:
        return super().next_phase() or self._plan.phase

    def __call__(self, batches: Sequence[Batch]) -> Tensor:
        was_given_up = self._plan.is_given_up
        action = self._plan.action_for(batches)
        if self._plan.is_given_up and not was_given_up:
            self.record.leave_out("capture", "the shape of the batches changes")
        if self._capture is not None and action in (
            GroupAction.WARM_UP,
            GroupAction.CAPTURE,
            GroupAction.GIVEN_UP,
        ):
            # frees the memory of a graph for smaller groups
            torch.cuda.synchronize(self.device)
            self._capture = None
        if action in (GroupAction.WARM_UP, GroupAction.UNCAPTURED):
            return self._uncaptured(batches)
        if action is GroupAction.CAPTURE:
            self._capture = self._captured(batches)
        if self._capture is None:
            return super().__call__(batches)
        self.count_passes(batches)
        if self.compile_watch is not None:
            self.compile_watch.has_compiled = False  # a replay compiles nothing
        return self._capture.replay(batches)

    def _uncaptured(self, batches: Sequence[Batch]) -> Tensor:
        # On the capture's own stream: gradients accumulate on the stream that first made them, and any other
        # would break the capture.
        current = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            row = super().__call__(batches)
        current.wait_stream(self._stream)
        if self._capture is not None:
            self._capture.restore_gradients()
        return row

    def _captured(self, batches: Sequence[Batch]) -> Capture | None:
        began = time.perf_counter()
        try:
            capture = Capture(self, batches, self._stream)
        except Exception as error:  # noqa: BLE001 - what cannot be captured may fail in any way
            self.record.leave_out("capture", f"it failed here ({error_reason(error)})")
            self._plan.is_given_up = self.capture_failed = True
            return None
        self.capture_seconds = (self.capture_seconds or 0.0) + time.perf_counter() - began
        return capture


def build_step(
    model: nn.Module,
    loss_function: LossFunction,
    experiment: Experiment,
    device: torch.device,
    *,
    is_convolutional: bool,
    call: Forward = call_model,
    own_optimizers: Callable[[nn.Module], Any] = lambda model: None,
    body: Body | None = None,
) -> PlainStep:
    """Return the experiment's step. Moves the model to the device, memory format and training mode.

    `call` returns the model's outputs. `own_optimizers` makes the optimizers instead of the experiment's, or
    returns None. `body` is a step of the model's own. Optimizations that are not possible here are skipped.
    The step says which and why.
    """
    record = RecipeRecord(experiment.step.parts)
    if record.has("channels_last") and not is_convolutional:
        record.leave_out("channels_last", "the model has no convolutions")
    if record.has("channels_last") and experiment.optimizer.kind.is_low_bit:
        record.leave_out("channels_last", "torchao's low-bit state needs contiguous weights")
    for part in _NOT_SHARDED if uses_fsdp(experiment) else ():
        if record.has(part):
            record.leave_out(part, _NOT_SHARDED[part])
    memory_format = torch.channels_last if record.has("channels_last") else torch.contiguous_format
    model.to(device).train()
    if experiment.precision is Precision.BF16_PURE:
        make_bfloat16(model)
    if memory_format is torch.channels_last:
        model.to(memory_format=memory_format)
    if uses_fsdp(experiment):
        shard_model(model, experiment, device)
    made = own_optimizers(model)
    own = "step" if body is not None else "optimizer" if made is not None else None
    ruled_out: tuple[RecipePart, ...] = ("fused", "capture", "compile") if body else ("fused", "capture")
    for part in ruled_out:
        if own is not None and record.has(part):
            record.leave_out(part, f"the model file defines its own {own}")
    is_fused = made is None and _is_fused(model, experiment, device, record)
    # Compiled, a small CNN trained at 0.65 times the speed and ResNet-18 at 1.0, a language model at 1.3.
    if device.type == "cpu" and is_convolutional and experiment.step.recipe == FAST:
        record.leave_out("compile", "no gain with convolutions on a CPU (select only `compile` to force it)")
    if record.has("capture") and (reason := _not_capturable(experiment, device, is_fused)):
        record.leave_out("capture", reason)
    if record.has("host_counters") and not counting_norms(model):
        record.leave_out("host_counters", "the model has no BatchNorm counters to move")
    if record.has("host_counters") and experiment.own_code is not None:
        record.leave_out("host_counters", "the passes of a model file may differ")
    is_captured = record.has("capture")
    optimizer = (
        build_optimizer(model, experiment, fused=is_fused, capturable=is_captured) if made is None else None
    )
    settings: dict[str, Any] = {
        "optimizer": combine_optimizers(made) if optimizer is None else optimizer,
        "record": record,
        "memory_format": memory_format,
        # Capturing does not work with autocast's cache of cast weights.
        "cache_casts": not is_captured,
        "call": call,
        "has_own_rates": made is not None,
    }
    if body is not None:
        optimizers = optimizer if made is None else made
        return OwnStep(model, loss_function, experiment, device, body=body, optimizers=optimizers, **settings)
    kind = CapturedStep if is_captured else CompiledStep if record.has("compile") else PlainStep
    step = kind(model, loss_function, experiment, device, **settings)
    if record.has("host_counters"):
        step.counters = HostCounters(model)
    return step


@contextmanager
def cudnn_search(searches: bool) -> Iterator[None]:
    """Set whether cuDNN tries its algorithms for each new shape. The plain step does not."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = searches
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _is_fused(model: nn.Module, experiment: Experiment, device: torch.device, record: RecipeRecord) -> bool:
    wanted = experiment.optimizer.fused
    if not (wanted or record.has("fused")):
        return False
    if wanted is False:
        record.leave_out("fused", f"{named('optimizer.fused')} is off")
        return False
    reason = no_fused_form(model, device)
    if uses_torchao(experiment):
        reason = "torchao's optimizers are compiled and have no fused form"
    kind = experiment.optimizer.kind
    if not kind.has_fused:
        reason = f"PyTorch has no fused {kind.label}"
    if reason is None and uses_fsdp(experiment) and not kind.fuses_sharded:
        reason = f"PyTorch has no fused {kind.label} for weights sharded by FSDP2"
    if reason is not None:
        record.leave_out("fused", reason)
    return reason is None


def _not_capturable(experiment: Experiment, device: torch.device, is_fused: bool) -> str | None:
    if experiment.devices > 1:
        return "a step that synchronizes gradients is not captured"
    if device.type != "cuda":
        return "only CUDA devices support CUDA graphs"
    if experiment.step.compiles_graphs:
        return f"the compile mode {experiment.step.compile_mode} makes its own CUDA graphs"
    if experiment.step.offload_activations:
        return "activations that are offloaded would be allocated in the graph"
    if uses_torchao(experiment):
        return "torchao's optimizers count their steps on the host"
    if experiment.uses_scaler and not is_fused:
        return "the loss scaler synchronizes with the GPU unless the optimizer is fused"
    kind = experiment.optimizer.kind
    if not kind.is_capturable and not is_fused:
        unless = " unless it is fused" if kind.has_fused else ""
        return f"{kind.label} reads its learning rate on the host{unless}"
    return None
