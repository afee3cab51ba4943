"""How many of timm's models train here: names drawn at random, in FP32 and in BF16 AMP.

    uv run python tests/benchmarks/timm_models.py [--seed 14] [--count 50] [--steps 20] [--device cpu]
        [--name resnet18]

Each model takes pictures of the smallest size that it can be built for, in batches of two. A model that does
not work is listed with what Ammeter says about it. The aim is 48 of 50.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Iterator, Sequence

import psutil

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.problem import ProblemError
from engine.protocol.events import Finished
from engine.protocol.jobs import Control
from engine.training.failures import problem_of
from engine.training.models.build import build_model
from engine.training.models.libraries import library_entries
from engine.training.models.weightless import Weightless
from engine.training.runs.loop import train

_SIZES = (32, 64, 96, 128, 160, 192, 224, 240, 256, 288, 320, 336, 384, 448, 512)
_BATCH_SIZE, _CHANNELS, _CLASSES = 2, 3, 10
_BYTES_TRAINED = 12  # per parameter: its weight, its gradient, and the optimizer's work on it


def drawn_names(seed: int, count: int) -> list[str]:
    """So many of timm's names, drawn at random."""
    names = [entry.name for entry in library_entries() if entry.family == "timm"]
    return random.Random(seed).sample(names, count)


def smallest_size(name: str) -> tuple[int, int]:
    """The smallest size of picture that the model can be built for, and its parameters.

    Raises ProblemError where there is none, and MemoryError where this machine cannot train the model.
    """
    for size in _SIZES:
        try:
            with Weightless():
                parameters = _parameters(name, size)
        except Exception:  # noqa: BLE001 - what reads its own weights is built in full below
            parameters = 0
        if _BYTES_TRAINED * parameters > psutil.virtual_memory().available:
            raise MemoryError(f"its {parameters / 1e6:,.0f} M parameters are too many for this machine")
        try:
            return size, _parameters(name, size)
        except ProblemError as error:
            if error.problem.key != "image_size" or size == _SIZES[-1]:
                raise
    raise AssertionError("the last size returns or raises")


def _parameters(name: str, size: int) -> int:
    model = build_model(name, image_size=size, channels=_CHANNELS, num_classes=_CLASSES, seed=0)
    return sum(parameter.numel() for parameter in model.parameters())


def trained_loss(experiment: Experiment) -> float:
    """The last loss of a run. Raises whatever ends the run."""
    *_, last = train(experiment, Control())
    assert isinstance(last, Finished) and last.summary.final_train_loss is not None
    return last.summary.final_train_loss


def results(names: Sequence[str], precisions: Sequence[str], steps: int, device: str) -> Iterator[str | None]:
    """A line for each model is printed; yields what is wrong with it, or None."""
    for number, name in enumerate(names, 1):
        began, trouble, told = time.perf_counter(), None, ""
        try:
            size, parameters = smallest_size(name)
            told = f"{size:>4} px {parameters / 1e6:8.1f} M"
            for precision in precisions:
                settings = {
                    "model": name,
                    "dataset": "synthetic",
                    "image_size": size,
                    "num_classes": _CLASSES,
                    "batch_size": _BATCH_SIZE,
                    "samples": _BATCH_SIZE * steps,
                    "steps": steps,
                    "precision": precision,
                    "device": device,
                    "optimizer": {"name": "sgd"},
                    "measure": {"warmup_steps": 1, "block_steps": 1},
                }
                told += f"  {precision} {trained_loss(experiment_from(settings)):.3f}"
        except MemoryError as error:
            trouble = str(error)
        except Exception as error:  # noqa: BLE001 - that is what is asked here
            trouble = problem_of(error).message
        gc.collect()
        seconds = time.perf_counter() - began
        print(f"{number:3} {name:48} {told} {seconds:5.0f} s {trouble or ''}", flush=True)
        yield None if trouble is None else f"{name}: {trouble}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--name", action="append", help="in place of names drawn at random; repeatable")
    chosen = parser.parse_args()
    names = [f"timm:{name}" for name in chosen.name or ()] or drawn_names(chosen.seed, chosen.count)
    print(f"seed {chosen.seed}, {chosen.steps} steps in fp32 and bf16, batch {_BATCH_SIZE}")
    found = list(results(names, ("fp32", "bf16"), chosen.steps, chosen.device))
    print(f"{found.count(None)} of {len(found)} work")


if __name__ == "__main__":
    main()
