"""Model files with one planted fault each: what makes the first NaN or Inf that does harm, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import with_code
from engine.protocol.numerics.nonfinite import NonfiniteSearch
from tests.benchmarks.planted_models import MODELS

_HEAD = """
import math
import torch
from torch import nn
from torch.nn import functional as F


class Do(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def dataset():
    torch.manual_seed(0)
    return torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(0, 4, (64,)))

"""


@dataclass(frozen=True)
class Planted:
    """A model file with a fault in `module` and `direction`. Any of `operations` may be named, of `causes`
    said; `settings` are the experiment's that differ."""

    name: str
    text: str
    module: str
    operations: tuple[str, ...]
    causes: tuple[str, ...]
    direction: str = "forward"
    settings: dict[str, Any] = field(default_factory=dict)

    def experiment(self, folder: Path) -> Experiment:
        """A short run of the file, in FP16 on the CPU; the file is written into `folder`."""
        path = folder / "planted.py"
        path.write_text(_HEAD + dedent(self.text), encoding="utf-8")
        asked = {
            "precision": "fp16",
            "device": "cpu",
            "batch_size": 16,
            "samples": 64,
            "steps": 40,
            **self.settings,
            "model": str(path),
        }
        return experiment_from(with_code(asked, names_model=True, names_dataset=False))

    def is_named_by(self, search: NonfiniteSearch) -> bool:
        """Whether the search named the fault."""
        first = search.first
        return (
            first is not None
            and (first.module, first.direction) == (self.module, self.direction)
            and first.operation in self.operations
            and first.cause in self.causes
        )


_OVERFLOW = ("overflow",)


def _planted(name: str, *fault: Any, **more: Any) -> Planted:
    return Planted(name, MODELS[name], *fault, **more)


PLANTED = (
    _planted("a matrix product overflows", "2", ("aten.addmm",), _OVERFLOW),
    _planted("a gradient overflows at any loss scale", "1", ("aten.mul",), _OVERFLOW, "backward"),
    _planted("log of zero", "2", ("aten.log",), ("log of zero",)),
    _planted("a division by a sum of zeros", "1", ("aten.div",), ("division by zero",)),
    _planted(
        "the gradient of a square root at zero",
        "1",
        ("aten.div",),
        ("division by zero", "invalid"),
        "backward",
    ),
    _planted("a denominator that underflows to zero", "1", ("aten.div",), ("division by zero", "overflow")),
    _planted(
        "an FP32 island that gives more than FP16 holds",
        "2",
        ("aten._to_copy",),
        _OVERFLOW,
        settings={"step": {"fp32_modules": "1"}},
    ),
    _planted("an exponential overflows", "1", ("aten.exp",), _OVERFLOW),
    _planted("the variance of a single value", "1", ("aten.std", "aten.var"), ("invalid",)),
    _planted("a softmax over nothing but -Inf", "1", ("aten._softmax",), ("masked",)),
    _planted("a weight that is too large for FP16", "2", ("aten._to_copy",), _OVERFLOW),
    _planted(
        "a learning rate that is too large",
        "1",
        ("aten.addmm", "aten._to_copy"),
        ("weight",),
        settings={"optimizer": {"name": "sgd", "learning_rate": 30.0}},
    ),
    _planted("a batch that is not finite", "", ("batch",), ("input",)),
    _planted(
        "a custom function divides by zero backward", "1", ("aten.rsqrt",), ("division by zero",), "backward"
    ),
    _planted("a recurrent net explodes", "cell", ("aten.mul",), _OVERFLOW),
    _planted("a shared module overflows the second time", "shared", ("aten.addmm",), _OVERFLOW),
    _planted("attention scores overflow", "1", ("aten.mm",), _OVERFLOW),
    _planted("a convolution overflows", "second", ("aten.convolution",), _OVERFLOW),
    _planted("an embedding's norm at zero", "0", ("aten.div",), ("invalid",)),
    _planted("the loss of the file takes a logarithm of zero", "(loss)", ("aten.log",), ("log of zero",)),
)
