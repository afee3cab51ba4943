"""How many verdicts are right on constructed cases: what bounds a step, each in two sizes.

    uv run python tests/benchmarks/verdicts.py [--device cpu] [--only data] [--steps 400]

The cases are model files, each made to be bound by one thing, and profiled through the whole job on this
device. A CPU copies nothing, so there a recording of a GPU that copies is constructed, and read as any other.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import torch

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import with_code
from engine.profile.verdict import Bound, Verdict, verdict_of
from engine.protocol import jobs
from engine.protocol.jobs import Control
from engine.protocol.profile import Limits, Profiled, StepProfile
from engine.training.profile.bar import step_bar
from engine.training.profile.profile import profile_steps
from tests.engine.training.profile.recorded import Recorded

_NO_LIMITS = Limits(peaks=(), gb_per_second=1.0)
"""What bounds a step does not rest on them."""

_HEAD = """
import time
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset


class Do(nn.Module):
    def __init__(self, function, *inner):
        super().__init__()
        self.function = function
        self.inner = nn.ModuleList(inner)

    def forward(self, inputs):
        return self.function(self.inner, inputs)


def loss(outputs, targets):
    return outputs.mean()

"""


@dataclass(frozen=True)
class Case:
    """A model file that is bound by one of `bounds`; `SIZE` in it is `cpu_size` or `gpu_size`."""

    name: str
    bounds: tuple[Bound, ...]
    text: str
    cpu_size: float
    gpu_size: float

    def experiment(self, device: torch.device, folder: Path, steps: int) -> Experiment:
        size = self.cpu_size if device.type == "cpu" else self.gpu_size
        path = folder / "case.py"
        path.write_text(f"{_HEAD}SIZE = {size:g}\n{dedent(self.text)}", encoding="utf-8")
        asked = {
            "precision": "fp32",
            "device": str(device),
            "batch_size": 16,
            "steps": steps,
            "optimizer": {"name": "sgd", "learning_rate": 1e-6},
            "validation": {"every": 0},
            "model": str(path),
        }
        return experiment_from(with_code(asked, names_model=True, names_dataset=False))


_SLOW_LOADER = """
class Slow(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, place):
        time.sleep(SIZE)
        return torch.zeros(64), 0

def dataset():
    return Slow()

def model():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
"""
_TINY = """
def batch(size):
    return torch.randn(size, 4), torch.zeros(size)

def many(inner, x):
    for layer in inner:
        x = layer(x)
    return x

def model():
    return Do(many, *(nn.Linear(4, 4) for _ in range(int(SIZE))))
"""
_LARGE_PRODUCTS = """
WIDE = int(SIZE)

def batch(size):
    return torch.randn(size, WIDE // 16, WIDE), torch.zeros(size)

def model():
    return nn.Sequential(*(nn.Linear(WIDE, WIDE) for _ in range(4)))
"""
_ELEMENTWISE = """
def batch(size):
    return torch.randn(size, int(SIZE)), torch.zeros(size)

def waves(inner, x):
    x = inner[0](x)
    for _ in range(8):
        x = (x + 1.0).relu() * 0.5
    return x

def model():
    return Do(waves, nn.PReLU())
"""
_COPIES = """
HOST = torch.randn(int(SIZE))

def batch(size):
    return torch.randn(size, 64), torch.zeros(size)

def copied(inner, x):
    return inner[0](x) * HOST.to(x.device).amax()

def model():
    return Do(copied, nn.Linear(64, 64))
"""
_MATRIX = (Bound.MATRIX, Bound.MATRIX_UNITS)
_CASES = tuple(
    Case(f"{name}, {words}", bounds, text, cpu, gpu)
    for name, bounds, text, sizes in (
        ("data", (Bound.DATA,), _SLOW_LOADER, ((1e-3, 1e-3), (3e-3, 3e-3))),
        ("launches", (Bound.HOST,), _TINY, ((20, 50), (100, 200))),
        ("compute", _MATRIX, _LARGE_PRODUCTS, ((512, 4_096), (1_024, 8_192))),
        ("memory", (Bound.MEMORY,), _ELEMENTWISE, ((1e5, 2e6), (4e5, 1e7))),
        ("copies", (Bound.COPIES,), _COPIES, ((0, 3e7), (0, 1e8))),
    )
    for words, (cpu, gpu) in zip(("small", "large"), sizes, strict=True)
)


def profiled(experiment: Experiment) -> StepProfile:
    events = list(profile_steps(jobs.Profile(experiment=experiment, limits=_NO_LIMITS), Control()))
    return next(event.profile for event in events if isinstance(event, Profiled))


def copying_gpu(folder: Path, is_large: bool) -> StepProfile:
    """A recording of steps in which a GPU mostly copies: 5 ms of 8, or 40 of 50."""
    step, copied, product = (50_000.0, 40_000.0, 6_000.0) if is_large else (8_000.0, 5_000.0, 1_000.0)
    recorded = Recorded()
    for begin in (0.0, step, 2 * step):
        recorded.step(begin, begin + step)
        recorded.copy("Memcpy HtoD (Pageable -> Device)", begin + 10, begin + copied, begin, count=10**8)
        recorded.kernel("ampere_sgemm_128x64_tn", begin + copied, begin + copied + product, begin + 20)
    bar = step_bar(recorded.read(folder), step / 1e3, 0.0)
    return StepProfile(
        device_type="cuda",
        steps=3,
        samples=16,
        step_ms=step / 1e3,
        recorded_ms=bar.recorded_ms,
        bar=bar.bar,
        format="fp32",
        matrix_units="Tensor Cores",
    )


def verdicts(device: torch.device, only: str | None, steps: int) -> Iterator[tuple[Case, Verdict]]:
    for case in _CASES:
        if only is not None and not case.name.startswith(only):
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            experiment = case.experiment(device, folder, steps)
            if Bound.COPIES in case.bounds and device.type == "cpu":
                found = copying_gpu(folder, "large" in case.name)
            else:
                found = profiled(experiment)
            yield case, verdict_of(found, experiment)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", choices=("data", "launches", "compute", "memory", "copies"))
    parser.add_argument("--steps", type=int, default=10_000, help="of a run, of which a profile makes a part")
    options = parser.parse_args()
    print(f"{'bound by':<20}{'verdict':<16}{'':<7}sentence")
    right = of = 0
    for case, verdict in verdicts(torch.device(options.device), options.only, options.steps):
        is_right = verdict.bound in case.bounds
        right, of = right + is_right, of + 1
        print(
            f"{case.name:<20}{verdict.bound:<16}{'' if is_right else 'WRONG':<7}{verdict.sentence}",
            flush=True,
        )
    print(f"right: {right} of {of} (aim: at least 9 of 10)")


if __name__ == "__main__":
    main()
