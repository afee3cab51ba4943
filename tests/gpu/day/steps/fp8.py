"""FP8 over BF16, compiled, in turns: large linear layers in torchao's fastest scaling, a language model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

import fp8_linear
import torch
from side_by_side import Arm, alternate, engine, ratio, speed

from day.steps.speed import Text, experiment_for, uncompiled_in_rehearsals
from day.work import Work
from engine.experiment.experiment import Precision

_SIZES, _TOKENS = (4_096, 8_192), 8_192
_RECIPE = "fused+compile"


def fp8(work: Work) -> None:
    """Layers of two sizes, forward and both gradients; then whole steps of a model whose layers are large."""
    device = torch.device(work.device)
    with uncompiled_in_rehearsals(work):
        for size in _SIZES:
            sizes = work.small((size, _TOKENS), (32, 16))
            arms = {
                name: partial(fp8_linear.speeds, scaling, *sizes, device, compiled=not work.is_rehearsal)
                for name, scaling in (("fp8", "tensorwise"), ("bf16", None))
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


def _tell(work: Work, key: str, arms: Mapping[str, Arm], *, rounds: int, seconds: float) -> None:
    """Tells the ratio of the arms where so many seconds, those of a first round, are left."""
    if not work.has_time(seconds, key):
        return
    began = time.monotonic()
    found = alternate(arms, work.small(rounds, 1), work.left - seconds)
    middle, low, high = ratio(found["fp8"], found["bf16"])
    speeds = " and ".join(f"{speed(each):,.0f}" for each in found.values())
    taken = f"{len(found['fp8'])} rounds in {time.monotonic() - began:.0f} s"
    work.tell(key, middle, f"({low:.3f} to {high:.3f}, {taken}; {speeds}/s)")
