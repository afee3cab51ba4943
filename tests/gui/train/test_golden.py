"""The words of a live run: before it, while it trains, at its end, and when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from engine.experiment.experiment import Precision
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed, Finished, Phase, PhaseName, Summary
from engine.protocol.summary import RankMemory
from gui.train.panel import LivePanel, LiveRun
from tests.golden import Golden, words_of

PROBLEM = Problem(
    kind=Kind.OUT_OF_MEMORY, message="The device ran out of memory.", remedy="Lower batch size."
)


def runs_in(state: str, live: Any) -> list[LiveRun]:
    full, mixed = live.pair()
    match state:
        case "starting":
            run: LiveRun = live.run("bf16")
            run.take(Phase(name=PhaseName.COMPILING, fraction=0.5))
            return [run]
        case "stopped":
            mixed.take(Finished(summary=Summary(steps=126, final_train_loss=0.04), stopped=True))
        case "failed":
            failed: LiveRun = live.run("fp32", live.started(), Failed(problem=PROBLEM))
            failed.set_status("failed", None, PROBLEM)
            return [failed, mixed]
        case "devices":
            memory = RankMemory(mib=(2_048.0, 3_072.0))
            return [full, live.run("fp16", live.started(), live.samples(1, 50), memory)]
        case "gauges":
            columns = {
                "gpu_utilization_percent": (97.0,) * 50,
                "power_watts": (1_012.4,) * 50,
                "temperature_celsius": (61.0,) * 50,
                "data_wait_ms": (0.5,) * 50,
            }
            return [live.run("fp32", live.started(), live.samples(1, 50, **columns))]
    return [full, mixed]


@pytest.mark.parametrize("state", ["starting", "pair", "stopped", "failed", "devices", "gauges"])
def test_the_words_of_runs(panel: LivePanel, live: Any, golden: Golden, state: str) -> None:
    panel.set_runs(runs_in(state, live))
    panel.open_details()
    golden(words_of(panel), state)


def test_the_words_before_a_run(panel: LivePanel, golden: Golden) -> None:
    panel.set_offer("What does BF16 AMP gain?", "It trains twice.", [(Precision.FP32, "FP32")])
    before = words_of(panel)
    panel.set_pilot("Pilot of cell 2")
    golden(f"{before}\n\n---\n\n{words_of(panel)}", "before")
