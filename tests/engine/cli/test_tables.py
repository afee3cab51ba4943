"""What a person reads of runs: every figure with its unit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from engine.cli import output
from engine.cli.saved import _row as row_of
from engine.cli.train import show, variants
from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import Evidence
from engine.experiment.experiment import Experiment, Precision, Step
from engine.protocol.events import Summary
from engine.store.record import RunRecord, Status
from engine.words.numbers import times

FP32 = RunRecord(
    id="00000000000a",
    number=1,
    name="Run 1",
    status=Status.FINISHED,
    created=datetime(2026, 1, 1, tzinfo=UTC),
    started=None,
    ended=None,
    experiment=Experiment(),
    environment=None,
    summary=None,
    problem=None,
    detail="",
    comparison=None,
    label="FP32",
    total_steps=94,
)


def finished(number: int, label: str, precision: Precision, **figures: Any) -> RunRecord:
    return dataclasses.replace(
        FP32,
        id=f"{number:012x}",
        number=number,
        label=label,
        experiment=Experiment(precision=precision),
        summary=Summary(steps=94, **figures),
    )


def test_a_disturbed_run_says_so_beside_its_speed(capsys: pytest.CaptureFixture[str]) -> None:
    note = "other programs used 51% of the CPU"
    quiet = finished(1, "FP32", Precision.FP32, samples_per_second=487.0)
    busy = finished(2, "FP32", Precision.FP32, samples_per_second=102.0, speed_note=note)
    output.run_summary(quiet)
    assert "Not clean" not in capsys.readouterr().out
    output.run_summary(busy)
    assert f"the run was disturbed: {note}" in " ".join(capsys.readouterr().out.split())
    assert [row_of(run)[-1] for run in (quiet, busy)] == ["487 img/s", "102 img/s, unreliable"]


def test_a_summary_names_each_figure_that_applies_with_its_unit(capsys: pytest.CaptureFixture[str]) -> None:
    run = finished(
        1,
        "FP16 AMP",
        Precision.FP16,
        samples_per_second=1_663.4,
        samples_per_second_ci=(1_600.0, 1_700.0),
        step_ms=38.5,
        seconds=7.7,
        peak_allocated_mib=3_174.4,
        final_validation_accuracy=0.612,
        skipped_steps=3,
    )
    output.run_summary(run)
    assert capsys.readouterr().out.splitlines() == [
        "Run 1: small-cnn on fashion, FP16 AMP",
        "Speed          1,663 samples/s (1,600 to 1,700 within the run)",
        "Step time      38.5 ms",
        "Training time  7.70 s",
        "Peak memory    3.10 GiB allocated",
        "Accuracy       61.2%",
        "Skipped steps  3",
        "Steps          94",
        "Finished. Saved as 000000000001.",
    ]


def test_the_other_figures_stand_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    run = finished(
        1,
        "FP16 AMP",
        Precision.FP16,
        final_validation_accuracy=0.5,
        best_validation_accuracy=0.612,
        best_epoch=2,
        first_nan_step=1_200,
        recipe="channels_last+fused",
        left_out={"capture": "only CUDA devices support CUDA graphs"},
        float32_mode="tf32",
        data_wait_fraction=0.032,
        warmup_seconds=12.34,
        compile_seconds=8.0,
        capture_seconds=0.5,
        paused_seconds=60.0,
        parameters_mib=97.5,
        gradients_mib=97.5,
        optimizer_state_mib=195.0,
        activations_mib=5_529.6,
        other_mib=0.0,
        gpu_utilization_percent=98.6,
        power_watts=612.4,
        temperature_celsius=64.0,
        clock_mhz=1_980.0,
        other_programs_mib=2_048.0,
    )
    output.run_summary(run)
    assert capsys.readouterr().out.splitlines() == [
        "Run 1: small-cnn on fashion, FP16 AMP",
        "Speed          not measured",
        "Unreliable     the run shared the GPU: other programs used 2.0 GiB of its memory",
        "Training time  0 s",
        "Accuracy       50.0% (best 61.2% after epoch 2)",
        "NaN loss       since step 1,200",
        "Steps          94",
        "",
        "Training",
        "Optimizations     channels_last+fused",
        "Skipped           capture: only CUDA devices support CUDA graphs",
        "FP32 matmul       TF32",
        "Waiting for data  3.2% of the time",
        "Warm-up           12.3 s, of which compiling 8.0 s and capturing 0.5 s",
        "Paused            60.0 s, excluded from all other metrics",
        "",
        "Memory per step",
        "Parameters       98 MiB",
        "Gradients        98 MiB",
        "Optimizer state  195 MiB",
        "Activations      5.4 GiB",
        "Other            0 MiB",
        "",
        "GPU",
        "Utilization     99%",
        "Power           612 W",
        "Temperature     up to 64 °C",
        "Clock           1,980 MHz",
        "Other programs  up to 2.0 GiB",
        "",
        "Finished. Saved as 000000000001.",
    ]


def test_a_run_without_a_speed_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    output.run_summary(finished(1, "FP32", Precision.FP32, speed_note="It was too short"))
    assert "not measured: it was too short" in capsys.readouterr().out


def test_memory_below_a_gib_is_told_in_mib(capsys: pytest.CaptureFixture[str]) -> None:
    run = finished(1, "FP32", Precision.FP32, peak_resident_mib=13.5)
    output.run_summary(run)
    assert "13.5 MiB resident" in capsys.readouterr().out


def test_a_name_never_commands_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["Id"] * 5, [row_of(dataclasses.replace(FP32, name="\x1b[2Jgone\x07" + "x" * 500))])
    shown = capsys.readouterr().out
    assert "gone" in shown and not {"\x1b", "\x07"} & set(shown)
    assert len(shown.splitlines()) < 20


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.886, "1.89"),
        (0.0134, "0.013"),
        (0.0, "0.00"),
        (205.17, "205"),
        (2.3e6, "2,300,000"),
        (3e9, "3.00e9"),
    ],
)
def test_a_ratio_has_the_digits_that_say_something(ratio: float, text: str) -> None:
    assert times(ratio) == text


def test_a_models_own_data_are_no_dataset_named_own(capsys: pytest.CaptureFixture[str]) -> None:
    output.run_summary(dataclasses.replace(FP32, experiment=Experiment(model="net.py", dataset="own")))
    assert "net.py on its own data, FP32" in capsys.readouterr().out


BF16 = Precision.BF16


def side_run(number: int, label: str, speed: float | None, **settings: Any) -> RunRecord:
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
    runs = [side_run(2 * seed, "FP32", speed, seed=seed) for seed, (speed, _) in enumerate(speeds)]
    return runs + [
        side_run(2 * seed + 1, "AMP", speed, seed=seed, precision=BF16)
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
    assert shown[0] == "Baseline: FP32. It trained at 910 samples/s and reached 80.2% accuracy."
    assert shown[1].startswith("BF16 AMP trained 1.67 times as fast as FP32 (95% interval")
    assert shown[-1] == "BF16 AMP saved as 000000000001, 000000000003, 000000000005."
    assert not any("Caution" in line for line in shown)


def test_the_baseline_comes_first_in_the_table_whichever_ran_first(capsys):
    base, other = two_sides(1)
    show(compared([other, base]))
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("Baseline: FP32")
    assert shown[shown.index("") + 1].split() == ["FP32", "BF16", "AMP"]


def test_what_speaks_against_a_figure_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [*two_sides(1), side_run(3, "FP16", None, precision=Precision.FP16)]
    show(compared([*runs, side_run(4, "TF32", 1.0, precision=Precision.TF32, on_nan="stop")]))
    shown = capsys.readouterr().out
    assert shown.count("FP16 AMP has no measured throughput.") == 1


def test_a_disturbed_measurement_is_told_before_its_figures_and_marked_in_them(capsys):
    base, slow = two_sides(1)
    assert slow.summary is not None
    note = "other programs used 69% of the CPU"
    disturbed = replace(slow, summary=slow.summary.model_copy(update={"speed_note": note}))
    comparison = compared([base, disturbed])
    show(comparison)
    shown = capsys.readouterr().out
    lead = f"Unreliable measurement. BF16 AMP was disturbed: {note}."
    assert shown.splitlines()[1].startswith(lead)
    assert shown.count(note) == 1 and shown.count("(1.67×, unreliable)") == 1
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
    fast = side_run(7, "fast", 5_000.0, precision=BF16, step=Step(recipe="fast", clip_norm=1.0))
    verdict = variants(compared([base, fast]))[1]
    assert verdict["clean"] is False
    assert verdict["verdict"].endswith(
        "Caution: Differs from the baseline in clip gradient norm: 1 vs. none."
    )
