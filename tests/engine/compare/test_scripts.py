"""Scripts are named by their commands, compared as they ran, and described by what was seen of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.compare.comparison import Comparison, compare, learned_worse
from engine.compare.evidence import Evidence
from engine.compare.failure import failure_of
from engine.compare.ranking import headline, quiet_clauses
from engine.compare.sides import sides_of
from engine.compare.verdict import join_pieces
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, Problem
from engine.export.report.metrics import metrics_sections
from engine.store.record import RunRecord
from engine.store.saved.forecasts import Forecasts
from tests.records import record_of, script_run

PLAIN, AMP = "python train.py", "python train.py --amp"
SEEN: dict[str, Any] = {"batch_size": 12, "optimizer": "AdamW"}
AUTOCAST: dict[str, Any] = {"autocast": "bfloat16", "layers": {"bfloat16": 0.96, "float32": 0.04}}


def compared(*runs: RunRecord) -> Comparison:
    return compare([Evidence(run, np.empty(0), ()) for run in runs])


def pair(
    mine: dict[str, Any] | None = None, theirs: dict[str, Any] | None = None, repeats: int = 3
) -> Comparison:
    """The plain script and that with autocast, in turns; `mine` and `theirs` change what was seen."""
    runs: list[RunRecord] = []
    for repeat in range(repeats):
        base, amp = {**SEEN, **(theirs or {})}, {**SEEN, **AUTOCAST, **(mine or {})}
        figures = {
            "samples_per_second": 84.3 + 0.1 * repeat,
            "step_ms": 142.4,
            "peak_allocated_mib": 10_000.0,
        }
        loss = 6.12 + 0.01 * repeat
        runs.append(script_run(2 * repeat, PLAIN, observed=base, final_train_loss=loss, **figures))
        figures = {"samples_per_second": 136.5 + 0.1 * repeat, "step_ms": 87.9, "peak_allocated_mib": 7_100.0}
        narrow = Precision.BF16
        amp_run = script_run(
            2 * repeat + 1, AMP, precision=narrow, observed=amp, final_train_loss=loss, **figures
        )
        runs.append(amp_run)
    return compared(*runs)


def doubts(comparison: Comparison) -> list[str]:
    return [doubt.sentence for doubt in comparison.reports[1].doubts]


@pytest.mark.parametrize(
    ("runs", "titles"),
    [
        ([script_run(1, PLAIN), script_run(2, AMP)], ["train.py", "train.py --amp"]),
        # a repeat that waits belongs to those that were observed
        ([script_run(1, PLAIN, observed=SEEN), script_run(2, PLAIN)], ["train.py"]),
        # what was seen does not make another side
        ([script_run(1, AMP, observed=SEEN), script_run(2, AMP, observed=AUTOCAST)], ["train.py --amp"]),
        (
            [
                script_run(1, "old/bin/python train.py", observed=SEEN, torch="2.10"),
                script_run(2, "new/bin/python train.py", observed=SEEN, torch="2.15"),
            ],
            ["torch 2.10", "torch 2.15"],
        ),
        (
            [script_run(1, PLAIN, folder="/code/old"), script_run(2, PLAIN, folder="/code/new")],
            ["train.py, old", "train.py, new"],
        ),
        (
            [script_run(1, PLAIN, steps=120), script_run(2, PLAIN, steps=220)],
            ["train.py, 120 steps", "train.py, 220 steps"],
        ),
    ],
)
def test_sides_are_the_commands(runs: list[RunRecord], titles: list[str]) -> None:
    assert [side.title for side in sides_of(runs)] == titles


def test_the_headline_says_speed_memory_and_loss() -> None:
    comparison = pair()
    (report,) = comparison.ranked
    lines = [join_pieces(line) for line in headline(report)]
    assert lines == [
        "train.py --amp trained 1.62 times as fast as train.py,",
        "in 71% of the memory, with the same loss",
    ]
    assert report.split is None and report.side.precision is Precision.BF16
    assert comparison.baseline.title == "train.py" and not report.doubts


def test_without_repeats_both_losses_are_given() -> None:
    assert "with 6.120 vs. 6.120 loss" not in pair(repeats=1).reports[1].text
    assert "with a loss of 6.120 vs. 6.120 at the end" in pair(repeats=1).reports[1].text


def test_what_was_seen_is_a_row_where_it_differs_and_else_one_line() -> None:
    comparison = pair()
    (section,) = metrics_sections(comparison)
    rows = {str(row[0]): [getattr(cell, "value", cell) for cell in row[1:]] for row in section.rows}
    assert rows["Autocast"] == ["none", "bfloat16"]
    assert rows["Matmuls and convolutions"] == ["–", "96% bfloat16, 4% float32"]
    assert "Loss at the end" in rows and "Training time, s" not in rows
    assert comparison.same == (
        "The same in both: torch 2.15 · no GradScaler · not compiled · batch 12"
        " · 124.3 M parameters in float32 · AdamW"
    )
    assert section.notes == (f"{comparison.same}.",)


def test_a_ranking_has_the_observations_as_columns() -> None:
    third = script_run(
        7, f"{AMP} --compile", observed={**SEEN, "is_compiled": True}, samples_per_second=190.0
    )
    _, further = metrics_sections(compared(*(run for side in pair().sides for run in side.runs), third))
    seen = {row[1].value: str(row[further.headings.index("torch.compile")]) for row in further.rows}
    assert seen == {
        "train.py": "not compiled",
        "train.py --amp": "not compiled",
        "train.py --amp --compile": "compiled",
    }
    assert further.notes[0].startswith("The same in all: torch 2.15 · no GradScaler · batch 12")


@pytest.mark.parametrize(
    ("mine", "theirs", "sentence"),
    [
        (
            {"layers": {"float32": 1.0}},
            {},
            "train.py --amp: autocast(bfloat16) is on, but 0% of the FLOPs of matmuls and convolutions ran in"
            " bfloat16.",
        ),
        (
            {"layers": {}, "is_compiled": True},
            {},
            "train.py --amp: autocast(bfloat16) is on, but the dtypes of compiled layers are unknown.",
        ),
        (
            {"autocast": "float16", "layers": {"float16": 1.0}},
            {},
            "train.py --amp: autocast(float16) is on, but a GradScaler is missing, so small gradients can "
            "underflow to zero.",
        ),
        ({"batch_size": 24}, {}, "The scripts used different batch sizes: 24 vs. 12."),
        (
            {"parameters": {"float32": 120_100_000}},
            {},
            "The scripts trained different models: 120.1 M vs. 124.3 M parameters.",
        ),
    ],
)
def test_what_makes_scripts_unlike_is_a_caution(
    mine: dict[str, Any], theirs: dict[str, Any], sentence: str
) -> None:
    assert doubts(pair(mine, theirs)) == [sentence]


@pytest.mark.parametrize(
    ("mine", "theirs", "unit", "speed", "step"),
    [
        (12, 12, "samples/s", True, True),
        (24, 12, "samples/s", True, False),
        (None, None, "steps/s", True, True),
        (None, 12, "samples/s", False, False),
    ],
)
def test_only_what_counts_the_same_has_a_ratio(
    mine: int | None, theirs: int | None, unit: str, speed: bool, step: bool
) -> None:
    comparison = pair({"batch_size": mine}, {"batch_size": theirs})
    cells = comparison.cells(comparison.ranked[0].side.id)
    assert comparison.metrics[0].metric.unit == unit
    assert (cells["samples_per_second"].ratio is not None, cells["step_ms"].ratio is not None) == (
        speed,
        step,
    )


def test_a_line_begins_with_a_file_name_as_it_is_written() -> None:
    comparison = pair({"batch_size": None})
    clauses = quiet_clauses(comparison, comparison.ranked[0])
    assert clauses[:2] == (
        "One counts samples, and the other steps, because its batch size is unknown",
        "train.py --amp trained in 71% of the memory, with the same loss (6.130 vs. 6.130, within the"
        " variation between runs)",
    )


def test_a_script_has_neither_seeds_nor_settings_of_a_model() -> None:
    keys = [row.key for row in pair().all_settings]
    assert keys[:4] == ["precision", "steps", "device", "measure.warmup_steps"]
    assert [row.key for row in pair().settings] == ["precision", "command.line"]


def test_a_script_and_a_model_are_different_trainings() -> None:
    model = record_of(1, Experiment(), samples_per_second=100.0)
    comparison = compared(model, script_run(2, PLAIN, observed=SEEN, samples_per_second=90.0))
    (report,) = comparison.ranked
    assert report.verdict.kind == "no-speed" and report.split is None
    assert [side.title for side in comparison.sides] == ["FP32", "train.py"]
    assert f"Different models: train.py vs. {Experiment().model}." in doubts(comparison)


def test_memory_of_a_process_is_no_reason_to_doubt() -> None:
    run = script_run(1, PLAIN, observed=SEEN, samples_per_second=9.0, peak_resident_mib=900.0)
    assert compared(run).reports[0].doubts == ()


def test_a_single_script_says_what_was_seen() -> None:
    run = script_run(1, AMP, observed={**SEEN, **AUTOCAST}, samples_per_second=9.0, peak_allocated_mib=1.0)
    assert compared(run).reports[0].text == (
        "train.py --amp trained at 9.00 samples/s. The observer saw bfloat16 autocast, no GradScaler, not"
        " compiled, batch 12, 124.3 M parameters in float32, AdamW and matmul FLOPs 96% in bfloat16 and 4% in"
        " float32."
    )


@pytest.mark.parametrize("kind", [Kind.OUT_OF_MEMORY, Kind.WORKER_DIED, Kind.DISK_FULL, Kind.NOT_A_NUMBER])
def test_no_remedy_changes_a_setting_of_a_script(tmp_path: Path, kind: Kind) -> None:
    run = dataclasses.replace(
        script_run(1, PLAIN, observed=SEEN), problem=Problem(kind=kind, message="It failed.", remedy="Look.")
    )
    failure = failure_of([run], Forecasts(tmp_path), None)
    assert failure is not None
    assert [remedy.words for remedy in failure.remedies] == ["Try again"]
    # the problem says after which step
    assert failure.tried == ()


def test_lists_name_the_script() -> None:
    before, after = script_run(1, AMP), script_run(2, AMP, observed=SEEN)
    for run in (before, after):
        assert (run.title, run.side, run.model_name) == ("train.py --amp", "train.py --amp", "train.py")
        assert run.overview.dataset == ""
    assert (before.overview.batch_size, after.overview.batch_size) == (0, 12)


def test_the_interval_of_a_step_counts_the_samples_that_it_had() -> None:
    speed = {"samples_per_second": 480.0, "samples_per_second_ci": (400.0, 600.0), "step_ms": 100.0}
    comparison = compared(script_run(1, PLAIN, observed=SEEN, **speed))
    assert comparison.cells(comparison.baseline.id)["step_ms"].interval == (80.0, 120.0)


@pytest.mark.parametrize(("loss", "aside"), [(6.1, "variation between runs unknown"), (6.0, "within")])
def test_a_fixed_seed_shows_no_variation(loss: float, aside: str) -> None:
    runs = [script_run(run, PLAIN, observed=SEEN, final_train_loss=6.0) for run in (1, 3)]
    runs += [script_run(run, AMP, observed=SEEN, final_train_loss=loss) for run in (2, 4)]
    comparison = compared(*runs)
    (report,) = comparison.ranked
    assert aside in report.text and not learned_worse(report, comparison.cells(report.side.id))
