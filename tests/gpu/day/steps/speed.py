"""The engine compared with loops by hand on one workload: full and mixed precision, plain and fast.

By hand "plain" is the loop of PyTorch's guides with cuDNN's search off, as the engine's plain recipe has it;
"fast" is channels last, fused, compiled and captured; it compiles the loss with the model, and the engine the
model alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch._dynamo.config
from by_hand import Format, Workload, captured, guides
from side_by_side import Arm, Rounds, alternate, engine, experiment_of, ratio, speed
from torch import nn

from day.figures import FIGURES
from day.work import StepError, Work
from engine.experiment.experiment import Experiment, experiment_from
from engine.training.models.build import build_language_model

_MOST_ROUNDS, _FIRST_SECONDS = 4, 40.0
_SEQUENCE, _VOCABULARY = 512, 32_000


def speeds(work: Work) -> None:
    """Measure the arms of the step's workload, and print the gain of precision and recipe alone."""
    name = work.name.removeprefix("speed ")
    workload = workload_of(name, work)
    half = workload.precision
    with uncompiled_in_rehearsals(work):
        found = measured(work, arms_of(workload))
    print(f"{workload}, samples per second")
    print(f"{'':<20}{'engine':>12}{'by hand':>12}{'ratio':>9}   95% interval")
    for recipe in ("fast", "plain"):
        for precision in (half, "fp32"):
            _tell(work, name, f"{precision} {recipe}", found, is_aimed_at=precision == half)
    for words, over, under in (
        ("precision alone, plain", f"{half} plain", "fp32 plain"),
        ("precision alone, fast", f"{half} fast", "fp32 fast"),
        ("recipe alone, fp32", "fp32 fast", "fp32 plain"),
        (f"recipe alone, {half}", f"{half} fast", f"{half} plain"),
        ("both", f"{half} fast", "fp32 plain"),
    ):
        if found[over] and found[under]:
            print(f"{words:<32}{speed(found[over]) / speed(found[under]):>9.2f}")


def _tell(work: Work, name: str, arm: str, found: Mapping[str, Rounds], *, is_aimed_at: bool) -> None:
    ours, hand = found[arm], found[f"{arm} by hand"]
    count = min(len(ours), len(hand))
    if not count:
        print(f"{arm:<20} not measured on both sides")
        return
    middle, low, high = ratio(ours[:count], hand[:count])
    speeds = f"{speed(ours):,.0f}", f"{speed(hand):,.0f}"
    print(f"{arm:<20}{speeds[0]:>12}{speeds[1]:>12}{middle:>9.3f}   {low:.3f} to {high:.3f}, {count} rounds")
    key = f"{name}-{arm.rpartition(' ')[2]}"
    if is_aimed_at and key in FIGURES:
        detail = f"({low:.3f} to {high:.3f}, {count} rounds; {speeds[0]} and {speeds[1]} samples/s)"
        work.report(key, middle, detail)


