"""How long a sweep is said to take still, once all its cells have a pilot, against how long it took.

    uv run python tests/benchmarks/sweep_time.py [--device cpu] [--grid steps] [--repeats 1]

Grids of 12 cells, each with a fresh worker for its pilot and for its run: `steps` is small-cnn in two
precisions, three batch sizes and two learning rates; `epochs` is the same for whole epochs, with validations;
`models` is three models in two precisions and two batch sizes. The sweep is carried on as the program does.
Printed are the time told after the last pilot, the time that the runs took, and their ratio; beside it the
time told before any pilot, from the saved runs of the grids before.

Aim: within 15%.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from engine.compare.split import MOST_OTHERS
from engine.experiment.repeats import Plan
from engine.experiment.sweep import Axis, Grid, grid_of
from engine.protocol.events import Finished
from engine.store.store import Store
from engine.sweep.estimate import estimate_of, estimate_of_grid
from engine.sweep.order import TurnEnded
from engine.sweep.sweeper import Sweeper
from engine.worker.launcher import Launcher

AIM = 0.15

_TWO = Axis(key="precision", values=("fp32", "bf16"))
_RATES = Axis(key="optimizer.learning_rate", values=(0.001, 0.01))
_BATCHES = Axis(key="batch_size", values=(16, 32, 64))
_SIZES = {"dataset": "synthetic", "image_size": 32}
_BASES: dict[str, dict[str, Any]] = {
    "steps": {**_SIZES, "model": "small-cnn", "samples": 2_048, "steps": 100},
    "epochs": {**_SIZES, "model": "small-cnn", "samples": 512, "epochs": 4},
    "models": {**_SIZES, "samples": 512, "steps": 60},
}
_AXES = {
    "steps": (_TWO, _BATCHES, _RATES),
    "epochs": (_TWO, _BATCHES, _RATES),
    "models": (
        Axis(key="model", values=("small-cnn", "resnet18", "squeezenet1_1")),
        _TWO,
        Axis(key="batch_size", values=(16, 32)),
    ),
}


def grid(name: str, device: str, steps: int | None, cells: int | None) -> Grid:
    base = {**_BASES[name], "device": device}
    if steps is not None:
        base = {key: value for key, value in base.items() if key != "epochs"} | {"steps": steps}
    axes = _AXES[name] if cells is None else [Axis(key="batch_size", values=tuple(range(8, 8 + cells)))]
    return grid_of(base, axes)


def measure(store: Store, launcher: Launcher, grid: Grid, plan: Plan) -> tuple[float | None, float, float]:
    """Seconds told before the first pilot and after the last, and those that the runs then took."""
    before = estimate_of_grid(grid, plan, store.runs(MOST_OTHERS))
    sweeper = Sweeper(store, launcher)
    sweep_id = sweeper.prepare("", grid, plan)
    told, since = 0.0, time.monotonic()
    for event in sweeper.run(sweep_id):
        if isinstance(event, TurnEnded) and event.problem is not None:
            raise SystemExit(event.problem.message)
        if isinstance(event, TurnEnded) and event.turn.kind == "pilot":
            known = estimate_of(store.sweeps.find(sweep_id))
            told, since = known.seconds_left if known is not None else 0.0, time.monotonic()
    assert isinstance(event, Finished)
    return None if before is None else before.seconds_left, told, time.monotonic() - since


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="auto")
    parser.add_argument("--grid", choices=tuple(_BASES))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--steps", type=int, help="of every run")
    parser.add_argument("--cells", type=int, help="batch sizes, in place of the grid's axes")
    options = parser.parse_args()
    print(f"{'grid':8} {'cells':>5} {'before':>9} {'told':>9} {'took':>9}  told/took")
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder, "ammeter.sqlite")) as store:
        for name in (options.grid,) if options.grid else _BASES:
            asked = grid(name, options.device, options.steps, options.cells)
            with Launcher() as launcher:
                before, told, took = measure(store, launcher, asked, Plan(repeats=options.repeats))
            first = "–" if before is None else f"{before:.1f} s"
            aim = "" if abs(told / took - 1) <= AIM else f"  more than {100 * AIM:.0f}% off"
            print(f"{name:8} {asked.size:5} {first:>9} {told:7.1f} s {took:7.1f} s  {told / took:.2f}{aim}")


if __name__ == "__main__":
    main()
