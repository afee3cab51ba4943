"""The words of a comparison: a single run, pairs, repeats with an interval, and unreliable ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.protocol.summary import RankMetrics
from engine.store.record import RunRecord
from tests.golden import Golden, words_of

Trained = Callable[..., RunRecord]
BUSY = "other programs used 34% of the CPU during the run"
STATES = (
    "one",
    "pair",
    "repeats",
    "alike",
    "disturbed",
    "no-speed",
    "optimizations",
    "devices",
    "many",
    "required",
)


def runs_in(state: str, trained: Trained) -> list[RunRecord]:
    def repeats(*speeds: tuple[float, float]) -> list[RunRecord]:
        return [
            trained(precision, speed, settings={"seed": seed}, **more)
            for seed, pair in enumerate(speeds)
            for precision, speed, more in zip(("fp32", "fp16"), pair, (accuracy, less), strict=True)
        ]

    accuracy = {"final_validation_accuracy": 0.613, "peak_allocated_mib": 10_240.0}
    less = {"final_validation_accuracy": 0.6, "peak_allocated_mib": 5_120.0}
    match state:
        case "one":
            return [trained("fp32", 800.0, **accuracy)]
        case "repeats":
            return repeats((800.0, 1_600.0), (804.0, 1_610.0), (799.0, 1_590.0))
        case "alike":
            return repeats((800.0, 805.0), (830.0, 760.0), (770.0, 840.0))
        case "disturbed":
            return [trained("fp32", 800.0, speed_note=BUSY), trained("fp16", 470.0)]
        case "no-speed":
            return [trained("fp32", 800.0), trained("fp16", None, speed_note="too short: only 3 steps")]
        case "optimizations":
            fast = {"step": {"recipe": "fast"}}
            return [
                trained("fp32", 800.0),
                trained("fp32", 1_200.0, settings=fast),
                trained("fp16", 3_000.0, settings=fast),
            ]
        case "required":
            lines = {"": 800.0, " --amp": 1_600.0, " --bf16": 900.0}
            required = {"folder": "nano", "require": "speed >= 1.5, memory <= 0.8"}
            return [
                trained(
                    "fp32",
                    lines[option] + seed,
                    settings={"seed": seed, "command": {"line": f"python train.py{option}", **required}},
                )
                for seed in range(4)
                for option in (lines if seed % 2 == 0 else reversed(lines))
            ]
        case "devices":
            ranks = tuple(
                RankMetrics(device=f"cuda:{rank}", step_ms=40.0, peak_mib=1_024.0 + 100 * rank)
                for rank in range(2)
            )
            return [trained("fp32", 800.0), trained("fp16", 1_600.0, ranks=ranks)]
        case "many":
            return [trained(one, 800.0 + 100 * n) for n, one in enumerate(("fp32", "tf32", "bf16", "fp16"))]
    return [trained("fp32", 800.0, **accuracy), trained("fp16", 1_600.0, **less)]


@pytest.mark.parametrize("state", STATES)
def test_the_words_of_a_comparison(workspace: Any, trained: Trained, golden: Golden, state: str) -> None:
    workspace.show(*runs_in(state, trained))
    golden(words_of(workspace.window), state)
