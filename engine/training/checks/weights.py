"""The model's parameters: their number formats before training, and their gradients after a backward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from engine.experiment.experiment import Experiment
from engine.protocol.advice import Finding, FindingKind
from engine.training.checks.places import CodePlace, forward_place
from engine.training.checks.static import half_place


def format_findings(model: nn.Module, experiment: Experiment) -> Iterator[Finding]:
    """Parameters and buffers that hold floats in another format than float32."""
    parameters = [named for named in model.named_parameters() if _is_other(named[1])]
    buffers = [named for named in model.named_buffers() if _is_other(named[1])]
    file, line = _cast_place(experiment)
    if parameters:
        is_scaled = experiment.uses_scaler and parameters[0][1].dtype is torch.float16
        follows = (
            "the loss scaler fails with “Attempting to unscale FP16 gradients”"
            if is_scaled
            else "small updates of the weights are lost, and no precision is measured as it is named"
        )
        yield Finding(
            kind=FindingKind.NOT_FLOAT32,
            severity="error" if is_scaled else "warning",
            message=f"{_listed('parameter', parameters)} {_format(parameters[0][1])}: {follows}.",
            remedy="Keep the weights in float32, without .half() or .bfloat16(): autocast casts them.",
            file=file,
            line=line,
            count=len(parameters),
        )
    if buffers:
        yield Finding(
            kind=FindingKind.NOT_FLOAT32,
            severity="warning",
            message=f"{_listed('buffer', buffers)} {_format(buffers[0][1])}, so what it gathers is rounded.",
            remedy="Keep it in float32: autocast casts what it should.",
            file=file,
            line=line,
            count=len(buffers),
        )


class GradientWatch:
    """Notes which parameters of a model get a gradient while the context lasts."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._wanted = [named for named in model.named_parameters() if named[1].requires_grad]
        self._reached: set[int] = set()
        self._handles: list[RemovableHandle] = []

    def __enter__(self) -> Self:
        for _, parameter in self._wanted:
            self._handles.append(parameter.register_post_accumulate_grad_hook(self._note))  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()

    def _note(self, parameter: torch.Tensor) -> None:
        self._reached.add(id(parameter))

    def findings(self) -> Iterator[Finding]:
        """A finding on those that got none."""
        missing = [named for named in self._wanted if id(named[1]) not in self._reached]
        if missing:
            yield _without_gradient(missing, forward_place(self._model, missing[0][0]))


def _without_gradient(missing: Sequence[tuple[str, torch.Tensor]], place: CodePlace | None) -> Finding:
    return Finding(
        kind=FindingKind.NO_GRADIENT,
        severity="warning",
        message=f"{_listed('parameter', missing)} left without a gradient, so nothing trains it.",
        remedy="Use it in forward, or set its requires_grad to False.",
        file=None if place is None else place.file,
        line=None if place is None else place.line,
        count=len(missing),
    )


def _is_other(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dtype is not torch.float32


def _cast_place(experiment: Experiment) -> tuple[str | None, int | None]:
    code = experiment.own_code
    return (code and half_place(code)) or (None, None)


def _listed(noun: str, named: Sequence[tuple[str, torch.Tensor]]) -> str:
    others = len(named) - 1
    more = f", like {others:,} more {noun if others == 1 else noun + 's'}," if others else ""
    return f"The {noun} {named[0][0]}{more} is"


def _format(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
