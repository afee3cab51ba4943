"""A sweep over devices: efficiency, the gain over devices, and the sentences that the figures bear."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from engine.experiment.experiment import Precision
from engine.experiment.sweep import Axis, Grid, Plan, grid_of
from engine.export.kinds.sweep import document
from engine.protocol.summary import RankMetrics
from engine.store.record import RunRecord
from engine.store.saved.sweeps import CellRecord, SweepRecord
from engine.sweep.lines import lines
from engine.sweep.results import EXCHANGE, STRONG, WEAK, CellResult, Results, results_of
from engine.sweep.words import sentences_of
from tests.drawings import texts_of

DEVICES, PRECISION = Axis(key="devices", values=(1, 2, 4)), Axis(key="precision", values=("fp32", "bf16"))
GRID = grid_of({"steps": 60, "device": "cpu"}, [DEVICES, PRECISION])
SPEEDS = {(1, "fp32"): 1_000, (2, "fp32"): 1_900, (4, "fp32"): 3_600, (1, "bf16"): 2_000}
SPEEDS |= {(2, "bf16"): 3_400, (4, "bf16"): 5_600}
BUSY = {"speed_note": "other programs used 40% of the CPU"}
Sweeps = Callable[..., SweepRecord]


@pytest.fixture
def sweep(record: Callable[..., RunRecord]) -> Sweeps:
    """A sweep with the mean speed of every cell by its values, or no run; repeats differ by `spread`."""

    def make(
        speeds: Mapping[tuple[Any, ...], float],
        grid: Grid = GRID,
        spread: float = 0.01,
        repeats: int = 3,
        sent_ms: float | None = None,
        **busy: Mapping[str, object],
    ) -> SweepRecord:
        def runs(index: int, key: tuple[Any, ...]) -> tuple[RunRecord, ...]:
            experiment = grid.cells[index].experiment
            sign = 1 if experiment.precision is Precision.FP32 else -1
            ranks = tuple(
                RankMetrics(device="cpu", step_ms=10.0, communication_ms=sent_ms and sent_ms + rank)
                for rank in range(experiment.devices)
            )
            return tuple(
                record(
                    100 * index + seed,
                    experiment.model_copy(update={"seed": seed}),
                    comparison="c" * 12,
                    samples_per_second=speeds[key] * (1 + sign * spread * (seed - 2)),
                    steps=60,
                    ranks=ranks if experiment.devices > 1 else (),
                    **busy.get(f"cell_{index}", {}),
                )
                for seed in range(1, repeats + 1)
            )

        cells = []
        for cell in grid.cells:
            key = tuple(axis.values[place] for axis, place in zip(grid.axes, cell.places, strict=True))
            cells.append(CellRecord(cell.index, runs=runs(cell.index, key) if key in speeds else ()))
        return SweepRecord(grid, Plan(repeats=repeats), tuple(cells))

    return make


def at(results: Results, name: str) -> CellResult:
    return next(cell for cell in results.cells if cell.name == name)


def test_efficiency_is_the_speed_per_device_against_one(sweep: Sweeps) -> None:
    results = results_of(sweep(SPEEDS))
    shares = {cell.name: round(cell.value(WEAK) or 0, 1) for cell in results.cells}
    assert list(shares.values()) == [100, 100, 95, 85, 90, 70]
    low, high = at(results, "4 devices, BF16 AMP").interval(WEAK) or (0, 0)
    assert low < 70 < high
    assert WEAK in results.figures and STRONG not in results.figures and EXCHANGE not in results.figures


def test_sentences_tell_efficiency_and_the_gain_over_devices(sweep: Sweeps) -> None:
    *_, efficiency, gain, sent, cores = sentences_of(results_of(sweep(SPEEDS, sent_ms=3.0, spread=0.001)))
    assert efficiency == "Scaling efficiency on 4 devices, relative to 1 device: FP32 90.0%, BF16 AMP 70.0%."
    assert gain == "BF16 AMP is 2.00 times as fast as FP32 on 1 device, and 1.56 times on 4 devices."
    assert sent == "BF16 AMP on 4 devices takes 30.0% of a step to synchronize gradients."
    assert cores.startswith("These devices share the cores of one CPU")


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        ({"repeats": 1}, "Without repeats it is unknown whether the two differ."),
        ({(4, "bf16"): 7_150.0}, "Their intervals overlap, so they may be the same."),
    ],
)
def test_a_gain_that_may_be_the_same_is_not_called_another(
    sweep: Sweeps, changes: dict[Any, Any], doubt: str
) -> None:
    repeats = changes.pop("repeats", 3)
    assert doubt in sentences_of(results_of(sweep(SPEEDS | changes, repeats=repeats)))[-2]


def test_nothing_follows_from_a_disturbed_cell_or_its_base(sweep: Sweeps) -> None:
    results = results_of(sweep(SPEEDS, cell_1=BUSY))
    doubtful = [cell.name for cell in results.cells if cell.is_disturbed_in(WEAK)]
    assert doubtful == ["1 device, BF16 AMP", "2 devices, BF16 AMP", "4 devices, BF16 AMP"]
    told = document(sweep(SPEEDS, cell_1=BUSY))
    assert [cell["scaling_clean"] for cell in told.values()["cells"]] == [True, False] * 3
    assert [row["is_scaling_disturbed"] for row in told.tables[""]()] == [False, True] * 3
    said = "\n".join(sentences_of(results))
    assert "4 devices, relative to 1 device: FP32 90.0%." in said and "times on 4 devices" not in said


def test_without_one_device_the_fewest_are_the_base(sweep: Sweeps) -> None:
    results = results_of(sweep({key: speed for key, speed in SPEEDS.items() if key[0] > 1}))
    assert at(results, "2 devices, FP32").value(WEAK) == 100
    assert at(results, "4 devices, FP32").value(WEAK) == pytest.approx(94.7, abs=0.1)
    assert at(results, "1 device, FP32").value(WEAK) is None
    assert any("on 4 devices, relative to 2 devices" in answer for answer in sentences_of(results))


def test_a_precision_without_the_fewest_devices_is_not_told_against_them(sweep: Sweeps) -> None:
    known = {key: speed for key, speed in SPEEDS.items() if key != (1, "fp32")}
    said = sentences_of(results_of(sweep(known)))
    assert "Scaling efficiency on 4 devices, relative to 1 device: BF16 AMP 70.0%." in said


def test_nothing_is_told_against_a_base_that_diverged(sweep: Sweeps) -> None:
    diverged = {"final_train_loss": math.nan}
    said = sentences_of(results_of(sweep(SPEEDS, cell_0=diverged, cell_1=diverged)))
    assert not any("Scaling efficiency" in answer for answer in said)


def test_cells_of_one_global_batch_scale_strongly(sweep: Sweeps) -> None:
    grid = grid_of({"steps": 60, "device": "cpu"}, [DEVICES, Axis(key="batch_size", values=(16, 32, 64))])
    speeds = {(1, 16): 800, (1, 32): 900, (1, 64): 1_000, (2, 32): 1_600, (4, 16): 2_400}
    results = results_of(sweep(speeds, grid))
    strong = {cell.name: cell.value(STRONG) for cell in results.cells if cell.value(STRONG) is not None}
    said = sentences_of(results)
    assert "Scaling efficiency on 4 devices, relative to 1 device, at batch size 16: 75.0%." in said
    assert strong == pytest.approx(
        {"1 device, batch size 64": 100, "2 devices, batch size 32": 80, "4 devices, batch size 16": 60}
    )


def test_a_sweep_without_devices_or_with_one_number_of_them_has_none(sweep: Sweeps) -> None:
    alone = {key: speed for key, speed in SPEEDS.items() if key[0] == 2}
    for record in (sweep(alone), sweep({("fp32",): 1.0, ("bf16",): 2.0}, grid_of({}, [PRECISION]))):
        results = results_of(record)
        assert WEAK not in results.figures
        assert not any("Scaling" in answer for answer in sentences_of(results))


def test_the_picture_has_the_ideal_and_every_format_the_figures(sweep: Sweeps) -> None:
    record = sweep(SPEEDS, sent_ms=3.0)
    drawing = lines(results_of(record), 0, 1, WEAK, (0, 0), (600.0, 380.0)).drawing
    assert "ideal" in texts_of(drawing) and "70.0% at 4" in drawing.description
    known = document(record)
    (section,) = [section for section in known.sections if section.title == "Lines"]
    assert [picture.name for picture in section.pictures] == [
        *("weak-efficiency", "ratio", "exchange-percent", "lines")
    ]
    assert known.values()["cells"][5]["figures"]["weak_efficiency"] == pytest.approx(70)
    row = list(known.tables[""]())[5]
    assert row["weak_efficiency"] == pytest.approx(70) and row["weak_efficiency_low"] < 70
