"""The dtypes of a model's parameters and buffers, checked by their role."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import torch

from engine.experiment.catalog import Precision
from engine.protocol.advice import Finding, FindingKind, Severity
from engine.training.checks.passes import Subject
from engine.training.checks.places import dtype_text, finding_at
from engine.training.checks.static import half_place
from engine.training.checks.watches import listed
from engine.training.steps.own import members_in
from engine.training.steps.rules import parameters_of

_TRAINED, _UNTRAINED, _UPDATED, _CONSTANT = "trained parameter", "parameter", "buffer", "constant buffer"
_IN_FLOAT32 = "Keep the weights in float32, without .half() or .bfloat16(). Autocast casts them."
# as PyTorch's errors name them
_NAMES = {torch.bfloat16: "BFloat16", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble"}
_Named = tuple[str, torch.Tensor]


class FormatCheck:
    """Checks the dtypes of a model by the behavior of its passes. Create it before the passes.

    A parameter is trained if it gets a gradient and an optimizer has it, so a teacher under `torch.no_grad`
    does not need to be frozen. A buffer is constant unless a pass changes it, as running statistics are
    changed.
    """

    def __init__(self, subject: Subject) -> None:
        self._model, self._plan = subject.model, subject.plan
        self._buffers = {name: (buffer, buffer._version) for name, buffer in self._model.named_buffers()}
        self._optimizers: list[torch.optim.Optimizer] | None = None  # the file's own
        if any(it.requires_grad and it.dtype is not torch.float32 for it in self._model.parameters()):
            with suppress(Exception):  # the run says what it raises, with the line
                made = self._plan.workload.optimizers(self._model)
                self._optimizers = None if made is None else members_in(made)

    def findings(self, reached: Sequence[frozenset[int]]) -> Iterator[Finding]:
        """Yield a finding for each role and each dtype other than float32, after the passes.

        `reached` are the ids of the parameters that got a gradient, for each pass. Without a pass, all count.
        """
        experiment = self._plan.experiment
        if experiment.precision is Precision.BF16_PURE:
            return  # it casts all of them
        groups: dict[tuple[str, torch.dtype], list[_Named]] = {}
        for role, named in self._roles(reached):
            groups.setdefault((role, named[1].dtype), []).append(named)
        for (role, dtype), group in groups.items():
            severity, follows, remedy = self._words(role, dtype)
            if follows:
                what = dtype_text(group[0][1])
                message = f"{listed(role, group)} {what}{follows}."
                place = half_place(experiment.own_code, what)
                yield finding_at(place, FindingKind.NOT_FLOAT32, severity, message, remedy, len(group))

    def _roles(self, reached: Sequence[frozenset[int]]) -> Iterator[tuple[str, _Named]]:
        own = self._optimizers
        held = own and {id(parameter) for each in own for parameter in parameters_of(each)}
        for name, parameter in self._model.named_parameters():
            is_trained = parameter.requires_grad and (held is None or id(parameter) in held)
            is_trained = is_trained and (not reached or any(id(parameter) in ids for ids in reached))
            yield _TRAINED if is_trained else _UNTRAINED, (name, parameter)
        for name, buffer in self._model.named_buffers():
            before, version = self._buffers.get(name, (None, 0))
            is_same = buffer is before and buffer._version == version
            yield _CONSTANT if is_same else _UPDATED, (name, buffer)

    def _words(self, role: str, dtype: torch.dtype) -> tuple[Severity, str, str]:
        """Return the severity, the end of the sentence (empty for no finding), and the remedy."""
        precision = self._plan.experiment.precision
        refusal = self._refusal(dtype) if role == _TRAINED else ""
        # a CPU can unscale BF16: https://github.com/pytorch/pytorch/issues/127176
        if refusal and (dtype is not torch.bfloat16 or self._plan.device.type == "cuda"):
            remedy = "Keep trained parameters in float32, or train in BF16 AMP, which uses no loss scaler."
            return "error", f", and the loss scaler fails with “{refusal}”", remedy
        if dtype is torch.float32 or not dtype.is_floating_point:
            return "note", "", ""
        if dtype is torch.float64:
            follows = ", which autocast does not cast, so operations with it compute in float64"
            return "warning", follows, "Keep it in float32, for example with .float()."
        if role == _TRAINED:
            follows = ", so small weight updates are lost, and an FP32 run is not in FP32"
            if refusal:
                follows = f", so its small updates are lost, and an NVIDIA GPU fails with “{refusal}”"
            return "warning", follows, _IN_FLOAT32
        if role == _UPDATED:
            remedy = "Keep it in float32. Autocast casts where needed."
            return "warning", ", so its accumulated values are rounded", remedy
        if role == _UNTRAINED and not precision.is_narrow:
            follows = f" and not trained, so in {precision.label} its values are rounded too"
            return "warning", follows, "Keep it in float32 to compare with true FP32."
        follows = (
            " and not trained, which saves memory" if role == _UNTRAINED else ", so its values are rounded"
        )
        return "note", follows, "Nothing needs to change."

    def _refusal(self, dtype: torch.dtype) -> str:
        """Return PyTorch's error if the loss scaler cannot unscale gradients of this dtype, else ""."""
        if not self._plan.experiment.uses_scaler or dtype in (torch.float32, torch.float64):
            return ""
        if dtype is torch.float16:
            return "" if self._takes_scaled else "Attempting to unscale FP16 gradients"
        return f"not implemented for '{_NAMES.get(dtype, dtype)}'"

    @property
    def _takes_scaled(self) -> bool:
        """True if a fused optimizer unscales gradients itself, the only way to use FP16 gradients."""
        experiment = self._plan.experiment
        is_fused = experiment.wants_fused
        if self._optimizers is not None:
            is_fused = all(getattr(it, "_step_supports_amp_scaling", False) for it in self._optimizers)
        return is_fused and experiment.step.clip_norm is None
