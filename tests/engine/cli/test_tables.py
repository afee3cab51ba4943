"""What a person reads of runs: every figure with its unit."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest

from engine.cli import output
from engine.experiment.experiment import Experiment, Precision
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
    note = "other programs took 51 % of the processor meanwhile"
    quiet = finished(1, "FP32", Precision.FP32, samples_per_second=487.0)
    busy = finished(2, "FP32", Precision.FP32, samples_per_second=102.0, speed_note=note)
    output.run_summary(quiet)
    assert "Not clean" not in capsys.readouterr().out
    output.run_summary(busy)
    assert f"the run was disturbed: {note}" in " ".join(capsys.readouterr().out.split())
    output.runs_table([quiet, busy])
    shown = capsys.readouterr().out
    assert shown.count("not clean") == 1 and "102, not clean" in shown


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
        "Speed          1,663 samples/s (1,600 to 1,700 within this run)",
        "Step time      38.5 ms",
        "Training time  7.70 s",
        "Peak memory    3.10 GiB allocated",
        "Accuracy       61.2 %",
        "Skipped steps  3",
        "Steps          94",
        "Finished; saved as 000000000001.",
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
        left_out={"capture": "only CUDA devices capture"},
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
        "Speed          none",
        "Not clean      the run shared the GPU: other programs held 2.0 GiB of its memory",
        "Training time  0 s",
        "Accuracy       50.0 % (best 61.2 % after epoch 2)",
        "NaN loss       since step 1,200",
        "Steps          94",
        "",
        "How it trained",
        "Recipe               channels_last+fused",
        "Left out             capture: only CUDA devices capture",
        "Products in float32  TF32",
        "Waiting for data     3.2 % of the time",
        "Warm-up              12.3 s, of which compiling 8.0 s and capturing 0.5 s",
        "Paused               60.0 s, not counted in any other figure",
        "",
        "Memory of a step",
        "Parameters       98 MiB",
        "Gradients        98 MiB",
        "Optimizer state  195 MiB",
        "Activations      5.4 GiB",
        "Other            0 MiB",
        "",
        "GPU",
        "Utilisation     99 %",
        "Power           612 W",
        "Temperature     64 °C at most",
        "Clock           1,980 MHz",
        "Other programs  2.0 GiB at most",
        "",
        "Finished; saved as 000000000001.",
    ]


def test_a_run_without_a_speed_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    output.run_summary(finished(1, "FP32", Precision.FP32, speed_note="it was too short"))
    assert "none: it was too short" in capsys.readouterr().out


def test_memory_below_a_gib_is_told_in_mib(capsys: pytest.CaptureFixture[str]) -> None:
    run = finished(1, "FP32", Precision.FP32, peak_resident_mib=13.5)
    output.run_summary(run)
    output.runs_table([run])
    shown = capsys.readouterr().out
    assert "13.5 MiB resident" in shown and "Peak memory, MiB" in shown


def test_a_name_never_commands_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output.runs_table([dataclasses.replace(FP32, name="\x1b[2Jgone\x07" + "x" * 500)])
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
