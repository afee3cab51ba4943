"""FP8 over BF16, compiled, alternating: large linear layers in tensorwise scaling, and a language model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

import torch
from side_by_side import Arm, alternate, engine, ratio, speed
from torch import nn

from day.steps.speed import Text, experiment_for, uncompiled_in_rehearsals
from day.work import Work
from engine.experiment.experiment import Precision
from engine.experiment.settings import Step
from engine.training.models.tensor_cores import convert, linear_layers
from engine.training.precision import autocast

_SIZES, _TOKENS = (4_096, 8_192), 8_192
_LAYERS, _CALLS, _BLOCKS = 4, 10, 5
_RECIPE = "fused+compile"


def fp8(work: Work) -> None:
    """Measure layers of two sizes, forward and backward, then full steps of a model with large layers."""
    device = torch.device(work.device)
    with uncompiled_in_rehearsals(work):
        for size in _SIZES:
            sizes = work.small((size, _TOKENS), (32, 16))
            arms = {
                name: partial(_linear_speeds, name, *sizes, device, is_rehearsal=work.is_rehearsal)
                for name in ("fp8", "bf16")
            }
            _tell(work, f"fp8-{size}", arms, rounds=3, seconds=60)
        text = Text("causal-lm-1b", 4, 1_024, 32_000, "bf16", device, steps=40, warmup=10, block=8)
        if work.is_rehearsal:
            text = Text("causal-lm-tiny", 2, 16, 64, "bf16", device, steps=4, warmup=2, block=2)
        asked = experiment_for(text, _RECIPE)
        arms = {
            name: partial(engine, text, _RECIPE, asked.model_copy(update={"precision": Precision(name)}))
            for name in ("fp8", "bf16")
        }
        _tell(work, "fp8-lm", arms, rounds=2, seconds=150)


def _linear_speeds(
    name: str, size: int, tokens: int, device: torch.device, *, is_rehearsal: bool
) -> list[float]:
    """Return the tokens per second of forward and backward passes through square layers and a small head."""
    torch.manual_seed(0)
    square = (nn.Linear(size, size, bias=False) for _ in range(_LAYERS))
    model = nn.Sequential(*square, nn.Linear(size, 16)).to(device)
    if name == "fp8":
        step = Step(fp8_recipe="tensorwise")
        layers = linear_layers(model, step, {}, is_emulated=is_rehearsal)
        assert sum(layer.reason is None for layer in layers) == _LAYERS or is_rehearsal
        convert(model, layers, step, device, is_emulated=is_rehearsal)
    called = model if is_rehearsal else torch.compile(model, dynamic=False)
    inputs = torch.randn(tokens, size, device=device, requires_grad=True)

    def wait() -> float:
        if not is_rehearsal:
            torch.cuda.synchronize(device)
        return time.perf_counter()

    speeds = []
    for calls in (1, *[1 if is_rehearsal else _CALLS] * _BLOCKS):
        began = wait()
        for _ in range(calls):
            with autocast(Precision.FP8, device):
                loss = called(inputs).float().square().mean()
            loss.backward()
        speeds.append(calls * tokens / (wait() - began))
    return speeds[1:]


def _tell(work: Work, key: str, arms: Mapping[str, Arm], *, rounds: int, seconds: float) -> None:
    """Report the ratio of the arms if `seconds`, the length of a first round, are left."""
    if not work.has_time(seconds, key):
        return
    began = time.monotonic()
    found = alternate(arms, work.small(rounds, 1), work.left - seconds)
    middle, low, high = ratio(found["fp8"], found["bf16"])
    speeds = " and ".join(f"{speed(each):,.0f}" for each in found.values())
    taken = f"{len(found['fp8'])} rounds in {time.monotonic() - began:.0f} s"
    work.report(key, middle, f"({low:.3f} to {high:.3f}, {taken}; {speeds}/s)")
