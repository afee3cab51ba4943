"""What a report costs: seconds and bytes of each form, of two runs of 100,000 steps.

    uv run python tests/benchmarks/export.py [--steps N] [--sides N] [--form html]

The runs are written as rows, not trained. The first time of a form includes what it loads; `again` does
not. It also says whether `ammeter export` loads Qt or torch.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from engine.experiment.experiment import experiment_from
from engine.export.content import content_of
from engine.export.formats import COMPARISON
from engine.protocol.events import Environment, Finished, Samples, Started, Summary
from engine.store.store import Store

PRECISIONS = ("fp32", "bf16", "fp16", "tf32")
CARD = Environment(
    device_name="a card", device_memory_mib=24_576, torch="2.11", python="3.13", os="Linux", ammeter="0.1"
)
LOADED = """
import sys
from engine.cli import main
code = main(sys.argv[1:])
print(sorted({"torch", "PySide6"} & set(sys.modules)) or "neither", file=sys.stderr)
sys.exit(code)
"""


def fill(store: Store, steps: int, sides: int) -> list[str]:
    """Puts runs into the store, as long as asked for."""
    noise = np.random.default_rng(0)
    return [_run(store, PRECISIONS[side % 4], 64 * (1 + side // 4), steps, noise) for side in range(sides)]


def _run(store: Store, precision: str, batch: int, steps: int, noise: np.random.Generator) -> str:
    experiment = experiment_from({"precision": precision, "batch_size": batch, "steps": steps})
    run = store.add(experiment)
    store.begin(run.id)
    step = np.arange(1, steps + 1)
    speeds = 1_000.0 * (1 + 0.02 * noise.standard_normal(steps))
    seconds = np.cumsum(batch / speeds)
    loss = 1 + np.exp(-5 * step / steps) + 0.1 * noise.standard_normal(steps)
    columns = (step, seconds, loss, speeds, np.full(steps, 0.001))
    samples = Samples.model_validate(
        dict(
            zip(
                ("step", "seconds", "loss", "samples_per_second", "learning_rate"),
                (tuple(column.tolist()) for column in columns),
                strict=True,
            )
        )
    )
    started = Started(
        experiment=experiment,
        environment=CARD,
        total_steps=steps,
        steps_per_epoch=steps,
        parameters=1,
        loss_name="cross-entropy",
        loss_unit="nats",
    )
    summary = Summary(steps=steps, samples_per_second=1_000.0, final_train_loss=1.0)
    store.record(run.id, [started, samples, Finished(summary=summary)])
    return run.id


def timed(store: Store, run_ids: list[str], path: str) -> float:
    """Seconds from the store to the file in its place."""
    began = time.perf_counter()
    COMPARISON.export(content_of(store, run_ids), path, force=True)
    return time.perf_counter() - began


def size_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in path.rglob("*.*"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--sides", type=int, default=2)
    parser.add_argument("--form", choices=[form.name for form in COMPARISON.formats], help="one alone")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "ammeter.sqlite") as store:
        run_ids = fill(store, given.steps, given.sides)
        print(f"{given.sides} runs of {given.steps:,} steps")
        print(f"{'form':<14}{'first s':>9}{'again s':>9}{'KiB':>10}")
        for form in COMPARISON.formats:
            if form.name == "script" or given.form not in (None, form.name):
                continue
            path = f"{folder}/x{form.suffix}" if form.suffix != "/" else f"{folder}/board/"
            first, again = timed(store, run_ids, path), timed(store, run_ids, path)
            print(f"{form.name:<14}{first:>9.2f}{again:>9.2f}{size_of(Path(path)) / 1024:>10,.0f}")
    _say_what_is_loaded()


def _say_what_is_loaded() -> None:
    with tempfile.TemporaryDirectory() as home:
        with Store(Path(home) / "ammeter.sqlite") as store:
            run_ids = fill(store, 100, 2)
        arguments = [sys.executable, "-c", LOADED, "export", *run_ids, "--to", f"{home}/x.html"]
        environment = {"AMMETER_HOME": home, "PYTHONPATH": str(Path.cwd())}
        began = time.perf_counter()
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)
        took = time.perf_counter() - began
    print(f"`ammeter export` as a program: {took:.2f} s; of torch and Qt it loads {done.stderr.strip()}")


if __name__ == "__main__":
    main()
