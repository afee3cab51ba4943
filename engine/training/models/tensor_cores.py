"""Layers on Tensor Cores: linear layers in FP8 by torchao, and sizes that slow down 16-bit matmuls.

NVIDIA, Matrix Multiplication Background, "Tensor Core Requirements": cuBLAS and cuDNN use Tensor Cores for
any size, most efficiently for multiples of 8.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor, nn

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import request_error
from engine.experiment.settings import Step
from engine.protocol.advice import Finding, FindingKind, LinearLayer, NotInFP8, Severity
from engine.training.models.forward import ForwardMixin, add_forward_mixin, original_class
from engine.training.models.libraries import library_reason, quiet
from engine.words.names import listed

_MULTIPLE = 16  # cuBLAS takes FP8 products only whose summed side is a multiple of 16


def linear_layers(
    model: nn.Module, step: Step, tokens: Mapping[str, int], *, is_emulated: bool
) -> tuple[LinearLayer, ...]:
    """Return a model's linear layers before a conversion. Without `tokens` no layer is excluded for them."""
    names, patterns = (name for name, _ in model.named_modules()), step.fp32_modules
    kept = [f"{name}." for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
    linear = [(name, it) for name, it in model.named_modules() if isinstance(it, nn.Linear)]
    takes_small = is_emulated if step.fp8_small_layers is None else step.fp8_small_layers
    layers = []
    for place, (name, it) in enumerate(linear):
        rows, sizes = tokens.get(name), (it.in_features, it.out_features)
        reason: NotInFP8 | None = None
        if f"{name}.".startswith(tuple(kept)):
            reason = NotInFP8.FP32
        elif place == len(linear) - 1:
            reason = NotInFP8.OUTPUT
        elif original_class(it) is not nn.Linear or (tokens and rows is None):
            reason = NotInFP8.NOT_CALLED
        elif any(size % _MULTIPLE for size in sizes):
            reason = NotInFP8.SIZE
        elif rows is not None and rows % _MULTIPLE and _sums_tokens(step):
            reason = NotInFP8.TOKENS
        elif not takes_small and is_small(*sizes, step.fp8_recipe):
            reason = NotInFP8.SMALL
        layers.append(LinearLayer(name=name, inputs=sizes[0], outputs=sizes[1], tokens=rows, reason=reason))
    return tuple(layers)


def is_small(inputs: int, outputs: int, recipe: str) -> bool:
    """Return True for a layer that does not get faster, by the thresholds that torchao measured on an H100.

    See `_auto_filter_for_recipe` in torchao's float8_linear_utils.py. It has no thresholds for weight
    gradients in BF16, for which those of `rowwise` are used.
    """
    if recipe == "tensorwise":
        return inputs <= 4_096 and outputs <= 1_024
    return outputs <= 2_048 or inputs <= 1_024 or (outputs <= 4_096 and inputs <= 2_048)


def layers_sentence(layers: Iterable[LinearLayer]) -> str:
    """Describe how many layers are in FP8, and why others are not."""
    reasons = Counter(layer.reason for layer in layers)
    converted, all_of_them = reasons.pop(None, 0), reasons.total()
    if not converted and not all_of_them:
        return "FP8 has no effect on this model. It has no linear layers, and only these are converted."
    known = (reason for reason in NotInFP8 if reasons[reason])
    others = listed([_OTHERS[reason].format(reasons[reason]) for reason in known])
    if not converted:
        which = "its only linear layer is not"
        if all_of_them > 1:
            which = f"none of its {all_of_them:,} linear layers is"
        return f"FP8 has no effect on this model: {which} converted ({others})."
    return f"FP8 in {converted:,} of {converted + all_of_them:,} linear layers. Not in {others}."


def layers_table(layers: Sequence[LinearLayer]) -> str:
    """Return a line for each layer: its name, sizes, the tokens of a batch, and whether it is in FP8."""
    rows = [("linear layer", "inputs", "outputs", "tokens", "in FP8")]
    for layer in layers[:_MOST_LISTED]:
        tokens = "" if layer.tokens is None else f"{layer.tokens:,}"
        told = f"no: {layer.reason}" if layer.reason else "yes"
        rows.append((layer.name, f"{layer.inputs:,}", f"{layer.outputs:,}", tokens, told))
    name, *sizes, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = ("  ".join([row[0].ljust(name), *map(str.rjust, row[1:4], sizes), row[4]]) for row in rows)
    return "\n".join(lines)


_MOST_LISTED = 400
_OTHERS = {
    NotInFP8.OUTPUT: "the output layer",
    NotInFP8.SIZE: "{:,} with a size that is not a multiple of 16",
    NotInFP8.TOKENS: "{:,} whose tokens in a batch are not a multiple of 16",
    NotInFP8.SMALL: "{:,} too small to get faster",
    NotInFP8.NOT_CALLED: "{:,} that the model does not call as nn.Linear",
    NotInFP8.FP32: "{:,} kept in FP32",
}


class InFP8(ForwardMixin):
    """A mixin that makes nn.Linear compute in FP8 under autocast. Without autocast the layer is unchanged.

    `fp8_watch`, if set, is called with the inputs before their FP8 cast, and with the output.
    """

    fp8_device_type: str
    fp8_sums_tokens: bool
    fp8_watch: Callable[[Tensor, Tensor], None] | None = None

    def forward(self, inputs: Tensor) -> Any:
        kind, layer = self.fp8_device_type, self
        assert isinstance(layer, nn.Linear)
        # an epoch's last batch may be smaller
        is_odd = self.fp8_sums_tokens and inputs.numel() // layer.in_features % _MULTIPLE
        if not torch.is_autocast_enabled(kind) or (is_odd and torch.is_grad_enabled()):
            return nn.functional.linear(inputs, layer.weight, layer.bias)
        # torchao looks at the autocast of a GPU only, so that on a CPU it would take float32
        inputs = inputs.to(torch.get_autocast_dtype(kind))
        output = super().forward(inputs)
        if self.fp8_watch is not None:
            self.fp8_watch(inputs, output)
        return output


def convert(
    model: nn.Module, layers: Iterable[LinearLayer], step: Step, device: torch.device, *, is_emulated: bool
) -> None:
    """Convert the layers without a reason against it, in place. Weights keep their names and stay in FP32.

    `device` is that of the autocast. Raises ProblemError if torchao cannot be imported.
    """
    wanted = {id(model.get_submodule(layer.name)) for layer in layers if layer.reason is None}
    if not wanted:
        return
    float8, converted = _torchao()
    config = float8.Float8LinearConfig.from_recipe_name(step.fp8_recipe)
    with quiet():
        float8.convert_to_float8_training(
            model,
            config=replace(config, emulate=is_emulated),
            module_filter_fn=lambda module, name: id(module) in wanted,
        )
    for module in model.modules():
        if isinstance(module, converted):
            around = add_forward_mixin(module, InFP8)
            around.fp8_device_type, around.fp8_sums_tokens = device.type, _sums_tokens(step)


def check_recipe(experiment: Experiment, device: torch.device) -> None:
    """Try the experiment's FP8 scaling on its GPU. Raise ProblemError if the GPU refuses it."""
    recipe = experiment.step.fp8_recipe
    if experiment.precision is not Precision.FP8 or recipe == "tensorwise" or device.type != "cuda":
        return
    if refusal := row_scaling_refusal(device):
        message = f"FP8 scaling is '{recipe}', but this GPU does not support row-wise scaling: {refusal}"
        raise request_error(message, "Set it to tensorwise.", key="step.fp8_recipe", value=recipe)


def row_scaling_refusal(device: torch.device) -> str:
    """Return PyTorch's error if the device refuses an FP8 matmul with row-wise scales, else an empty string.

    It tries one, which takes less than a millisecond. A table of GPUs would be wrong, because kernels depend
    on the GPU, on the build of PyTorch and on the system. Not yet seen on an Ada GPU (compute capability
    8.9), for which PyTorch has had a kernel since 2.7.
    """
    numbers = torch.ones(_TRIED, _TRIED, device=device).to(torch.float8_e4m3fn)
    scales = torch.ones(_TRIED, 1, device=device)
    for is_fast in (True, False):  # outputs are summed the fast way, gradients are not
        try:
            torch._scaled_mm(
                numbers,
                numbers.t(),
                scale_a=scales,
                scale_b=scales.t(),
                out_dtype=torch.bfloat16,
                use_fast_accum=is_fast,
            ).sum().item()  # errors of a kernel appear when it is waited for
        except Exception as error:  # noqa: BLE001 - what has no kernel fails in any way
            return f"{library_reason(error)}."
    return ""


_TRIED = 32


def _torchao() -> tuple[Any, type[nn.Module]]:
    # imported here: it takes seconds
    try:
        with quiet():
            return import_module("torchao.float8"), import_module("torchao.float8.float8_linear").Float8Linear
    except ImportError as error:
        message = f"FP8 needs torchao, which cannot be imported here: {error}."
        raise request_error(message, "Install torchao again, or use BF16 AMP.", key="precision") from None


def _sums_tokens(step: Step) -> bool:
    # in the gradient of the weights
    return step.fp8_recipe != "rowwise_with_gw_hp"


_EVEN = 8
_LARGE = 1_024  # from here on the last layer takes much of the time, as a vocabulary does

_Convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


@dataclass(frozen=True)
class OddSize:
    """A size of the matmuls of `layers` that is not a multiple of 8: less efficient on Tensor Cores.

    `is_given` is True if the data determines the size, such as the number of classes.
    """

    side: Literal["inputs", "outputs"]
    size: int
    is_given: bool
    layers: tuple[str, ...]

    @property
    def even(self) -> int:
        """The next larger multiple of 8."""
        return _next_multiple(self.size)


def odd_sizes(model: nn.Module) -> list[OddSize]:
    """Return the odd sizes of a model's layers, in the model's order."""
    products = _products(model)
    layers: defaultdict[tuple[Literal["inputs", "outputs"], int, bool], list[str]] = defaultdict(list)
    for place, (name, module) in enumerate(products):
        inputs, outputs = _layer_sizes(module)
        if inputs % _EVEN:
            layers["inputs", inputs, place == 0].append(name)
        if outputs % _EVEN:
            layers["outputs", outputs, place == len(products) - 1 and outputs < _LARGE].append(name)
    return [OddSize(*key, tuple(names)) for key, names in layers.items()]


def size_findings(model: nn.Module, batch_size: int) -> list[Finding]:
    """Return a finding for each odd size of a layer's matmul. Sizes given by the data are only notes."""
    found = []
    for odd in odd_sizes(model):
        first, *others = odd.layers
        more = f", like {len(others):,} more," if others else ""
        has = f"The layer {first}{more} has {odd.size:,} {odd.side}, not a multiple of {_EVEN}"
        message = f"{has}, which is slower on Tensor Cores."
        severity: Severity = "note" if odd.is_given else "warning"
        found.append(_finding(severity, message, f"Use {odd.even:,} if you can.", len(odd.layers)))
    if batch_size % _EVEN and any(isinstance(module, nn.Linear) for _, module in _products(model)):
        size = f"{batch_size:,} is not a multiple of {_EVEN}"
        remedy = f"A batch of {_next_multiple(batch_size):,} takes barely more time."
        found.append(_finding("note", f"The batch size of {size}, which is slower on Tensor Cores.", remedy))
    return found


def _finding(severity: Severity, message: str, remedy: str, count: int = 1) -> Finding:
    return Finding(kind=FindingKind.ODD_SIZE, severity=severity, message=message, remedy=remedy, count=count)


def _products(model: nn.Module) -> list[tuple[str, nn.Module]]:
    # a depthwise convolution is none
    return [
        (name, it)
        for name, it in model.named_modules()
        if isinstance(it, nn.Linear)
        or (isinstance(it, _Convolution) and (it.groups == 1 or it.in_channels > it.groups))
    ]


def _layer_sizes(module: nn.Module) -> tuple[int, int]:
    if isinstance(module, nn.Linear):
        return module.in_features, module.out_features
    assert isinstance(module, _Convolution)
    return module.in_channels // module.groups, module.out_channels // module.groups


def _next_multiple(size: int) -> int:
    return -(-size // _EVEN) * _EVEN
