"""The words of a live run: before it, while it trains, at its end, and when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from engine.experiment.experiment import Precision
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed, Finished, Phase, PhaseName, Summary
from engine.protocol.summary import Energy, RankMemory, RankMetrics
from gui.train.panel import LivePanel, LiveRun
from tests.golden import Golden, words_of

PROBLEM = Problem(
    kind=Kind.OUT_OF_MEMORY, message="The device ran out of memory.", remedy="Lower batch size."
)


ENDED = Summary(
    recipe="channels_last+fused+capture",
    left_out={"compile": "this model has a loop that changes."},
    float32_mode="strict",
    warmup_seconds=48.1,
    compile_seconds=41.0,
    parameters_mib=97.5,
    gradients_mib=97.5,
    activations_mib=1_900.0,
    first_nan_step=1_204,
    paused_seconds=12.5,
    energy=Energy(source="nvml", joules=6_400, seconds=20, steps=100, samples=64_000, idle_watts=60),
    ranks=tuple(
        RankMetrics(
            device=f"cuda:{rank}",
            samples_per_second=speed,
            step_ms=64_000 / speed,
            peak_mib=peak,
            exposed_ms=exposed,
        )
        for rank, (speed, peak, exposed) in enumerate(((640.0, 512.0, 40.0), (500.0, 400.0, 8.0)))
    ),
)


def runs_in(state: str, live: Any) -> list[LiveRun]:
    full, mixed = live.pair()
    match state:
        case "starting":
            run: LiveRun = live.run("bf16")
            run.add(Phase(name=PhaseName.COMPILING, fraction=0.5))
            return [run]
        case "stopped":
            mixed.add(Finished(summary=Summary(steps=126, final_train_loss=0.04), stopped=True))
        case "failed":
            failed: LiveRun = live.run("fp32", live.started(), Failed(problem=PROBLEM))
            failed.set_status("failed", None, PROBLEM)
            return [failed, mixed]
        case "devices":
            memory = RankMemory(mib=(2_048.0, 3_072.0))
            return [full, live.run("fp16", live.started("fp16"), live.samples(1, 50), memory)]
        case "ended":
            plain = live.run(
                "fp32", live.started(), live.samples(1, 20), Finished(summary=Summary(recipe="plain"))
            )
            return [plain, live.run("fp16", live.started("fp16", devices=2), Finished(summary=ENDED))]
        case "gauges":
            columns = {
                "gpu_utilization_percent": (97.0,) * 50,
                "power_watts": (1_012.4,) * 50,
                "temperature_celsius": (61.0,) * 50,
                "data_wait_ms": (0.5,) * 50,
                "tensor_activity_percent": (41.6,) * 50,
                "sm_activity_percent": (88.0,) * 50,
                "clock_mhz": (1_410.0,) * 50,
                "slowdown": (5.0,) * 50,
            }
            return [live.run("fp32", live.started(step={"recipe": "fast"}), live.samples(1, 50, **columns))]
    return [full, mixed]


@pytest.mark.parametrize("state", ["starting", "pair", "stopped", "failed", "devices", "gauges", "ended"])
def test_the_words_of_runs(panel: LivePanel, live: Any, golden: Golden, state: str) -> None:
    panel.set_runs(runs_in(state, live))
    panel.open_details()
    golden(words_of(panel), state)


def test_the_words_before_a_run(panel: LivePanel, golden: Golden) -> None:
    panel.set_offer("What does BF16 AMP gain?", "It trains twice.", [(Precision.FP32, "FP32")])
    before = words_of(panel)
    panel.set_pilot("Pilot of cell 2")
    golden(f"{before}\n\n---\n\n{words_of(panel)}", "before")