class _Flat(nn.Module):
    """Logits of all tokens in one row each, so that a loop for pictures can train it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(tokens)
        return logits.flatten(0, 1)


@dataclass(frozen=True)
class Text(Workload):
    """A language model on drawn tokens; `image_size` is the length of a sequence, and `num_classes` the
    vocabulary."""

    def __str__(self) -> str:
        return f"{self.model}, {self.image_size} tokens, batch {self.batch_size}, {self.precision}"

    def network(self) -> nn.Module:
        return _Flat(build_language_model(self.model, vocabulary=self.num_classes, seed=0)).to(self.device)

    def batches(self, memory_format: torch.memory_format) -> list[tuple[torch.Tensor, torch.Tensor]]:
        generator = torch.Generator(device=self.device).manual_seed(0)
        shape = (self.batch_size, self.image_size + 1)
        drawn = [
            torch.randint(self.num_classes, shape, generator=generator, device=self.device) for _ in range(4)
        ]
        return [(each[:, :-1].contiguous(), each[:, 1:].contiguous().flatten()) for each in drawn]


def experiment_for(workload: Workload, recipe: str) -> Experiment:
    """Return the workload as the engine trains it."""
    found = experiment_of(workload, recipe)
    if not isinstance(workload, Text):
        return found
    text = {"dataset": "synthetic-tokens", "sequence_length": workload.image_size, "image_size": None}
    return experiment_from({**found.model_dump(mode="json"), **text})


def workload_of(name: str, work: Work) -> Workload:
    """Return the workload of that name; in a rehearsal a few steps of a small model."""
    device = torch.device(work.device)
    half: Format = "bf16" if work.is_rehearsal or name == "vit-64" else "fp16"
    if name == "lm-tiny":
        sequence, vocabulary = work.small((_SEQUENCE, _VOCABULARY), (8, 64))
        text = Text("causal-lm-tiny", 8, sequence, vocabulary, half, device, steps=200, warmup=20, block=20)
        return _short(text) if work.is_rehearsal else text
    if work.is_rehearsal:
        return _short(Workload("small-cnn", 4, 28, 10, half, device, steps=0))
    if name == "resnet18-128":
        return Workload("resnet18", 128, 32, 100, half, device, steps=400, warmup=40, block=40)
    model = "vit_b_16" if name == "vit-64" else "resnet50"
    return Workload(model, int(name.rpartition("-")[2]), 224, 1_000, half, device, steps=60)


def _short(workload: Workload) -> Workload:
    return replace(workload, steps=4, warmup=2, block=2)


def arms_of(workload: Workload) -> dict[str, Arm]:
    """By worth: a first round that is cut short has told most."""
    full, half = replace(workload, precision="fp32"), workload.precision
    return {
        f"{half} fast": partial(engine, workload, "fast", experiment_for(workload, "fast")),
        f"{half} fast by hand": partial(captured, workload),
        f"{half} plain": partial(engine, workload, "plain", experiment_for(workload, "plain")),
        f"{half} plain by hand": partial(guides, workload, cudnn_benchmark=False),
        "fp32 plain": partial(engine, full, "plain", experiment_for(full, "plain")),
        "fp32 plain by hand": partial(guides, full, cudnn_benchmark=False),
        "fp32 fast": partial(engine, full, "fast", experiment_for(full, "fast")),
        "fp32 fast by hand": partial(captured, full),
    }


@contextmanager
def uncompiled_in_rehearsals(work: Work) -> Iterator[None]:
    """A compiler takes longer than all that is rehearsed."""
    with torch._dynamo.config.patch(disable=work.is_rehearsal):
        yield


def measured(work: Work, arms: Mapping[str, Arm]) -> dict[str, Rounds]:
    """Round by round, every other one backwards, until the time is over. Raises StepError where every arm
    broke."""
    found: dict[str, Rounds] = {name: [] for name in arms}
    took: dict[str, float] = {}
    for number in range(work.small(_MOST_ROUNDS, 1)):
        for name in list(arms) if number % 2 == 0 else list(arms)[::-1]:
            if not work.has_time(took.get(name, _FIRST_SECONDS) + 10, f"round {number + 1} of {name}"):
                continue
            began = time.monotonic()
            try:
                rounds = alternate({name: arms[name]}, 1)[name]
            except Exception as error:
                if work.is_rehearsal:
                    raise
                # the other arms are measured all the same
                print(
                    f"  round {number + 1}: {name} BROKE: {type(error).__name__}: {str(error)[:300]}",
                    flush=True,
                )
                continue
            took[name] = time.monotonic() - began
            found[name] += rounds
            words = f"{speed(rounds):>12,.0f} samples/s in {took[name]:>5.0f} s"
            print(f"  round {number + 1}: {name:<22}{words}", flush=True)
    if not any(found.values()):
        raise StepError("every arm broke")
    return found
