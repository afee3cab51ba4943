"""The floating-point operations that a model needs for a step, counted from the shapes of its operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import flop_registry

from engine.experiment.experiment import Experiment, Precision
from engine.training.data.batches import Batch
from engine.training.memory_errors import is_out_of_memory
from engine.training.models.weightless import Weightless, fill_with_fakes
from engine.training.precision import float32_mode
from engine.training.runs.prepare import Plan, plain
from engine.training.steps.plain import PlainStep
from engine.training.steps.recipe import build_step

_CPU = torch.device("cpu")


def count_flops(plan: Plan, group: Sequence[Batch]) -> float | None:
    """The FLOPs of the model's forward and backward pass over a step's batches; a multiply-add is two.

    Those of matrix products, convolutions and attention, which are nearly all; recomputed activations count
    once. A step of the model file's own is counted as a whole. Tensors without content suffice for most
    models; one that reads its numbers is run once, beside the run's own. None where nothing can be counted.
    """
    with torch.random.fork_rng(devices=[plan.device] if plan.device.type == "cuda" else []):
        try:
            return _counted_without_content(plan, group)
        except Exception:  # noqa: BLE001 - a model that reads its own numbers fails in any way
            return _counted_on_device(plan, group)


def _counted_without_content(plan: Plan, group: Sequence[Batch]) -> float | None:
    with Weightless():
        model = plan.workload.build()
    with FakeTensorMode():
        fill_with_fakes(model)
        fakes = tree_map_only(Tensor, lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype), group)
        return _counted(plan, model, fakes, _CPU)


def _counted_on_device(plan: Plan, group: Sequence[Batch]) -> float | None:
    """Raises what the step raises, unless memory does not suffice for a second model."""
    try:
        with float32_mode(plan.experiment.precision):
            return _counted(plan, plan.workload.build(), group, plan.device)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    finally:
        if plan.device.type in ("cuda", "xpu"):
            torch.get_device_module(plan.device).empty_cache()
    return None


def _counted(
    plan: Plan, model: torch.nn.Module, group: Sequence[Batch], device: torch.device
) -> float | None:
    workload = plan.workload
    step = build_step(
        model,
        workload.loss,
        _simplest(plan.experiment),
        device,
        is_convolutional=False,
        call=workload.call,
        own_optimizers=workload.optimizers,
        body=workload.body,
    )
    assert isinstance(step, PlainStep)  # nothing is compiled or captured by the plain recipe
    with _recurrent_in_parts(), _Counter() as counter:
        step.gradients(group)
    return counter.flops or None


def _simplest(experiment: Experiment) -> Experiment:
    """Without what changes no FLOPs: the precision, its scaler and the recipe."""
    scaler = experiment.scaler.model_copy(update={"mode": "off"})
    return plain(experiment).model_copy(update={"precision": Precision.FP32, "scaler": scaler})


@contextmanager
def _recurrent_in_parts() -> Iterator[None]:
    """Runs recurrent layers as products, which can be counted; cuDNN and oneDNN run a layer as a whole."""
    backends: tuple[Any, ...] = (torch.backends.cudnn, torch.backends.mkldnn)
    before = [backend.enabled for backend in backends]
    for backend in backends:
        backend.enabled = False
    try:
        yield
    finally:
        for backend, was_enabled in zip(backends, before, strict=True):
            backend.enabled = was_enabled


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts by PyTorch's own formulas, but not what a backward pass computes a second time.

    `torch.utils.checkpoint` does that with gradients enabled, in a backward pass without. A pass that began
    with gradients enabled (`create_graph`) counts as a whole. PyTorch's `FlopCounterMode` also counts by
    module, with hooks that fail in `torch.autograd.grad`.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0
        self._began_enabled: dict[int, bool] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = kwargs or {}
        result = function(*args, **settings)
        formula = flop_registry.get(getattr(function, "_overloadpacket", function))
        if not self._is_recomputed() and formula is not None:
            self.flops += formula(*args, **settings, out_val=result)
        return result

    def _is_recomputed(self) -> bool:
        backward, is_enabled = torch._C._current_graph_task_id(), torch.is_grad_enabled()
        return backward != -1 and not self._began_enabled.setdefault(backward, is_enabled) and is_enabled
