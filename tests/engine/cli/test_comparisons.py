"""What a person and a program read of a comparison: ratios beside the figures, intervals, and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from engine.cli.train import show, variants
from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import Evidence
from engine.experiment.experiment import Experiment, Precision, Step
from engine.protocol.events import Summary
from engine.store.record import RunRecord, Status

BF16 = Precision.BF16


def finished(number: int, label: str, speed: float | None, **settings: Any) -> RunRecord:
    return RunRecord(
        id=f"{number:012x}",
        number=number,
        name=f"Run {number}",
        status=Status.FINISHED,
        created=datetime(2026, 1, 1, tzinfo=UTC),
        started=None,
        ended=None,
        experiment=Experiment(**settings),
        environment=None,
        summary=Summary(
            samples_per_second=speed,
            step_ms=64_000 / speed if speed else None,
            final_validation_accuracy=0.8 + number / 1_000,
        ),
        problem=None,
        detail="",
        comparison="c",
        label=label,
        total_steps=94,
    )


def compared(runs: Sequence[RunRecord], baseline: str | None = None) -> Comparison:
    return compare([Evidence(run, np.ones(9), ()) for run in runs], baseline)


def two_sides(repeats: int) -> list[RunRecord]:
    speeds = [(900.0 + 10 * seed, 1_500.0 + 20 * seed) for seed in range(repeats)]
    runs = [finished(2 * seed, "FP32", speed, seed=seed) for seed, (speed, _) in enumerate(speeds)]
    return runs + [
        finished(2 * seed + 1, "AMP", speed, seed=seed, precision=BF16)
        for seed, (_, speed) in enumerate(speeds)
    ]


def test_a_person_reads_values_ratios_intervals_and_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    show(compared(two_sides(3)))
    shown = capsys.readouterr().out.splitlines()
    start = shown.index("")
    assert shown[start + 1].split() == ["FP32", "BF16", "AMP"]
    assert shown[start + 2].split() == [
        "Throughput,",
        "img/s",
        "910",
        "1,520",
        "(1.67×,",
        "1.66",
        "to",
        "1.68)",
    ]
    assert shown[start + 3].split() == ["Step", "time,", "ms", "70.3", "42.1", "(0.60×)"]
    assert (
        shown[0] == "FP32 is the baseline. It trained 910 samples a second and reached an accuracy of 80.2 %."
    )
    assert shown[1].startswith("BF16 AMP trained 1.67 times as fast as FP32 (95 % interval")
    assert shown[-1] == "BF16 AMP saved as 000000000001, 000000000003, 000000000005."
    assert not any("caution" in line for line in shown)


def test_the_baseline_comes_first_in_the_table_whichever_ran_first(capsys):
    base, other = two_sides(1)
    show(compared([other, base]))
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("FP32 is the baseline")
    assert shown[shown.index("") + 1].split() == ["FP32", "BF16", "AMP"]


def test_what_speaks_against_a_figure_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [*two_sides(1), finished(3, "FP16", None, precision=Precision.FP16)]
    show(compared([*runs, finished(4, "TF32", 1.0, precision=Precision.TF32, on_nan="stop")]))
    shown = capsys.readouterr().out
    assert shown.count("“Run 3” (FP16 AMP) has no speed.") == 1


def test_a_disturbed_measurement_is_told_before_its_figures_and_marked_in_them(capsys):
    base, slow = two_sides(1)
    assert slow.summary is not None
    note = "other programs took 69 % of the processor meanwhile"
    disturbed = replace(slow, summary=slow.summary.model_copy(update={"speed_note": note}))
    comparison = compared([base, disturbed])
    show(comparison)
    shown = capsys.readouterr().out
    lead = f"Not a clean measurement. “Run 1” (BF16 AMP) was disturbed: {note}."
    assert shown.splitlines()[1].startswith(lead)
    assert shown.count(note) == 1 and shown.count("(1.67×, not clean)") == 1
    assert [one["spoiled"] for one in variants(comparison)] == [False, True]


def test_a_program_reads_the_documented_keys() -> None:
    base, other = variants(compared(two_sides(2)))
    assert list(other) == [
        "label", "ids", "speedup", "speedup_ci", "memory_ratio", "accuracy_delta", "clean", "spoiled",
        "verdict",
    ]  # fmt: skip
    assert base["label"] == "FP32" and other["label"] == "AMP"
    assert (base["speedup"], base["speedup_ci"], base["accuracy_delta"]) == (1.0, None, 0.0)
    low, high = other["speedup_ci"]
    assert low < other["speedup"] < high
    assert other["accuracy_delta"] == pytest.approx(0.001)
    assert other["memory_ratio"] is None and other["clean"] is True


def test_with_one_repeat_a_program_reads_no_interval() -> None:
    assert variants(compared(two_sides(1)))[1]["speedup_ci"] is None


def test_the_verdict_for_a_program_tells_the_split_and_what_is_not_clean() -> None:
    base, _ = two_sides(1)
    fast = finished(7, "fast", 5_000.0, precision=BF16, step=Step(recipe="fast", clip_norm=1.0))
    verdict = variants(compared([base, fast]))[1]
    assert verdict["clean"] is False
    assert verdict["verdict"].endswith(
        "With caution: Unlike the baseline in clip gradient norm: 1 against none."
    )
