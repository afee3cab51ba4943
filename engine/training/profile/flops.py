"""The floating-point operations of a model's step, counted from the shapes of its operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from engine.experiment.experiment import Precision
from engine.training.data.batches import Batch
from engine.training.models.weightless import Weightless
from engine.training.precision import float32_mode
from engine.training.profile.formulas import flops_of
from engine.training.runs.prepare import RunPlan, with_plain_step
from engine.training.steps.plain import PlainStep
from engine.training.steps.recipe import build_step

_META = torch.device("meta")


def count_flops(plan: RunPlan, group: Sequence[Batch]) -> float | None:
    """Count the FLOPs of the model's forward and backward pass over a step's batches.

    Only matmuls, convolutions and attention count, which are nearly all. A multiply-add is two FLOPs, and
    recomputed activations count once. A model file's own step is counted completely. Most models are counted
    on tensors without content. A model that reads its values is run once, as a second model. Return None if
    neither works, such as for lack of memory, and for a model without such operations.
    """
    with torch.random.fork_rng(devices=[plan.device] if plan.device.type == "cuda" else []):
        for count in (_counted_without_content, _counted_on_device):
            try:
                return count(plan, group)
            except Exception:  # noqa: BLE001 - a model that reads its own numbers fails in any way
                continue
    return None


def _counted_without_content(plan: RunPlan, group: Sequence[Batch]) -> float | None:
    with Weightless():
        model = plan.workload.build()
    bare = tree_map_only(Tensor, lambda tensor: torch.empty_like(tensor, device=_META), group)
    with _META:
        return _counted(plan, model, bare, Precision.FP32, _META)


def _counted_on_device(plan: RunPlan, group: Sequence[Batch]) -> float | None:
    precision = plan.experiment.precision
    try:
        with float32_mode(precision):
            return _counted(plan, plan.workload.build(), group, precision, plan.device)
    finally:
        if plan.device.type in ("cuda", "xpu"):
            torch.get_device_module(plan.device).empty_cache()


def _counted(
    plan: RunPlan, model: nn.Module, group: Sequence[Batch], precision: Precision, device: torch.device
) -> float | None:
    workload, settings = plan.workload, plan.experiment
    scaler = settings.scaler.model_copy(update={"mode": "off"})
    step = build_step(
        model,
        workload.loss,
        with_plain_step(settings).model_copy(update={"precision": precision, "scaler": scaler}),
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


@contextmanager
def _recurrent_in_parts() -> Iterator[None]:
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
    """Counts by the formulas, without recomputation in the backward pass.

    `torch.utils.checkpoint` recomputes with gradients enabled, in a backward pass without. A pass that
    started with gradients enabled (`create_graph`) counts completely. PyTorch's `FlopCounterMode` also counts
    by module, with hooks that fail in `torch.autograd.grad`.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0.0
        self._began_enabled: dict[int, bool] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = kwargs or {}
        result = function(*args, **settings)
        if not self._is_recomputed() and (flops := flops_of(function, args, settings, result)) is not None:
            self.flops += flops.needed
        return result

    def _is_recomputed(self) -> bool:
        backward, is_enabled = torch._C._current_graph_task_id(), torch.is_grad_enabled()
        return backward != -1 and not self._began_enabled.setdefault(backward, is_enabled) and is_enabled
