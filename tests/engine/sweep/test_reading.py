"""A sweep's figures are read as a comparison has them, and every cell says how far it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.compare.comparison import compare
from engine.compare.evidence import Evidence, evidence_from
from engine.compare.metrics import LOSS, PEAK_MEMORY, SPEED
from engine.compare.verdict import join_pieces
from engine.experiment.problem import Kind, Problem
from engine.experiment.sweep import Axis, Grid, Pilot, Plan, grid_of
from engine.store.record import RunRecord, Status
from engine.store.saved.sweeps import CellRecord, SweepRecord
from engine.sweep.chart import RATIO_FIGURE, best_of, default_places
from engine.sweep.heat_map import heat_map
from engine.sweep.results import Results, results_of
from engine.sweep.scatter import pareto_front
from engine.sweep.words import notes_of, pieces_of, sentences_of
from tests.drawings import texts_of
from tests.sweeps import small_grid

GRID = small_grid()
BUSY = {"speed_note": "other programs used 40% of the CPU"}
HOT = {"speed_note": "the card's clocks were held down by heat", "slowed_by": ("heat",)}
PILOT = Pilot(
    steps=5, seconds=3.0, start_seconds=2.0, samples_per_second=500.0, peak_mib=512.0, final_loss=2.0
)
Make = Callable[..., RunRecord]


def sweep(cells: dict[int, CellRecord], repeats: int = 1, grid: Grid = GRID) -> SweepRecord:
    known = tuple(cells.get(index, CellRecord(index)) for index in range(grid.size))
    return SweepRecord(grid, Plan(repeats=repeats), known)


def answer_of(results: Results) -> str:
    return join_pieces(pieces_of(results))


def cell(index: int, *runs: RunRecord, **known: Any) -> CellRecord:
    return CellRecord(index, runs=runs, **known)


@pytest.fixture
def repeats(record: Make) -> Callable[[int, list[float]], tuple[RunRecord, ...]]:
    """Runs of a cell with these speeds, each of a seed of its own."""

    def make(index: int, speeds: list[float], **more: object) -> tuple[RunRecord, ...]:
        experiment = GRID.cells[index].experiment
        return tuple(
            record(
                100 * index + repeat,
                experiment.model_copy(update={"seed": repeat}),
                comparison="c" * 12,
                samples_per_second=speed,
                peak_allocated_mib=2_048.0,
                steps=60,
                **more,
            )
            for repeat, speed in enumerate(speeds, start=1)
        )

    return make


def test_figures_and_ratios_are_those_of_a_comparison(repeats):
    plain, fast = repeats(0, [1_000.0, 1_020.0, 990.0]), repeats(6, [1_810.0, 1_790.0, 1_830.0])
    results = results_of(sweep({0: cell(0, *plain), 6: cell(6, *fast)}, repeats=3))
    evidence: list[Evidence] = [evidence_from(run, (), {}) for run in (*plain, *fast)]
    row = next(row for row in compare(evidence).metrics if row.metric.name == SPEED.name)
    baseline, mine = results.cells[0], results.cells[6]
    assert baseline.value(SPEED) == row.cells[0].value and baseline.ratio == 1.0
    assert mine.value(SPEED) == row.cells[1].value
    assert mine.intervals is not None and mine.intervals[SPEED.name] == row.cells[1].interval
    assert (mine.ratio, mine.ratio_interval) == (row.cells[1].ratio, row.cells[1].ratio_interval)
    assert mine.ratio_interval is not None
    assert mine.value(PEAK_MEMORY) == 2.0
    assert results.figures[0].name == SPEED.name and mine.status == "done" and len(mine.run_ids) == 3
    assert ", 1.80 times as fast (95% interval" in sentences_of(results)[0]


def test_every_cell_says_how_far_it_is(record, repeats):
    full = Problem(kind=Kind.OUT_OF_MEMORY, message="The memory is full.", remedy="Take less.")
    experiment = GRID.cells[0].experiment

    def run(status: Status) -> RunRecord:
        return record(1, experiment, status=status)

    results = results_of(
        sweep(
            {
                0: cell(0, left_out="It needs 30 GiB of 24 GiB, so it does not fit."),
                1: cell(1, problem=full),
                2: cell(2, run(Status.RUNNING)),
                3: cell(3, run(Status.STOPPED)),
                4: cell(4, pilot=PILOT),
                5: cell(5, is_paused=True),
                6: cell(6, *repeats(6, [1_000.0])),
                7: cell(7, *repeats(7, [1_000.0, 1_001.0])),
            },
            repeats=2,
        )
    )
    states = [entry.status for entry in results.cells]
    assert states[:9] == [
        *("excluded", "failed", "running", "stopped", "piloted", "paused", "waiting", "done", "waiting")
    ]
    assert results.cells[1].why == "The memory is full."
    assert [entry.does_not_fit for entry in results.cells[:3]] == [True, True, False]
    # a cell that waits for its second repeat has figures of its first
    assert results.cells[6].value(SPEED) == 1_000.0 and results.cells[6].ratio is None


def test_until_it_has_run_a_cell_has_the_figures_of_its_pilot():
    quick = PILOT.model_copy(update={"samples_per_second": 900.0})
    results = results_of(sweep({0: cell(0, pilot=PILOT), 6: cell(6, pilot=quick)}))
    mine = results.cells[6]
    assert mine.values == {SPEED.name: 900.0, PEAK_MEMORY.name: 0.5, LOSS.name: 2.0}
    assert mine.ratio == 1.8 and mine.ratio_interval is None and not mine.run_ids
    assert [figure.name for figure in results.figures] == [SPEED.name, PEAK_MEMORY.name, LOSS.name]
    assert mine.is_piloted and answer_of(results) == "No combination has finished yet"


def test_pilots_count_images_only_where_there_are_any():
    def unit(base: dict[str, object], *axes: Axis) -> str:
        grid = grid_of(base, (Axis(key="batch_size", values=(32, 64)), *axes))
        return results_of(sweep({0: cell(0, pilot=PILOT)}, grid=grid)).figures[0].unit

    text = {"model": "causal-lm-tiny", "dataset": "python-source"}
    assert unit({}) == "img/s" and unit(text) == "samples/s"
    assert unit({}, Axis(key="dataset", values=("fashion", "arrays"))) == "samples/s"


def test_a_pilot_is_never_the_best(record, repeats):
    quick = PILOT.model_copy(update={"samples_per_second": 9_000.0, "peak_mib": 5.0, "final_loss": None})
    in_training = record(700, GRID.cells[7].experiment, status=Status.RUNNING)
    cells = {
        0: cell(0, *repeats(0, [1_000.0])),
        6: cell(6, pilot=quick),
        7: cell(7, in_training, pilot=quick),
    }
    results = results_of(sweep(cells))
    assert [results.cells[index].is_piloted for index in (0, 6, 7)] == [False, True, True]
    for figure in results.figures:
        assert best_of(results.cells, figure) is results.cells[0]
    assert pareto_front(results.cells, results.figures) == (results.cells[0],)
    assert best_of(results.cells[1:], SPEED) is None and default_places(results, SPEED) == (0, 0, 0)


def test_a_disturbed_cell_is_best_in_no_figure_that_a_disturbance_changes(repeats):
    steady, disturbed = cell(0, *repeats(0, [1_000.0])), cell(6, *repeats(6, [9_000.0], **BUSY))
    results = results_of(sweep({0: steady, 6: disturbed}))
    assert best_of(results.cells, SPEED) is results.cells[0]
    assert best_of(results.cells[1:], RATIO_FIGURE) is None
    assert join_pieces(pieces_of(results)).startswith(
        "FP32 at batch 32, learning rate 0.001 is the fastest so far"
    )
    assert sentences_of(results) == ()
    assert best_of(results.cells[1:], PEAK_MEMORY) is results.cells[6]


def test_a_ratio_to_a_disturbed_baseline_is_no_best_gain(repeats):
    cells = {0: cell(0, *repeats(0, [100.0], **BUSY)), 6: cell(6, *repeats(6, [1_000.0]))}
    results = results_of(sweep(cells))
    assert best_of(results.cells, SPEED) is results.cells[6]
    assert results.cells[6].ratio == 10.0 and best_of(results.cells[1:], RATIO_FIGURE) is None
    shown = heat_map(results, 1, 0, SPEED, (0, 0, 0), (1_000.0, 500.0)).drawing
    assert "1,000" in texts_of(shown) and "10.00×" not in texts_of(shown)


def test_nothing_is_concluded_from_disturbed_cells(repeats):
    slow, fast = cell(0, *repeats(0, [1_000.0], **HOT)), cell(6, *repeats(6, [4_300.0]))
    quiet, faster = cell(1, *repeats(1, [1_000.0])), cell(7, *repeats(7, [1_400.0]))
    results = results_of(sweep({0: slow, 6: fast, 1: quiet, 7: faster}))
    # the fastest is itself undisturbed, but what it gains over a disturbed baseline is not known
    assert join_pieces(pieces_of(results)).startswith(
        "BF16 AMP at batch 32, learning rate 0.001 is the fastest"
    )
    (gain,) = sentences_of(results)
    assert gain.startswith(
        f"The largest gain over FP32 at the same settings is {results.cells[7].name}, 1.40"
    )
    assert "1 was disturbed and is not ranked" in notes_of(results)
    all_hot = results_of(sweep({0: slow, 6: cell(6, *repeats(6, [4_300.0], **HOT))}))
    assert answer_of(all_hot).startswith("No throughput is reliable:")
    assert best_of(all_hot.cells, SPEED) is None and best_of(all_hot.cells, PEAK_MEMORY) is not None
    assert pareto_front(all_hot.cells, (PEAK_MEMORY, SPEED)) == ()
    assert not any("disturbed" in note for note in notes_of(results_of(sweep({1: quiet, 7: faster}))))


def test_a_gain_within_its_interval_of_none_is_doubted(repeats):
    plain = cell(0, *repeats(0, [1_000.0, 1_300.0]))
    slow, unsure = cell(6, *repeats(6, [900.0, 950.0])), cell(6, *repeats(6, [1_400.0, 1_200.0]))
    assert (
        sentences_of(results_of(sweep({0: plain, 6: slow})))[0] == "No combination is faster than with FP32."
    )
    assert "no significant difference" in sentences_of(results_of(sweep({0: plain, 6: unsure})))[0]
