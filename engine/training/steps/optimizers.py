"""PyTorch's and torchao's optimizers of a training step, and several of them used as one."""

from __future__ import annotations

import importlib
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, cast

import torch
from torch import Tensor, nn

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


_WITH_FUSED_FORMS = ("cuda", "cpu", "xpu", "mps")


def build_optimizer(
    model: nn.Module, experiment: Experiment, *, fused: bool | None = None, capturable: bool = False
) -> torch.optim.Optimizer:
    """Return the experiment's optimizer for a model that is already on its device.

    With `fused` None the experiment chooses the form, or else PyTorch. If `capturable`, the learning rate is
    on the device, where a CUDA graph reads it at every step.
    """
    settings = experiment.optimizer
    if uses_torchao(experiment):
        return torchao_optimizer(list(model.parameters()), experiment)
    kind = settings.kind
    is_fused = kind.has_fused and bool(settings.fused if fused is None else fused)
    parameters = list(model.parameters())
    rate: float | torch.Tensor = settings.learning_rate
    if capturable:
        rate = torch.tensor(settings.learning_rate, device=parameters[0].device)
    shared: dict[str, Any] = {"lr": rate, "weight_decay": settings.weight_decay}
    if is_fused:  # False would mean the form that loops over parameters, not the default
        shared["fused"] = True
    if kind.takes_model:
        return _of_model(model, experiment, shared)
    if kind.has_momentum:
        shared["momentum"] = settings.momentum
    if kind.is_capturable:
        shared["capturable"] = capturable
    made: torch.optim.Optimizer = getattr(torch.optim, kind.class_name)(parameters, **shared)
    # If the scaler skips the first step, fused SGD would use uninitialized memory as its momentum. Zeros give
    # the same update as its usual first step.
    for parameter in parameters if is_fused and settings.momentum else ():
        if parameter.requires_grad:
            made.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return made


def _of_model(model: nn.Module, experiment: Experiment, shared: dict[str, Any]) -> torch.optim.Optimizer:
    settings = experiment.optimizer
    make = getattr(importlib.import_module(settings.kind.library), settings.kind.class_name)
    try:
        return cast(torch.optim.Optimizer, make(model, **shared))
    except ValueError as error:
        but = f"is '{settings.name}', but {experiment.model} has {error}."
        raise setting_error("optimizer.name", but, "Use adamw.", value=settings.name) from None


def no_fused_form(model: nn.Module, device: torch.device) -> str | None:
    """Return the reason why the optimizer cannot be fused, as a short clause. None if it can."""
    if device.type not in _WITH_FUSED_FORMS:
        return f"PyTorch has no fused optimizer for {device.type}"
    if not all(parameter.is_floating_point() for parameter in model.parameters()):
        return "a fused optimizer supports only floating-point parameters"
    return None


class CombinedOptimizer:
    """Several optimizers as one, so that they step and are saved, restored and cleared together."""

    def __init__(self, members: Iterable[torch.optim.Optimizer]) -> None:
        self.members = tuple(members)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.members for group in optimizer.param_groups]

    @property
    def state(self) -> dict[Any, Any]:
        return {key: value for member in self.members for key, value in member.state.items()}

    def zero_grad(self, set_to_none: bool = True) -> None:
        for optimizer in self.members:
            optimizer.zero_grad(set_to_none=set_to_none)

    def step(self) -> None:
        for optimizer in self.members:
            optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the state as of one optimizer. The parameters of all members are numbered consecutively."""
        state: dict[int, Any] = {}
        groups: list[dict[str, Any]] = []
        for first, saved in self._numbered():
            state |= {first + number: values for number, values in saved["state"].items()}
            groups += [
                {**group, "params": [first + number for number in group["params"]]}
                for group in saved["param_groups"]
            ]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore a state returned by `state_dict`."""
        for member, (first, own) in zip(self.members, self._numbered(), strict=True):
            count = sum(len(group["params"]) for group in own["param_groups"])
            numbers = range(first, first + count)
            state = {number - first: saved["state"][number] for number in numbers if number in saved["state"]}
            member.load_state_dict({"state": state, "param_groups": own["param_groups"]})

    def _numbered(self) -> Iterator[tuple[int, dict[str, Any]]]:
        # the number of each member's first parameter, and its state
        first = 0
        for member in self.members:
            saved = member.state_dict()
            yield first, saved
            first += sum(len(group["params"]) for group in saved["param_groups"])


def list_optimizers(made: Any) -> list[Any]:
    """Return the optimizers in the result of a file's `optimizer(model)`."""
    if isinstance(made, Mapping):
        return list(made.values())
    return list(made) if isinstance(made, tuple | list) else [made]


def combine_optimizers(made: Any) -> torch.optim.Optimizer:
    """Return the optimizers of a file's `optimizer(model)` as one, saved and restored as a whole."""
    members = list_optimizers(made)
    return members[0] if len(members) == 1 else CombinedOptimizer(members)  # type: ignore[return-value]
