"""Runs and comparisons as tables for people and as values for programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from engine.cli import output
from engine.cli.saved import _row as row_of
from engine.cli.train import show, variants
from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import Evidence
from engine.compare.requirement import Judgement
from engine.experiment.experiment import Experiment, Precision
from engine.store.record import RunRecord
from tests.golden import Golden

Make = Callable[..., RunRecord]
Capture = pytest.CaptureFixture[str]
FP32, BF16 = Experiment(), Experiment(precision=Precision.BF16)


def test_a_disturbed_run_says_so_beside_its_speed(record: Make) -> None:
    note = "other programs used 51% of the CPU"
    runs = (record(1, FP32, samples_per_second=speed, speed_note=note) for speed in (487.0, None))
    assert [output.run_outcome(run) for run in runs] == ["487 img/s, unreliable", "finished"]


def test_the_metrics_that_apply_stand_in_groups_with_their_units(
    record: Make, capsys: Capture, golden: Golden
) -> None:
    speed = {"samples_per_second": 1_663.4, "samples_per_second_ci": (1_600.0, 1_700.0), "step_ms": 38.5}
    output.run_summary(record(1, FP32, **speed, peak_allocated_mib=3_174.4, skipped_steps=3))
    output.line()
    times = {"warmup_seconds": 12.34, "compile_seconds": 8.0, "capture_seconds": 0.5, "paused_seconds": 60.0}
    accuracy = {"final_validation_accuracy": 0.5, "best_validation_accuracy": 0.612, "best_epoch": 2}
    parts = ("parameters", "gradients", "optimizer_state", "activations", "other")
    memory = {f"{part}_mib": 97.5 * place**2 for place, part in enumerate(parts)}
    gpu = {"gpu_utilization_percent": 98.6, "power_watts": 612.4, "temperature_celsius": 64.0}
    known = times | accuracy | memory | gpu
    known |= {
        "recipe": "channels_last+fused",
        "left_out": {"capture": "only CUDA devices support CUDA graphs"},
    }
    known |= {"float32_mode": "tf32", "data_wait_fraction": 0.032, "first_nan_step": 1_200}
    known |= {"clock_mhz": 1_980.0, "other_programs_mib": 2_048.0, "speed_note": "It was too short"}
    output.run_summary(record(2, FP32, **known))
    output.run_summary(record(3, Experiment(model="net.py", dataset="own")))
    golden(capsys.readouterr().out, "summaries")


def test_a_name_never_commands_the_terminal(record: Make, capsys: Capture) -> None:
    run = replace(record(1, FP32), name="\x1b[2Jgone\x07" + "x" * 500)
    output.table(["Id"] * 5, [row_of(run, lambda _: Judgement(()))])
    shown = capsys.readouterr().out
    assert "gone" in shown and not {"\x1b", "\x07"} & set(shown)
    assert len(shown.splitlines()) < 20


def compared(*runs: RunRecord) -> Comparison:
    return compare([Evidence(run, np.ones(9), ()) for run in runs], None)


@pytest.fixture
def two_sides(record: Make) -> Callable[[int], list[RunRecord]]:
    """Makes repeats of FP32, then as many of a side labeled AMP."""

    def make(repeats: int) -> list[RunRecord]:
        return [
            record(
                2 * seed + place,
                experiment.model_copy(update={"seed": seed}),
                label=label,
                comparison="c",
                samples_per_second=speed + step * seed,
                final_validation_accuracy=0.8 + (2 * seed + place) / 1_000,
            )
            for place, (label, experiment, speed, step) in enumerate(
                (("FP32", FP32, 900.0, 10), ("AMP", BF16, 1_500.0, 20))
            )
            for seed in range(repeats)
        ]

    return make


def test_the_baseline_comes_first_whichever_ran_first(two_sides, capsys):
    base, other = two_sides(1)
    show(compared(other, base))
    assert capsys.readouterr().out.startswith("Baseline: FP32")
    assert [one["label"] for one in variants(compared(other, base))] == ["FP32", "AMP"]


def test_three_sides_are_a_ranking(record, two_sides, capsys, golden):
    busy = {"samples_per_second": 2_000.0, "speed_note": "other programs used 69% of the CPU"}
    disturbed = record(9, Experiment(precision=Precision.FP16), comparison="c", label="FP16", **busy)
    comparison = compared(*two_sides(3), disturbed)
    show(comparison)
    told = [(one["rank"], one["clean"], one["spoiled"]) for one in variants(comparison)]
    assert told == [(2, True, False), (1, True, False), (None, False, True)]
    golden(capsys.readouterr().out, "ranking")


def test_what_speaks_against_a_figure_is_told_once(record, two_sides, capsys):
    unknown = record(3, Experiment(precision=Precision.FP16), comparison="c", label="FP16")
    show(compared(*two_sides(1), unknown))
    assert capsys.readouterr().out.count("FP16 AMP has no measured throughput.") == 1


def test_a_program_reads_the_documented_keys(two_sides):
    base, other = variants(compared(*two_sides(2)))
    assert list(other) == [
        "label", "ids", "speedup", "speedup_ci", "memory_ratio", "accuracy_delta", "clean", "spoiled",
        "verdict", "rank",
    ]  # fmt: skip
    assert base["label"] == "FP32" and other["label"] == "AMP"
    assert (base["speedup"], base["speedup_ci"], base["accuracy_delta"]) == (1.0, None, 0.0)
    low, high = other["speedup_ci"]
    assert low < other["speedup"] < high
    assert other["accuracy_delta"] == pytest.approx(0.001)
    assert other["memory_ratio"] is None and other["clean"] is True
    assert variants(compared(*two_sides(1)))[1]["speedup_ci"] is None
