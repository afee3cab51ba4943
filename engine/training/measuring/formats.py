"""The dtypes in which the matmuls and convolutions of a step compute, and its attention kernels."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from engine.experiment.catalog import NARROW_FORMATS
from engine.experiment.experiment import Experiment, setting_title
from engine.protocol.summary import AttentionUse
from engine.training.measuring.flops import FlopCounter
from engine.training.models.attention import kernel_of
from engine.training.models.autocasts import AutocastContexts
from engine.training.models.forward import removed_at_end
from engine.training.precision import dtype_name, leaf_tensors
from engine.training.steps.own import OwnStep
from engine.training.steps.plain import PlainStep


class FormatRecord(FlopCounter):  # type: ignore[no-untyped-call]
    """Records the dtypes of matmuls and convolutions in its context, and the attention kernels that run.

    Enter it around the passes of one step. No result changes. Optimizer steps and recomputed activations do
    not count, nor do operations in code that torch.compile has compiled.
    """

    def __init__(self, experiment: Experiment, device: torch.device) -> None:
        super().__init__()
        self._precision, self._device_type = experiment.precision, device.type
        self._fp32_modules = experiment.step.fp32_modules
        self._contexts = AutocastContexts(experiment.own_code)
        self._flops: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._is_updating = False
        self._hooks = ExitStack()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True, so that code which compiles itself compiles in the first step too."""
        return True

    def __enter__(self) -> FormatRecord:
        hooks = [
            register_optimizer_step_pre_hook(lambda *_: self._set_updating(True)),
            register_optimizer_step_post_hook(lambda *_: self._set_updating(False)),
        ]
        self._hooks.enter_context(removed_at_end(hooks))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        self._hooks.close()
        if raised[0] is not None:
            # a part of a step is no record
            for counts in (self._flops, self._reasons, self._calls):
                counts.clear()

    def _set_updating(self, value: bool) -> None:
        self._is_updating = value

    def count(self, operator: Any, args: tuple[Any, ...], flops: float) -> None:
        kernel = kernel_of(getattr(getattr(operator, "_schema", None), "name", "").removeprefix("aten::"))
        # some optimizers make their passes by a closure
        is_pass = torch.is_grad_enabled() or torch._C._current_graph_task_id() != -1
        if (self._is_updating and not is_pass) or not (flops or kernel):
            return
        # an FP8 tensor of torchao claims the dtype that it was cast from
        first = next(getattr(tensor, "_data", tensor) for tensor in leaf_tensors(args))
        dtype = dtype_name(first.dtype).partition("_")[0]
        if kernel:
            self._calls[kernel, dtype] += 1
        self._flops[dtype] += round(flops)
        if torch._C._current_graph_task_id() == -1 and self._precision.contradicts(dtype):
            is_off = self._precision.is_narrow and dtype not in NARROW_FORMATS
            self._reasons[self._contexts.reason(self._device_type, is_off=is_off)] += round(flops)

    def figures(self, step: PlainStep) -> dict[str, Any]:
        """Return the record of a step as the fields of a `Summary`."""
        total = self._flops.total()
        shares = {dtype: min(1.0, flops / total) for dtype, flops in self._flops.most_common() if flops}
        calls = self._calls.most_common()
        return {
            "formats": shares,
            "formats_reason": self._reason(step),
            "attention": tuple(
                AttentionUse(kernel=kernel, dtype=dtype, calls=count) for (kernel, dtype), count in calls
            ),
        }

    def _reason(self, step: PlainStep) -> str:
        (reason, _), *_ = self._reasons.most_common(1) or [("", 0)]
        if reason or not self._reasons:
            return reason
        if self._precision.is_narrow and isinstance(step, OwnStep) and not step.has_autocast:
            return "step(train, batch) does not enter train.autocast()"
        if self._precision.is_narrow:
            return f"{setting_title('step.fp32_modules')} is set" if self._fp32_modules else ""
        of_weights = {dtype_name(weight.dtype) for weight in step.model.parameters()}
        narrow = [
            dtype for dtype in self._flops if dtype in of_weights and self._precision.contradicts(dtype)
        ]
        return f"the model has weights in {narrow[0]}" if narrow else ""
