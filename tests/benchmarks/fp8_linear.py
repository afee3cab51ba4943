"""FP8 against BF16 in linear layers on a card: a forward and backward pass, compiled and not, alternating.

    uv run python tests/benchmarks/fp8_linear.py [--sizes 4096 8192] [--tokens 8192] [--rounds 5]

The layers are those of a run: square ones and an output layer that stays in BF16. A ratio above 1 means
that FP8 is faster. On a CPU, where FP8 is emulated, it only shows that the script runs.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import get_args

import torch
from side_by_side import alternate, print_heading, print_ratio
from torch import nn

from engine.experiment.experiment import Precision
from engine.experiment.settings import Step
from engine.training.models.fp8 import convert, linear_layers
from engine.training.precision import autocast

LAYERS = 4
RECIPES = get_args(Step.model_fields["fp8_recipe"].annotation)
_CALLS, _BLOCKS = 10, 5


def speeds(
    recipe: str | None, size: int, tokens: int, device: torch.device, *, compiled: bool
) -> list[float]:
    """Tokens a second in forward and backward passes; without a recipe in BF16."""
    torch.manual_seed(0)
    square = (nn.Linear(size, size, bias=False) for _ in range(LAYERS))
    model = nn.Sequential(*square, nn.Linear(size, 16)).to(device)
    if recipe is not None:
        step, is_emulated = Step(fp8_recipe=recipe), device.type == "cpu"
        layers = linear_layers(model, step, {}, is_emulated=is_emulated)
        assert sum(layer.reason is None for layer in layers) == LAYERS or is_emulated
        convert(model, layers, step, device, is_emulated=is_emulated)
    called = torch.compile(model, dynamic=False) if compiled else model
    inputs = torch.randn(tokens, size, device=device, requires_grad=True)

    def once() -> None:
        with autocast(Precision.FP8, device):
            loss = called(inputs).float().square().mean()
        loss.backward()

    def timed() -> float:
        synchronize(device)
        began = time.perf_counter()
        for _ in range(_CALLS):
            once()
        synchronize(device)
        return _CALLS * tokens / (time.perf_counter() - began)

    once()
    return [timed() for _ in range(_BLOCKS)]


def synchronize(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[4_096, 8_192])
    parser.add_argument("--tokens", type=int, default=8_192)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--uncompiled", action="store_true", help="leave the compiler out")
    asked = parser.parse_args()
    device = torch.device(asked.device)
    print_heading(device)
    for size in asked.sizes:
        for compiled in (False,) if asked.uncompiled else (True, False):
            arms = {
                recipe or "bf16": partial(speeds, recipe, size, asked.tokens, device, compiled=compiled)
                for recipe in (None, *RECIPES)
            }
            found = alternate(arms, asked.rounds)
            for recipe in RECIPES:
                how = "compiled" if compiled else "eager"
                aim = 1.25 if compiled and recipe == "tensorwise" else None
                print_ratio(f"{size} x {size}, {how}: {recipe} / BF16", found[recipe], found["bf16"], aim)


if __name__ == "__main__":
    main()
