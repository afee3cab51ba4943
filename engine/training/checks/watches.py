"""Watches every call of a pass for synchronization with the GPU and for computations in 16 bits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter
from types import TracebackType
from typing import Any, Self, TypeAlias

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only
from torch.utils.hooks import RemovableHandle

from engine.experiment.experiment import Experiment, setting_title
from engine.experiment.settings import AttentionKernel
from engine.protocol.advice import Finding, FindingKind, Severity
from engine.training.checks.places import (
    CodePlace,
    ModuleOutputs,
    calling_line,
    dtype_text,
    finding_at,
    forward_place,
)
from engine.training.models.attention import AttentionCall
from engine.training.models.own import is_repeated
from engine.training.models.weightless import IN_FLOAT32, PRODUCTS, is_transform, refusal
from engine.training.precision import are_finite, leaf_tensors, masks_with
from engine.training.ranks import unused_problem
from engine.words.names import listed

_HALF = (torch.float16, torch.bfloat16)
_READS = {
    "item": ".item()",
    "tolist": ".tolist()",
    "cpu": ".cpu()",
    "numpy": ".numpy()",
    "__array__": "numpy.array(tensor)",
    "__float__": "float(tensor)",
    "__int__": "int(tensor)",
    "__index__": "a tensor as an index",
    "__repr__": "print(tensor)",
    "__format__": "a tensor in an f-string",
    "nonzero": ".nonzero()",
    "unique": ".unique()",
    "masked_select": ".masked_select()",
}
"""Calls that bring a tensor's values, or a size that depends on them, to the host."""


