"""The sentence of a sweep and the clauses below it, for each way in which a sweep can end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.compare.metrics import LOSS, SPEED
from engine.compare.verdict import join_pieces
from engine.experiment.sweep import Axis, Plan, grid_of
from engine.sweep.results import CellResult, Results
from engine.sweep.words import best_ratio, not_reached, notes_of, pieces_of
from tests.sweeps import small_results

PRECISION, BATCH = (
    Axis(key="precision", values=("fp32", "bf16")),
    Axis(key="batch_size", values=(32, 64, 128)),
)
FAILED: dict[str, Any] = {"status": "failed"}
NAN: dict[str, Any] = {"values": {SPEED.name: 1.0, LOSS.name: float("nan")}}
NO_FIT: dict[str, Any] = {"status": "excluded", "does_not_fit": True}
BUSY: dict[str, Any] = {"is_disturbed": True, "is_ratio_disturbed": True}


def results_with(speeds: dict[int, float], changes: dict[int, dict[str, Any]], *axes: Axis) -> Results:
    """Return results in which these cells are done, and the others wait unless they are changed."""
    grid = grid_of({"steps": 60}, axes or (PRECISION, BATCH))
    cells = []
    for cell in grid.cells:
        known = CellResult(cell.index, cell.places, grid.name(cell.places), "waiting")
        if cell.index in speeds:
            known = replace(known, status="done", run_ids=("run",), values={SPEED.name: speeds[cell.index]})
        cells.append(replace(known, **changes.get(cell.index, {})))
    return Results(grid, tuple(cells), (replace(SPEED, unit="img/s"),), memory_mib=24 * 1024.0)


ALL = {0: 500.0, 1: 600.0, 2: 650.0, 3: 800.0, 4: 1_200.0, 5: 1_300.0}


@pytest.mark.parametrize(
    ("results", "sentence", "notes"),
    [
        (
            results_with(ALL, {}),
            "BF16 AMP at batch 128 is the fastest: 1,300 img/s, 2.00 times the best of FP32, which is 650 at "
            "batch 128",
            ("Above batch 64 little is gained: 1,200 is 92% of the best",),
        ),
        (
            results_with({**ALL, 3: 100.0, 4: 200.0, 5: 325.0}, {}),
            "FP32 at batch 128 is the fastest: 650 img/s, 2.00 times the best of BF16 AMP, which is 325 at "
            "batch 128",
            ("Above batch 64 little is gained: 600 is 92% of the best",),
        ),
        (
            results_with({0: 500.0, 3: 800.0}, {}),
            "BF16 AMP at batch 32 is the fastest so far: 800 img/s, 1.60 times the best of FP32, which is "
            "500 at batch 32",
            ("2 of 6 combinations finished",),
        ),
        (
            results_with({3: 800.0, 4: 850.0}, {0: NO_FIT, 1: NO_FIT, 2: NO_FIT, 5: NO_FIT}),
            "BF16 AMP at batch 64 is the fastest: 850 img/s",
            ("Above batch 32 little is gained: 800 is 94% of the best", "4 of 6 do not fit into 24.0 GiB"),
        ),
        (
            results_with(ALL, {5: BUSY, 2: BUSY}),
            "BF16 AMP at batch 64 is the fastest: 1,200 img/s, 2.00 times the best of FP32, which is 600 at "
            "batch 64",
            ("2 were disturbed and are not ranked",),
        ),
        (
            results_with(ALL, dict.fromkeys(range(6), BUSY)),
            "No throughput is reliable: other programs, heat or power limits disturbed all combinations",
            ("Run again on a quiet machine",),
        ),
        (
            results_with(ALL, dict.fromkeys(range(6), NAN)),
            "The loss diverged in all combinations, so no throughput counts",
            ("The loss diverged in FP32, batch size 32 and 5 more combinations",),
        ),
        (results_with({}, {}), "No combination has finished yet", ("0 of 6 combinations finished",)),
        (
            results_with({}, dict.fromkeys(range(6), NO_FIT)),
            "No combination fits into 24.0 GiB",
            ("6 of 6 do not fit into 24.0 GiB",),
        ),
        (
            results_with(ALL, {index: {"values": {}} for index in range(6)}),
            "No throughput was measured: the runs have too few steps",
            (),
        ),
        (
            results_with({}, dict.fromkeys(range(6), FAILED)),
            "No combination could be trained",
            ("6 failed",),
        ),
        (
            results_with({0: 500.0, 1: 600.0, 2: 1_000.0}, {}, BATCH),
            "Batch 128 is the fastest: 1,000 img/s, 2.00 times batch 32, which is 500",
            (),
        ),
        (
            results_with({0: 500.0, 1: 900.0}, {}, Axis(key="step.recipe", values=("plain", "fast"))),
            "Fast is the fastest: 900 img/s, 1.80 times plain, which is 500",
            (),
        ),
    ],
)
def test_the_answer(results: Results, sentence: str, notes: tuple[str, ...]) -> None:
    assert (join_pieces(pieces_of(results)), notes_of(results)) == (sentence, notes)


def test_cells_that_are_less_certain_than_requested_are_named() -> None:
    results = small_results()
    assert not [*not_reached(Plan(), results), *not_reached(Plan(precision_percent=4), results)]
    (clause,) = not_reached(Plan(precision_percent=2), results)
    assert clause.startswith("Not within 2%: “BF16 AMP, batch size 32, learning rate 0.001”, “BF16")
    assert clause.count("”") == 5


def test_the_ratio_of_a_sweep_is_of_the_best_to_the_best() -> None:
    assert best_ratio(small_results()) == pytest.approx(1.8)
    assert best_ratio(results_with({3: 800.0}, {})) is None
    assert best_ratio(results_with({0: 500.0}, {})) == 1.0
