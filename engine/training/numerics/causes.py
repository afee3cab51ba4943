"""The causes of an operation's NaN or Inf, derived from its values, and their fixes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.protocol.advice import Changes
from engine.protocol.numerics import Cause, Direction, FirstNonfinite
from engine.protocol.ranges import ELSEWHERE, FORMATS, LOSS, OPTIMIZER, dtype_label, module_title
from engine.training.models.attention import kernel_of
from engine.training.numerics.watch import Call
from engine.training.precision import are_finite, floating, masks_with, without_fp8
from engine.words.names import listed

_LOGARITHMS = frozenset({"log", "log2", "log10", "log1p", "xlogy", "logit"})
_DIVISIONS = frozenset({"div", "reciprocal", "rsqrt", "pow"})
_SOFTMAXES = frozenset({"_softmax", "_log_softmax", "_safe_softmax"})
_MASKING = frozenset({"add", "sub", "mul", "masked_fill", "_to_copy", "copy"})
_GROWN = 100.0
"""Growth of weights since the start of a run that counts as divergence."""

BATCH, WEIGHT, CONSTANT = "batch", "weight", "constant"
"""Operation names for values that no operation produced."""

_OUTSIDE = {LOSS: "in the loss", OPTIMIZER: "in the optimizer", ELSEWHERE: "outside of the model's modules"}
_NODE = re.compile(r"Backward\d*$")
_CASTS = frozenset({"_to_copy", "copy"})
_WORDS = {
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm", "matmul", "linear"), "matmul"),
    **dict.fromkeys(("convolution", "mkldnn_convolution", "cudnn_convolution"), "convolution"),
    **dict.fromkeys(("_softmax", "softmax", "_safe_softmax"), "softmax"),
    **dict.fromkeys(("_log_softmax", "logsoftmax"), "log-softmax"),
    **dict.fromkeys(("div", "reciprocal"), "division"),
    **dict.fromkeys(("log", "log2", "log10", "log1p"), "logarithm"),
    **dict.fromkeys(("var", "var_mean", "std", "std_mean"), "variance"),
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), "negative log-likelihood"),
    "add": "addition",
    "sub": "subtraction",
    "mul": "multiplication",
    "exp": "exponential",
    "sqrt": "square root",
    "rsqrt": "inverse square root",
    "pow": "power",
    "sum": "sum",
    "mean": "mean",
    "tocopy": "cast",
    "linalg_vector_norm": "norm",
    "native_layer_norm": "layer normalization",
    "native_batch_norm": "batch normalization",
    "mse_loss": "squared error",
}
_WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.complex32: torch.complex64,
    torch.complex64: torch.complex128,
    **dict.fromkeys((torch.float8_e4m3fn, torch.float8_e5m2), torch.float32),
}


@dataclass(frozen=True)
class FoundCause:
    """The cause of an operation's NaN or Inf, with the values that point to it.

    `largest` is the largest magnitude of the same result in a wider format: Inf if it overflows there too,
    None if unknown. For a backward operation, `node` is autograd's name of the forward operation. `weight` is
    the name of a weight that was NaN or Inf from the start.
    """

    cause: Cause
    largest: float | None = None
    node: str = ""
    weight: str = ""


@dataclass(frozen=True)
class Origin:
    """The operation that produced a NaN or Inf from finite inputs, with its module, step, dtypes and values.

    `on_purpose` is True if the code itself passed Inf or NaN, as in an attention mask. `kinds` are the values
    in the output: "-inf", "inf" or "nan".
    """

    number: int
    step: int
    module: str
    operation: str
    direction: Direction
    kinds: frozenset[str]
    on_purpose: bool = False
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    nan: int = 0
    infinite: int = 0
    found_cause: FoundCause = FoundCause(Cause.UNKNOWN)

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """The sort key of several causes: faults first, then masks, and -Inf, mostly from masks, last."""
        return self.on_purpose, self.kinds == {"-inf"}, self.number

    @property
    def identity(self) -> tuple[int, str, str, str]:
        """A key that is equal for two repeats of one finding."""
        return self.step, self.module, self.operation, self.direction


def find_cause(call: Call, inputs: Sequence[Tensor], outputs: Sequence[Tensor], node: str = "") -> FoundCause:
    """Find the cause of `outputs` that are not finite, by repeating the call in a wider format."""
    if call.module == OPTIMIZER:
        # a sum that is too large is infinite; NaN is 0/0, as where epsilon is 0
        has_nan = any(bool(tensor.isnan().any()) for tensor in outputs)
        return FoundCause(Cause.INVALID if has_nan else Cause.WEIGHT)
    device = outputs[0].device.type
    inputs, outputs = list(map(without_fp8, inputs)), list(map(without_fp8, outputs))
    with torch.no_grad(), torch.autocast(device, enabled=False):
        wider = _in_wider_format(call)
        if wider and are_finite(wider):
            cause = Cause.MASK if _is_mask(call, inputs, outputs) else Cause.OVERFLOW
            return FoundCause(cause, max(float(tensor.abs().max()) for tensor in wider), node)
        return FoundCause(_find_cause(call, inputs, outputs), math.inf if wider else None, node)


def _is_mask(call: Call, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> bool:
    name = call.name.removeprefix("aten.").rstrip("_")
    if name not in _MASKING or any(
        bool((tensor.isnan() | (tensor == torch.inf)).any()) for tensor in outputs
    ):
        return False
    are_flags = name == "mul" and all(bool(((tensor == 0) | (tensor == 1)).all()) for tensor in inputs)
    numbers = [number for number in call.args if are_flags and isinstance(number, int | float)]
    return masks_with(inputs, numbers)


def _find_cause(call: Call, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Cause:
    name = call.name.removeprefix("aten.").rstrip("_")
    has_nan = any(bool(tensor.isnan().any()) for tensor in outputs)
    has_infinity = any(bool(tensor.isinf().any()) for tensor in outputs)
    if name in _SOFTMAXES and inputs and bool((inputs[0] == -torch.inf).all(call.args[1]).any()):
        return Cause.MASKED
    if name in _LOGARITHMS and has_infinity:
        return Cause.LOG_OF_ZERO
    if name in _DIVISIONS and has_infinity and _divides_by_zero(name, call.args):
        return Cause.DIVISION_BY_ZERO
    if _is_mask(call, inputs, outputs):
        return Cause.MASK
    return Cause.INVALID if has_nan else Cause.OVERFLOW


def _divides_by_zero(name: str, args: Sequence[Any]) -> bool:
    divisor = args[1] if name == "div" else args[0]
    if not isinstance(divisor, Tensor):
        return bool(divisor == 0)
    is_plain = divisor.layout is torch.strided and not divisor.is_nested
    return any(bool((part == 0).any()) for part in ([divisor] if is_plain else floating([divisor])))


def _in_wider_format(call: Call) -> list[Tensor]:
    if torch.Tag.nondeterministic_seeded in call.operator.tags:
        return []  # drawing numbers once more would change those of the steps that follow

    def widened(value: Any) -> Any:
        if isinstance(value, Tensor):
            # an FP8 tensor of torchao knows its scale
            unscaled = getattr(value, "to_original_precision", None)
            value = value if unscaled is None else unscaled()
            return value.detach().to(_WIDER.get(value.dtype, value.dtype))
        return _WIDER.get(value, value) if isinstance(value, torch.dtype) else value

    args, kwargs = tree_map(widened, (call.args, call.kwargs))
    try:
        outputs = call.operator(*args, **kwargs)
    except (RuntimeError, TypeError):  # not made for that format, or no memory is left for it
        return []
    return list(floating(call.outputs_in(outputs)))


@dataclass(frozen=True)
class Circumstances:
    """The facts about a step with NaN or Inf from which its explanation and remedy are chosen.

    `calm_scale` is a loss scale at which the gradients do not overflow. `growth` is the factor by which the
    module's largest weight has grown since the start. `helping` are modules that made the steps finite when
    they were kept in FP32. `bf16_helps` is True if training in BF16 made them finite.
    """

    experiment: Experiment
    class_name: str = ""
    batch: str = ""
    grad_scale: float | None = None
    calm_scale: float | None = None
    growth: float = 1.0
    helping: tuple[str, ...] = ()
    bf16_helps: bool = False


def explain_origin(origin: Origin, around: Circumstances) -> FirstNonfinite:
    """Explain the origin in a sentence, with a fix for its cause."""
    cause = _known_cause(origin, around)
    remedy, changes = _remedy(cause, origin, around)
    largest = origin.found_cause.largest
    return FirstNonfinite(
        **{name: getattr(origin, name) for name in _SHARED},
        class_name=around.class_name,
        cause=cause,
        result=largest if largest != math.inf else None,
        grad_scale=around.grad_scale,
        batch=around.batch,
        sentence=_origin_sentence(cause, origin, around),
        remedy=remedy,
        changes=changes,
    )


_SHARED = (
    *("module", "operation", "direction", "step", "inputs", "outputs", "least", "most", "nan", "infinite"),
)


def _known_cause(origin: Origin, around: Circumstances) -> Cause:
    cause = origin.found_cause.cause
    if cause is Cause.OVERFLOW and origin.direction == "backward" and around.calm_scale is not None:
        return Cause.SCALE
    if cause is Cause.OVERFLOW and origin.direction == "forward" and around.growth >= _GROWN:
        return Cause.WEIGHT
    return cause


def _origin_sentence(cause: Cause, origin: Origin, around: Circumstances) -> str:
    counts = ((origin.nan, "NaN"), (origin.infinite, "infinite"))
    made = " and ".join(f"{count:,} {kind}" for count, kind in counts if count)
    values = f"{made} value{'' if origin.nan + origin.infinite == 1 else 's'}"
    if cause is Cause.INPUT:
        return f"The batch of step {origin.step:,} contains {values}."
    if cause is Cause.INITIAL:
        name = origin.found_cause.weight
        return f"The weight {name} contains {values} before step {origin.step:,} updates it."
    if origin.operation == CONSTANT:
        read = f"In step {origin.step:,}, the model read a tensor with {values}"
        return f"{read} that no operation of the step produced."
    who = f"the {_operation_words(origin)} {_place_words(origin, around)}"
    inputs = ""
    if origin.least is not None and origin.most is not None:
        formats = " and ".join(dict.fromkeys(map(dtype_label, origin.inputs)))
        inputs = f" Its inputs ({formats}) were between {_number(origin.least)} and {_number(origin.most)}."
    why = _cause_words(cause, origin, around)
    return f"In step {origin.step:,}, {who} produced {values}: {why}.{inputs}"


def _operation_words(origin: Origin) -> str:
    name = origin.operation.removeprefix("aten.").rstrip("_")
    words = f"cast to {_format(origin)}" if name in _CASTS else _WORDS.get(name, f"operation {name}")
    if kernel := kernel_of(name):
        words = "softmax of the math attention" if kernel == "math" else f"{kernel} attention"
    forward = _NODE.sub("", origin.found_cause.node)
    if origin.direction == "forward" or not forward:
        return words
    known = _WORDS.get(forward.lower())
    return f"backward pass of the {known}" if known else f"backward pass of {forward}"


def _place_words(origin: Origin, around: Circumstances) -> str:
    if origin.module in _OUTSIDE:
        return _OUTSIDE[origin.module]
    name = module_title(origin.module)
    return f"in {name} ({around.class_name})" if around.class_name else f"in {name}"


def _cause_words(cause: Cause, origin: Origin, around: Circumstances) -> str:
    form, largest = _format(origin), origin.found_cause.largest
    limit = next((other.largest for other in FORMATS if other.label == form), math.inf)
    beyond = f"beyond {form}'s largest number, {_number(limit)}"
    if largest is not None and largest <= limit:
        size = f"it overflows in {form} on the way to its result of {_number(largest)}"
    elif largest is None:
        size = f"its result is {beyond}"
    elif math.isinf(largest):
        size = f"its result is far {beyond}"
    else:
        size = f"its result of {_number(largest)} is {beyond}"
    if cause is Cause.OVERFLOW:
        return size
    if cause is Cause.SCALE:
        scales = f"{_number(around.grad_scale or 1.0)}, but not at {_number(around.calm_scale or 1.0)}"
        return f"{size} at a loss scale of {scales}"
    if cause is Cause.WEIGHT and origin.direction == "forward" and origin.module not in _OUTSIDE:
        grown = f"the weights have grown {_number(around.growth)}-fold since the start of the run"
        return f"{size}, and {grown}" if around.growth >= _GROWN else "the update made the weights too large"
    return _WHY.get(cause, "the cause is unknown").format(form=form)


_WHY = {
    Cause.LOG_OF_ZERO: "it took the logarithm of 0",
    Cause.DIVISION_BY_ZERO: "it divided by 0",
    Cause.MASK: "the values with which a mask replaces -Inf exceed the range of {form} and become -Inf",
    Cause.MASKED: "a row of its inputs was all -Inf",
    Cause.INVALID: "its result is undefined, as for 0/0, Inf - Inf or the root of a negative number",
}


_UNMASKED = "Leave at least one value of every row unmasked in {where}."


def _remedy(cause: Cause, origin: Origin, around: Circumstances) -> tuple[str, Changes]:
    settings, helping = around.experiment, around.helping
    where = module_title(origin.module)
    kept = (("step.fp32_modules", ", ".join((*settings.step.fp32_modules, *helping))),) if helping else ()
    verified = f"keep {listed(helping)} in FP32, which kept the repeated steps finite."
    match cause:
        case Cause.SCALE:
            calm = f"{around.calm_scale:g}"
            return f"Start at a loss scale of {calm}.", (("scaler.init_scale", calm),)
        case Cause.WEIGHT:
            rate = f"{settings.optimizer.learning_rate / 10:g}"
            advice = "Lower the learning rate, warm it up, or clip the gradients."
            return advice, (("optimizer.learning_rate", rate),)
        case Cause.INITIAL:
            return "Check its initialization, or the file that it is loaded from.", ()
        case Cause.MASK if origin.operation.removeprefix("aten.").rstrip("_") in _CASTS:
            advice = f"Fill the mask in {_format(origin)} with torch.finfo(dtype).min of that dtype."
            return f"{advice} {_UNMASKED.format(where=where)}", ()
        case Cause.MASK:
            advice = (
                "Combine the masks as booleans and fill once, as with masked_fill, instead of adding them."
            )
            return f"{advice} {_UNMASKED.format(where=where)}", ()
        case Cause.MASKED:
            return _UNMASKED.format(where=where), ()
        case Cause.INPUT:
            return "Remove or replace the NaN and Inf values of the dataset.", ()
        case _ if origin.operation == CONSTANT:
            return "Check the model's buffers, and the tensors that its code creates.", ()
        case Cause.OVERFLOW if helping:
            return f"K{verified[1:]}", kept
        case Cause.OVERFLOW if around.bf16_helps:
            advice = "Train in BF16, which has the range of FP32 and kept the repeated steps finite."
            return advice, (("precision", Precision.BF16.value),)
        case Cause.OVERFLOW:
            advice = f"Clamp or normalize the input of {where}"
            if origin.direction == "backward":
                advice = f"Make {where} produce a smaller gradient"
        case Cause.LOG_OF_ZERO:
            advice = "Add a small number before the logarithm, or use log_softmax or logsigmoid"
        case Cause.DIVISION_BY_ZERO:
            advice = "Add a small number to the divisor, before any root"
        case _:
            advice = "Check the inputs of this operation"
    return (f"{advice}, or {verified}" if helping else f"{advice}."), kept


def _format(origin: Origin) -> str:
    return dtype_label(origin.outputs[0]) if origin.outputs else ""


def _number(value: float) -> str:
    if value == 0 or 1e-3 <= abs(value) < 1e3:
        return f"{value:.4g}"
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.3g}"
