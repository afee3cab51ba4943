"""torchao's low-bit AdamW: state in 8 bits, 4 bits or FP8, and BF16 weights with stochastic rounding."""

from __future__ import annotations

import importlib
import os
import shutil
import warnings
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from engine.experiment.experiment import Experiment, setting_error
from engine.training.models.libraries import quiet

_IN_FULL = "_AdamW"  # its state has the weights' own format
_COMPILED_ON = ("cpu", "cuda", "xpu")
_COMPILERS = ("g++", "clang++", "c++", "gcc", "clang", "cc", "cl")
_LEAST_FP8 = (8, 9)
_INSTALL = "Install it with `ammeter engine install --with torchao`, or in a clone with the extra fp8."
_BLOCK = 256
_WORKING_COPIES = 2  # of the weights, in float32, that the compiled update of one tensor takes for a moment


def uses_torchao(experiment: Experiment) -> bool:
    """Return True if torchao provides the experiment's optimizer and the model's file does not."""
    code = experiment.own_code
    if code is not None and "optimizer" in code.defines:
        return False
    return experiment.optimizer.kind.is_low_bit or experiment.rounds_stochastically


def check_torchao(experiment: Experiment, device: torch.device) -> None:
    """Load torchao if the experiment needs it. Raises ProblemError if its optimizer cannot run here.

    Saved low-bit states can only be read after this.
    """
    if not uses_torchao(experiment):
        return
    if experiment.optimizer.kind.is_low_bit:
        key, shown = "optimizer.name", f"'{experiment.optimizer.name}'"
        instead = "Choose adamw."
    else:
        key, shown, instead = "optimizer.stochastic_rounding", "on", "Turn it off."
    why, remedy = _obstacle(experiment, device)
    if why:
        value = None if key == "optimizer.name" else "true"
        value = value or experiment.optimizer.name
        raise setting_error(key, f"is {shown}, but {why}.", f"{remedy} {instead}".strip(), value=value)
    if experiment.optimizer.kind.is_low_bit:
        kind = getattr(_optimizers(), experiment.optimizer.kind.class_name)
        for is_signed in (True, False):
            # it makes its table of codes at first use, which fake tensors of a forecast cannot
            kind._subclass_zeros(torch.empty(_BLOCK), is_signed, _BLOCK)


def _obstacle(experiment: Experiment, device: torch.device) -> tuple[str, str]:
    if find_spec("torchao") is None:
        return "torchao, which provides it, is not installed", _INSTALL
    try:
        module = _optimizers()
        getattr(module, _class_name(experiment))
    except Exception as error:  # noqa: BLE001 - a library made for another torch fails in any way
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return f"the torchao here does not fit torch {torch.__version__} ({first})", _INSTALL
    if device.type not in _COMPILED_ON:
        return f"torch.compile, which torchao's optimizers need, does not support {device.type}", ""
    names = (*filter(None, (os.environ.get("CXX"), os.environ.get("CC"))), *_COMPILERS)
    if not any(map(shutil.which, names)):
        return "torchao compiles it, and no C++ compiler was found", "Install one, such as g++."
    if device.type != "cpu" and find_spec("triton") is None:
        return "torchao compiles it, and Triton is not installed", ""
    if experiment.optimizer.name == "adamw-fp8" and device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        if capability < _LEAST_FP8:
            return f"FP8 needs compute capability 8.9, but this GPU has {'.'.join(map(str, capability))}", ""
    return "", ""


def _class_name(experiment: Experiment) -> str:
    kind = experiment.optimizer.kind
    return kind.class_name if kind.is_low_bit else _IN_FULL


def _optimizers() -> Any:
    with quiet():  # takes seconds
        module = importlib.import_module("torchao.optim")
    # said when it is compiled
    warnings.filterwarnings("ignore", message=".*does not implement _stable_hash_for_caching")
    return module


def torchao_optimizer(parameters: Iterable[Tensor], experiment: Experiment) -> torch.optim.Optimizer:
    """Return torchao's AdamW for the experiment, with its learning rate in a tensor on the host.

    The state of tensors with fewer than 4,096 elements, or with a size that is not a multiple of its block
    size, is not reduced.
    """
    settings = experiment.optimizer
    kind = getattr(_optimizers(), _class_name(experiment))
    made: torch.optim.Optimizer = kind(
        parameters,
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
        bf16_stochastic_round=experiment.rounds_stochastically,
    )
    return made


def allocate_state(optimizer: Any) -> None:
    """Make torchao's optimizer allocate the memory of its steps without computing, for a forecast."""

    def step() -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = optimizer.state[parameter]
                for name, is_signed in (("exp_avg", True), ("exp_avg_sq", False)):
                    if name not in state:
                        state[name] = optimizer._new_buffer(parameter, is_signed)
                _ = [torch.empty(parameter.shape) for _ in range(_WORKING_COPIES)]

    optimizer.step = step
