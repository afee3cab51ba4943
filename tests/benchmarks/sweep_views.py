"""How long the views of a sweep take with many cells: the pictures, the table, and its filter.

    QT_QPA_PLATFORM=offscreen python tests/benchmarks/sweep_views.py [--cells 1000] [--repeats 2]

The heat map shows all cells at once. "Shown" is from the results to the painted view, at the first time and
again, as after every turn of a sweep in progress; the aims are 300 ms for the heat map and 50 ms for a key
typed into the filter.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

from PySide6.QtWidgets import QWidget

from engine.experiment.repeats import Plan
from engine.experiment.sweep import Axis, Grid, grid_of
from engine.protocol.events import Environment, Summary
from engine.store.record import RunRecord, Status
from engine.store.saved.sweeps import CellRecord, SweepRecord
from engine.sweep.results import Results, results_of
from gui.sweep.chart_view import ChartView, HeatMapView, LinesView, ScatterView
from gui.sweep.panel import CellsView
from gui.window.app import make_application

_SIZE = (1_120, 680)
_TYPED = "128 0.0 done"
_BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
_PICTURES: dict[str, type[ChartView]] = {
    "heat map": HeatMapView,
    "lines": LinesView,
    "scatter": ScatterView,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    make_application([])
    record = _record(options.cells, options.repeats)
    began = time.perf_counter()
    results = results_of(record)
    print(
        f"{len(results.cells):,} cells of {options.repeats} runs: {_ms(time.perf_counter() - began)} to read"
    )
    for name, make in _PICTURES.items():
        view = make()
        _print(f"{name} shown", [_shown(view, results)])
        _print(f"{name} shown again", [_shown(view, results)])
        view.deleteLater()
    table = CellsView()
    _print("table shown", [_shown(table, results)])
    _print("filter, a key at a time", list(_typing(table)))
    table.deleteLater()


def _shown(view: ChartView | CellsView, results: Results) -> float:
    view.resize(*_SIZE)
    return _timed(view, lambda: view.show_results(results))


def _typing(view: CellsView) -> Iterator[float]:
    for end in range(1, len(_TYPED) + 1):
        yield _timed(view, partial(view.filter.setText, _TYPED[:end]))


def _timed(view: QWidget, do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    view.grab()
    return time.perf_counter() - began


def _record(cells: int, repeats: int) -> SweepRecord:
    """A sweep of about so many cells over batch sizes and learning rates."""
    rows = max(1, math.isqrt(cells))
    while cells % rows:
        rows -= 1
    grid = grid_of(
        {"steps": 60},
        [
            Axis(key="batch_size", values=tuple(8 * (place + 1) for place in range(cells // rows))),
            Axis(key="optimizer.learning_rate", values=tuple((place + 1) / 10_000 for place in range(rows))),
        ],
    )
    dice = random.Random(0)
    return SweepRecord(
        id="5" * 12,
        number=1,
        created=_BEGUN,
        name="Many cells",
        grid=grid,
        plan=Plan(repeats=repeats),
        device_name="A card",
        comparison="c" * 12,
        spent_seconds=0.0,
        ended=_BEGUN,
        problem=None,
        is_claimed=False,
        cells=tuple(_cell(grid, index, repeats, dice) for index in range(grid.size)),
    )


def _cell(grid: Grid, index: int, repeats: int, dice: random.Random) -> CellRecord:
    # one in twenty cells does not fit, and one in twenty still waits
    left_out = "" if dice.random() < 0.95 else "It will not fit."
    runs = () if left_out or dice.random() < 0.05 else range(1, repeats + 1)
    return CellRecord(
        index,
        left_out=left_out,
        is_held=False,
        pilot=None,
        problem=None,
        runs=tuple(_run(grid, index, repeat, dice) for repeat in runs),
    )


def _run(grid: Grid, index: int, repeat: int, dice: random.Random) -> RunRecord:
    experiment = grid.cells[index].experiment
    begun = _BEGUN + timedelta(minutes=index + grid.size * repeat)
    speed = 50.0 * math.sqrt(experiment.batch_size) * dice.uniform(0.9, 1.1)
    return RunRecord(
        id=f"{index + grid.size * repeat:012x}",
        number=index + grid.size * repeat,
        name=f"Run {index}",
        status=Status.FINISHED,
        created=begun,
        started=begun,
        ended=begun,
        experiment=experiment.model_copy(update={"seed": repeat}),
        environment=Environment(
            device_name="A card",
            device_memory_mib=24_576,
            torch="2.11",
            python="3.12",
            os="Linux",
            ammeter="0.1",
        ),
        summary=Summary(
            steps=60,
            recipe="plain",
            samples_per_second=speed,
            samples_per_second_ci=(0.98 * speed, 1.02 * speed),
            peak_allocated_mib=300.0 + 4.0 * experiment.batch_size,
            final_validation_accuracy=dice.uniform(0.6, 0.9),
            final_train_loss=dice.uniform(0.2, 0.8),
        ),
        problem=None,
        detail="",
        comparison="c" * 12,
        label=None,
        total_steps=60,
    )


def _print(what: str, seconds: list[float]) -> None:
    longest = f", {_ms(max(seconds))} at most" if len(seconds) > 1 else ""
    print(f"  {what}: {_ms(statistics.median(seconds))}{longest}")


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f} ms"


if __name__ == "__main__":
    main()
