"""Model files with one planted fault each, which produces the first harmful NaN or Inf at a known place."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import with_code
from engine.protocol.numerics import NonfiniteSearch

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
    """A model file with a fault in `module` and `direction`, of any of the `operations` and `causes`.

    `settings` are those of the experiment that differ from the others'.
    """

    name: str
    text: str
    module: str
    operations: tuple[str, ...]
    causes: tuple[str, ...]
    direction: str = "forward"
    settings: dict[str, Any] = field(default_factory=dict)

    def experiment(self, folder: Path) -> Experiment:
        """Write the file into `folder`; return a short run of it, in FP16 on the CPU."""
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
        """Return whether the search named the fault."""
        first = search.first
        return (
            first is not None
            and (first.module, first.direction) == (self.module, self.direction)
            and first.operation in self.operations
            and first.cause in self.causes
        )


_MODELS = {
    "a matrix product overflows": """
def model():
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Linear(16, 4))
    nn.init.constant_(net[2].weight, 9_000.0)
    nn.init.constant_(net[0].bias, 3.0)
    return net
""",
    "a gradient overflows at any loss scale": """
class Steep(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient.half() * 30_000.0 * 30_000.0 * 30_000.0

def model():
    return nn.Sequential(nn.Linear(8, 16), Do(Steep.apply), nn.Linear(16, 4))
""",
    "log of zero": """
def model():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), Do(torch.log), nn.Linear(16, 4))
""",
    "a division by a sum of zeros": """
class Share(nn.Module):
    def forward(self, x):
        x = torch.relu(x - 100.0)
        return (x + 1.0) / x.sum(1, keepdim=True)

def model():
    return nn.Sequential(nn.Linear(8, 16), Share(), nn.Linear(16, 4))
""",
    "the gradient of a square root at zero": """
class Distances(nn.Module):
    def forward(self, x):
        return torch.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))

def model():
    return nn.Sequential(nn.Linear(8, 16), Distances(), nn.Linear(16, 4))
""",
    "a denominator that underflows to zero": """
class Normalise(nn.Module):
    def forward(self, x):
        tiny = x.half() * 1e-4
        return x / (tiny * tiny).mean(1, keepdim=True)

def model():
    return nn.Sequential(nn.Linear(8, 16), Normalise(), nn.Linear(16, 4))
""",
    "an FP32 island that gives more than FP16 holds": """
def model():
    net = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4))
    nn.init.constant_(net[1].bias, 100_000.0)
    return net
""",
    "an exponential overflows": """
class Exponential(nn.Module):
    def forward(self, x):
        return torch.exp(x * 100.0)

def model():
    return nn.Sequential(nn.Linear(8, 16), Exponential(), nn.Linear(16, 4))
""",
    "the variance of a single value": """
class Standardise(nn.Module):
    def forward(self, x):
        x = x.mean(1, keepdim=True)
        return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)

def model():
    return nn.Sequential(nn.Linear(8, 16), Standardise(), nn.Linear(1, 4))
""",
    "a softmax over nothing but -Inf": """
class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(8, 8)

    def forward(self, x):
        hidden = torch.zeros(8, dtype=torch.bool, device=x.device).expand(x.shape).clone()
        hidden[3] = True
        return F.softmax(self.score(x).masked_fill(hidden, -math.inf), -1) * x

def model():
    return nn.Sequential(nn.Linear(8, 8), Attend(), nn.Linear(8, 4))
""",
    "a weight that is too large for FP16": """
def model():
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    net[2].weight.data[1, 2] = 1e6
    return net
""",
    "a learning rate that is too large": """
def model():
    return nn.Sequential(nn.Linear(8, 16).requires_grad_(False), nn.Linear(16, 4))

def loss(outputs, targets):
    return (outputs.float() ** 2).mean()
""",
    "a batch that is not finite": """
def dataset():
    torch.manual_seed(0)
    x = torch.randn(64, 8)
    x[40, 3] = math.nan
    return torch.utils.data.TensorDataset(x, torch.randint(0, 4, (64,)))

def model():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
""",
    "a custom function divides by zero backward": """
class Angle(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        x = x.clamp(-1.0, 1.0)
        context.save_for_backward(x)
        return torch.acos(x)

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        return -gradient * torch.rsqrt(1.0 - x * x)

class Bend(nn.Module):
    def forward(self, x):
        return Angle.apply(3.0 * x)

def model():
    return nn.Sequential(nn.Linear(8, 16), Bend(), nn.Linear(16, 4))
""",
    "a recurrent net explodes": """
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, state, x):
        return self.linear(state) * 12.0 + x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = Cell(), nn.Linear(8, 4)

    def forward(self, x):
        state = torch.zeros_like(x)
        for _ in range(30):
            state = self.cell(state, x)
        return self.head(state)

def model():
    return Net()
""",
    "a shared module overflows the second time": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared, self.head = nn.Linear(8, 8), nn.Linear(8, 4)
        nn.init.constant_(self.shared.weight, 150.0)
        nn.init.constant_(self.shared.bias, 150.0)

    def forward(self, x):
        return self.head(self.shared(self.shared(x)))

def model():
    return Net()
""",
    "attention scores overflow": """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)
        nn.init.constant_(self.query.bias, 200.0)
        nn.init.constant_(self.key.bias, 200.0)

    def forward(self, x):
        q, k = self.query(x), self.key(x)
        scores = q @ k.transpose(-1, -2)
        future = torch.ones(len(x), len(x), dtype=torch.bool, device=x.device).triu(1)
        return F.softmax(scores.masked_fill(future, -math.inf), -1) @ x

def model():
    return nn.Sequential(nn.Linear(8, 8), Attention(), nn.Linear(8, 4))
""",
    "a convolution overflows": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(1, 4, 3, padding=1), nn.Conv1d(4, 4, 3, padding=1)
        self.head = nn.Linear(32, 4)
        nn.init.constant_(self.second.weight, 20_000.0)

    def forward(self, x):
        x = torch.sigmoid(self.first(x[:, None]))
        return self.head(self.second(x).flatten(1))

def model():
    return Net()
""",
    "an embedding's norm at zero": """
class Unit(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 8, padding_idx=0)

    def forward(self, x):
        vectors = self.table((x > 1.5).long().argmax(1))
        return vectors / vectors.norm(dim=1, keepdim=True)

def model():
    return nn.Sequential(Unit(), nn.Linear(8, 4))
""",
    "the loss of the file takes a logarithm of zero": """
def model():
    sharp = Do(lambda x: torch.softmax(100.0 * x, -1))
    return nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4), sharp)

def loss(outputs, targets):
    return -torch.log(outputs[torch.arange(len(targets)), targets].half()).mean()
""",
}
_OVERFLOW = ("overflow",)


def _planted(name: str, *fault: Any, **more: Any) -> Planted:
    return Planted(name, _MODELS[name], *fault, **more)


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