class _Watch(TorchFunctionMode):
    """Watches each operation for a problem, and counts the problems by line."""

    def __init__(self) -> None:
        super().__init__()
        self._noted: Counter[tuple[Any, CodePlace | None]] = Counter()

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings, name = kwargs or {}, getattr(function, "__name__", "")
        if is_repeated():  # what it shows is noted
            return function(*args, **settings)
        self._before(name, args, settings)
        result = function(*args, **settings)
        self._after(name, args, result)
        return result

    def _before(self, name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> None:
        pass

    def _after(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        pass

    def findings(self) -> Iterator[Finding]:
        """Yield a finding for each line of the user's code. Findings in a library are notes."""
        for (what, place), count in self._noted.items():
            if place is not None:
                kind, message, remedy = self._words(what, count)
                severity: Severity = "warning" if place.is_users else "note"
                yield finding_at(place, kind, severity, message, remedy, count)

    def _words(self, what: Any, count: int) -> tuple[FindingKind, str, str]:
        raise NotImplementedError


class SyncWatch(_Watch):
    """Finds calls that would synchronize with an accelerator, such as `.item()`, and counts them by line."""

    def _before(self, name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> None:
        if name == "__bool__" or name in _READS:
            self._noted[name, calling_line()] += 1

    def _words(self, what: Any, count: int) -> tuple[FindingKind, str, str]:
        times = "" if count == 1 else f" {count:,} times in a pass"
        waits = f"{times}, which synchronizes with the GPU each time and prevents a CUDA graph."
        if what == "__bool__":
            remedy = "Branch on the device, for example with torch.where, or on a value that is not a tensor."
            return FindingKind.BRANCHES, f"Python branches on a tensor's value{waits}", remedy
        remedy = "Keep the value on the device as a tensor, and read it outside the step."
        return FindingKind.WAITS, f"{_READS[what]} is used{waits}", remedy


_SENSITIVE = frozenset(
    [
        *("softmax", "log_softmax", "softmin", "logsumexp", "logaddexp", "log_sigmoid", "logsigmoid"),
        *("exp", "exp_", "expm1", "log", "log_", "log2", "log10", "log1p"),
    ]
)
_REFUSED_ON_CUDA = "binary_cross_entropy"
_CASTS = frozenset({"half", "bfloat16", "to", "type", "type_as"})


class CastRecorder(_Watch):
    """Finds casts to 16 bits that the code makes itself. Enter it without autocast.

    Ignores casts to the dtype of the model's own 16-bit weights, because those weights have their own
    finding.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._of_weights = {parameter.dtype for parameter in model.parameters()}

    def _after(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        if args and name in _CASTS and isinstance(args[0], torch.Tensor):
            is_cast = args[0].dtype in (torch.float32, torch.float64) and result.dtype in _HALF
            if is_cast and result.dtype not in self._of_weights and (place := calling_line()) is not None:
                self._noted[dtype_text(result), place] += 1

    def _words(self, what: Any, count: int) -> tuple[FindingKind, str, str]:
        message = f"The code casts to {what}, so later operations compute in {what} in every precision."
        return FindingKind.HALF_IN_FORWARD, message, "Remove the cast. Autocast casts where needed."


class EpsilonWatch(_Watch):
    """Finds epsilons, such as 1e-12, that become 0 in FP16 and so do not prevent a division by 0."""

    def __init__(self, *, is_cuda: bool) -> None:
        super().__init__()
        self._is_cuda = is_cuda

    def _before(self, name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> None:
        given = [args[0] if args else settings.get("input"), *args[1:]]
        epsilon = None
        # CUDA's autocast computes the norm in float32
        if name == "normalize" and not self._is_cuda:
            epsilon = settings.get("eps", given[3] if len(given) > 3 else 1e-12)
        elif name.rstrip("_") in _GUARDS:
            epsilon = settings.get("min", settings.get("other", given[1] if len(given) > 1 else None))
        is_lost = isinstance(epsilon, float) and 0 < abs(epsilon) <= _LOST_IN_FP16
        is_half = any(isinstance(part, torch.Tensor) and part.dtype in _HALF for part in given)
        if is_lost and is_half and (place := calling_line()) is not None:
            self._noted[epsilon, place] += 1

    def _words(self, what: Any, count: int) -> tuple[FindingKind, str, str]:
        smallest = "whose smallest number is 6e-08, so it does not prevent 0 here"
        remedy = "Compute this in float32, for example with .float(), or use 1e-6."
        return FindingKind.EPSILON, f"{what:g} is 0 in float16, {smallest}.", remedy


_LOST_IN_FP16 = 2.0**-25
_GUARDS = frozenset({"add", "clamp", "clip", "clamp_min"})


class LossWatch(_Watch):
    """Finds logarithms, exponentials and softmaxes that the loss function computes in 16 bits."""

    def __init__(self, tree: ModuleOutputs, *, is_cuda: bool, counts: bool) -> None:
        super().__init__()
        self._tree, self._is_cuda, self._counts = tree, is_cuda, counts
        # places of a loss that CUDA's autocast refuses: True if its input has 16 bits
        self._refused: dict[CodePlace | None, bool] = {}

    def _before(self, name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> None:
        first = args[0] if args else settings.get("input")
        half = dtype_text(first) if isinstance(first, torch.Tensor) and first.dtype in _HALF else ""
        is_autocast = name in _LOOKED_AT and torch.is_autocast_enabled("cpu")
        if name in _SENSITIVE and half and not self._tree.is_in_forward:
            is_cast = settings.get("dtype") in (torch.float32, torch.float64)
            is_widened = self._is_cuda and is_autocast and name in IN_FLOAT32 and "out" not in settings
            if not is_cast and not is_widened:
                self._noted[(name.strip("_"), half), calling_line()] += 1
        if name == _REFUSED_ON_CUDA and is_autocast:
            self._refused[calling_line()] = bool(half)

    def findings(self) -> Iterator[Finding]:
        """Yield a finding for each line."""
        for ((name, dtype), place), count in self._noted.items():
            message = f"The loss computes {name} in {dtype}, where small differences are lost."
            remedy = f"Autocast does not change this. Call .float() on the input of {name}."
            yield finding_at(place, FindingKind.HALF_IN_LOSS, "warning", message, remedy, count)
        kind = FindingKind.RAISES if self._is_cuda else FindingKind.HALF_IN_LOSS
        for place, is_half in self._refused.items():
            severity: Severity = "warning" if self._is_cuda or is_half else "note"
            if self._is_cuda and self._counts:
                severity = "error"
            here = " Here its inputs are probabilities rounded to 16 bits." if is_half else ""
            message = f"binary_cross_entropy and nn.BCELoss raise an error under CUDA's autocast.{here}"
            remedy = "Remove the sigmoid, and use binary_cross_entropy_with_logits."
            yield finding_at(place, kind, severity, message, remedy)


class RefusalWatch(_Watch):
    """Finds calls that would fail on CUDA, which has no kernel for the 16-bit inputs that autocast leaves.

    `half` is the experiment's 16-bit dtype. The watched pass may use another one.
    """

    def __init__(self, half: torch.dtype, *, is_cuda: bool, counts: bool) -> None:
        super().__init__()
        self._half, self._is_cuda, self._counts = half, is_cuda, counts
        self._transformed: list[torch.Tensor] = []
        """Results that would be complex32 on CUDA."""

    def __bool__(self) -> bool:
        return bool(self._noted)

    def _before(self, name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> None:
        tensors = leaf_tensors((args, settings))
        if any(tensor.dtype in _HALF for tensor in tensors):
            why = refusal(name, self._half, args, settings)
            if why is not None:
                self._noted[(name, why, name), calling_line()] += 1
        elif name in PRODUCTS and self._transformed:
            kept = {tensor.untyped_storage()._cdata for tensor in self._transformed}
            if any(tensor.is_complex() and tensor.untyped_storage()._cdata in kept for tensor in tensors):
                why = "it has no kernel for complex32, the result of a float16 transform"
                self._noted[(name, why, "the transform"), calling_line()] += 1

    def _after(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        is_half = any(isinstance(leaf, torch.Tensor) and leaf.dtype in _HALF for leaf in args)
        if is_half and is_transform(name) and self._half is torch.float16 and result.is_complex():
            self._transformed.append(result)

    def findings(self) -> Iterator[Finding]:
        """Yield a finding for each line. It is an error if the run would end there."""
        severity: Severity = "note"
        if self._is_cuda:
            severity = "error" if self._counts else "warning"
        kind = FindingKind.RAISES if self._is_cuda else FindingKind.HALF_IN_FORWARD
        for ((name, why, given), place), count in self._noted.items():
            message = f"CUDA refuses {_title(name)} here: {why}, and CUDA's autocast does not cast its input."
            remedy = f"Call .float() on the input of {_title(given)}."
            yield finding_at(place, kind, severity, message, remedy, count)


def _title(name: str) -> str:
    return re.sub("^(fft|linalg)_", r"\1.", name)


_LOOKED_AT = _SENSITIVE | {_REFUSED_ON_CUDA}


class NonfiniteWatch(TorchFunctionMode):
    """Finds the first call that returns NaN or Inf although its inputs have none."""

    def __init__(self) -> None:
        super().__init__()
        self.place: CodePlace | None = None
        self._name = ""
        # the format that cannot hold the result, if it is finite in float32
        self._overflown: str | None = None
        self._is_mask = False

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        settings = kwargs or {}
        is_first = not self._name and are_finite((args, settings))
        result = function(*args, **settings)
        if is_first and not are_finite(result):
            self._name, self.place = getattr(function, "__name__", "").strip("_"), calling_line()
            given = leaf_tensors((args, settings))
            self._is_mask = masks_with(tensor for tensor in given if tensor.is_floating_point()) and not any(
                bool((leaf.isnan() | (leaf == torch.inf)).any()) for leaf in leaf_tensors(result)
            )
            if isinstance(result, torch.Tensor) and result.dtype in _HALF:
                wide, wide_settings = tree_map_only(torch.Tensor, _widened, (args, settings))
                with torch.autocast("cpu", enabled=False):
                    is_held = self._name in _CASTS or are_finite(function(*wide, **wide_settings))
                self._overflown = dtype_text(result) if is_held else None
        return result

    def explained(self) -> tuple[str, str]:
        """Return the origin of NaN or Inf as the end of a sentence, and a remedy."""
        name = self._name
        if self._is_mask:
            remedy = "Combine masks as booleans, fill once, and leave a value of every row unmasked."
            return f": the mask's large negative numbers become -Inf in {name}", remedy
        if self._overflown is not None:
            most = f"{torch.finfo(getattr(torch, self._overflown)).max:,.6g}"
            remedy = f"Compute {name} in float32, for example with .float() on its input."
            return f": {name} exceeds the largest number of {self._overflown}, {most}", remedy
        if name in ("log", "log2", "log10", "log1p"):
            remedy = "Add a small number before it, or use log_softmax or logsigmoid."
            return f": the input of {name} is 0 or less", remedy
        if name in ("div", "rdiv", "reciprocal", "rsqrt"):
            return f": {name} divides by 0", "Add a small number to the divisor, before any root."
        if name:
            return f": {name} is the first to return such a value", f"Check the input of {name}."
        return "", "Look for a logarithm of 0, a division by 0, or inputs that are too large."


class AttentionWatch(_Watch):
    """Finds calls of `scaled_dot_product_attention` that some kernel cannot compute on the run's device.

    Calls within `nn.MultiheadAttention`, which no function mode sees, are found too.
    """

    def __init__(self, wanted: AttentionKernel, device: torch.device) -> None:
        super().__init__()
        self._wanted, self._device = wanted, device
        self._original = functional.scaled_dot_product_attention
        self._is_within = False

    def __enter__(self) -> Self:
        functional.scaled_dot_product_attention = self._called
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        functional.scaled_dot_product_attention = self._original

    def _called(self, *args: Any, **settings: Any) -> Any:
        self._note(args, settings)
        self._is_within = True
        try:
            return self._original(*args, **settings)
        finally:
            self._is_within = False

    def _before(self, name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> None:
        if name == "scaled_dot_product_attention" and not self._is_within:
            self._note(args, settings)

    def _note(self, args: tuple[Any, ...], settings: dict[str, Any]) -> None:
        call = AttentionCall(*args, **settings)
        is_narrow = torch.is_autocast_enabled("cpu") or call.query.dtype in _HALF
        if impossible := call.impossible(self._device, is_narrow=is_narrow):
            self._noted[tuple(impossible.items()), calling_line()] += 1

    def findings(self) -> Iterator[Finding]:
        """Yield a finding for each line, a note if PyTorch chooses the kernel."""
        for (impossible, place), count in self._noted.items():
            refused = (
                impossible if self._wanted == "auto" else [it for it in impossible if it[0] == self._wanted]
            )
            if not refused:
                continue
            severity: Severity = "note" if self._wanted == "auto" else "warning"
            remedy = "PyTorch chooses among the other kernels."
            if self._wanted != "auto":
                remedy = f"Set {setting_title('step.attention')} to auto, or the run fails."
            message = f"This attention cannot use {listed([f'{name} ({why})' for name, why in refused])}."
            yield finding_at(place, FindingKind.ATTENTION, severity, message, remedy, count)


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in _HALF else tensor


Unused: TypeAlias = dict[str, torch.Tensor]
"""Trainable parameters without a gradient, by name."""


class GradientWatch:
    """Records which parameters of a model get a gradient in this context."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self.reached: set[int] = set()  # by id
        self._handles: list[RemovableHandle] = []

    def __enter__(self) -> Self:
        for parameter in filter(attrgetter("requires_grad"), self._model.parameters()):
            self._handles.append(parameter.register_post_accumulate_grad_hook(self._note))  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()

    def _note(self, parameter: torch.Tensor) -> None:
        self.reached.add(id(parameter))

    @property
    def missing(self) -> Unused:
        """Return the parameters without a gradient, by name."""
        trained = (named for named in self._model.named_parameters() if named[1].requires_grad)
        return {name: parameter for name, parameter in trained if id(parameter) not in self.reached}


def gradient_findings(
    model: nn.Module, unused: Sequence[Unused], experiment: Experiment, *, is_shared: bool
) -> Iterator[Finding]:
    """Yield findings on parameters without a gradient, from those `unused` in each backward pass.

    With `is_shared`, multiple processes synchronize gradients during the backward pass.
    """
    settings, kind = experiment.ranks, FindingKind.NO_GRADIENT
    some = {name: parameter for each in unused for name, parameter in each.items()}
    never = [named for named in some.items() if all(named[0] in each for each in unused)]
    sometimes = [named for named in some.items() if named[0] not in dict(never)]
    place = forward_place(model, next(iter(some), ""))
    if is_shared and settings.strategy == "ddp" and not settings.find_unused_parameters:
        waited_for = sometimes if settings.static_graph else list(some.items())
        if waited_for:
            steps = "some steps" if sometimes else "a step"
            problem = unused_problem([name for name, _ in waited_for], settings, steps)
            yield finding_at(place, kind, "error", problem.message, problem.remedy, len(waited_for))
            return
    if never:
        message = f"{name_first('parameter', never)} never trained, because it gets no gradient."
        remedy = "Use it in forward, or set its requires_grad to False."
        yield finding_at(place, kind, "warning", message, remedy, len(never))
    if sometimes and is_shared and settings.strategy == "fsdp":
        message = f"{name_first('parameter', sometimes)} without a gradient in some steps."
        remedy = "Use the same parts of the model on all devices in each step, or FSDP2 hangs."
        yield finding_at(place, kind, "warning", message, remedy, len(sometimes))


def name_first(noun: str, named: Sequence[tuple[str, torch.Tensor]]) -> str:
    """Return the start of a sentence, such as "The buffer mean, like 2 more buffers, is"."""
    others = len(named) - 1
    more = f", like {others:,} more {noun if others == 1 else noun + 's'}," if others else ""
    return f"The {noun} {named[0][0]}{more} is"
