"""A grid and its results, as a sweep of two precisions, three batch sizes and two rates would have them."""

from __future__ import annotations

from engine.compare.metrics import ACCURACY, LOSS, PEAK_MEMORY, SPEED
from engine.experiment.sweep import Axis, Cell, Grid, grid_of
from engine.sweep.results import CellResult, Results


def small_grid() -> Grid:
    """Two precisions, three batch sizes and two learning rates: 12 cells."""
    return grid_of(
        {"steps": 60},
        [
            Axis(key="precision", values=("fp32", "bf16")),
            Axis(key="batch_size", values=(32, 64, 128)),
            Axis(key="optimizer.learning_rate", values=(0.001, 0.01)),
        ],
    )


def small_results() -> Results:
    """Results of `small_grid`: all cells are done but one that does not fit and one that failed."""
    grid = small_grid()
    cells = tuple(_result(grid, cell) for cell in grid.cells)
    return Results(grid, cells, (SPEED, PEAK_MEMORY, ACCURACY, LOSS))


def _result(grid: Grid, cell: Cell) -> CellResult:
    precision, batch, rate = cell.places
    name = grid.name(cell.places)
    if cell.index == 10:
        return CellResult(
            cell.index, cell.places, name, "excluded", why="It needs about 3.1 GiB; 2.0 GiB are free."
        )
    if cell.index == 5:
        return CellResult(cell.index, cell.places, name, "failed", why="The loss became NaN at step 12.")
    ratio = 1.0 if precision == 0 else 1.4 + 0.2 * batch
    speed = 1_000.0 * (1 + 0.3 * batch) * ratio
    values = {
        SPEED.name: speed,
        PEAK_MEMORY.name: (0.4 + 0.4 * batch) * (0.6 if precision else 1.0),
        ACCURACY.name: 85.0 - 2.0 * rate - 0.5 * batch,
        LOSS.name: 0.4 + 0.1 * rate,
    }
    return CellResult(
        cell.index,
        cell.places,
        name,
        "done",
        run_ids=(f"run-{cell.index}-1", f"run-{cell.index}-2"),
        values=values,
        intervals={SPEED.name: (0.98 * speed, 1.02 * speed)},
        ratio=ratio,
        ratio_interval=None if precision == 0 else (0.97 * ratio, 1.03 * ratio),
    )
