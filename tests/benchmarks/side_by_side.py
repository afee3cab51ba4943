"""Compare arms that alternate in one process; as a script, the engine's plain loop over a loop by hand.

    uv run python tests/benchmarks/side_by_side.py [--rounds 60] [--steps 20] [--model resnet18]
        [--precision bf16] [--seconds 300]

The script trains the small CNN on 28x28 images and ResNet-18 on 32x32 images on a CPU, in alternating
stretches of about half a second. A ratio of 1 means that the engine costs nothing. On a GPU, `tests/gpu/day`
measures the same.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TypeVar, get_args

import numpy as np
import torch
from by_hand import Format, Workload, guides_stretches
from numpy.typing import NDArray

from engine.experiment.experiment import Experiment, experiment_from
from engine.protocol.events import Finished, Samples
from engine.protocol.jobs import Control
from engine.training.runs.loop import train

T = TypeVar("T")
Arm = Callable[[], list[float]]
Rounds = list[list[float]]
_AIM = 0.98
_RESAMPLES = 4_000


def within(items: Iterable[T], seconds: float | None) -> Iterator[T]:
    """Yield the first item, and each later one until `seconds` have passed."""
    began = time.monotonic()
    for number, item in enumerate(items):
        if number and seconds is not None and time.monotonic() - began >= seconds:
            return
        yield item


def turns(names: Iterable[str], number: int) -> list[str]:
    """Return the names in the order of round `number`: every other round runs backwards."""
    return list(names) if number % 2 == 0 else list(names)[::-1]


def alternate(arms: Mapping[str, Arm], rounds: int, seconds: float | None = None) -> dict[str, Rounds]:
    """Return the throughput of each arm's blocks, round by round. No later round starts after `seconds`."""
    found: dict[str, Rounds] = {name: [] for name in arms}
    for number in within(range(rounds), seconds):
        for name in turns(arms, number):
            # One arm's compiled code, graphs and memory are none of the next one's.
            torch.compiler.reset()
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            found[name].append(arms[name]())
    return found


def interleave(
    arms: Mapping[str, Iterator[float]], pairs: int, seconds: float | None = None
) -> dict[str, Rounds]:
    """Return the throughput of arms that run at once, a stretch each in turn: for a machine in shared use.

    No later pair starts after `seconds`.
    """
    found: dict[str, Rounds] = {name: [] for name in arms}
    for number in within(range(pairs), seconds):
        for name in turns(arms, number):
            found[name].append([next(arms[name])])
    return found


def ratio(over: Rounds, under: Rounds) -> tuple[float, float, float]:
    """Return the median over rounds of the ratio of the arms' medians, with its bootstrap 95% interval.

    Rounds are resampled, and within each the blocks of either arm.
    """
    rng = np.random.default_rng(0)
    ratios = [np.median(one) / np.median(other) for one, other in zip(over, under, strict=True)]
    chosen = rng.integers(len(over), size=(_RESAMPLES, len(over)))
    drawn = np.empty(chosen.shape)
    for number, (one, other) in enumerate(zip(over, under, strict=True)):
        places = chosen == number
        count = int(np.count_nonzero(places))
        drawn[places] = _drawn_medians(one, count, rng) / _drawn_medians(other, count, rng)
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return float(np.median(ratios)), float(low), float(high)


def _drawn_medians(blocks: Sequence[float], count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    medians: NDArray[np.float64] = np.median(rng.choice(blocks, size=(count, len(blocks))), axis=1)
    return medians


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median of the values with its bootstrap 95% interval."""
    drawn = np.random.default_rng(0).choice(values, size=(_RESAMPLES, len(values)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return float(np.median(values)), float(low), float(high)


def speed(rounds: Rounds) -> float:
    """Return the samples per second: the median over rounds of each round's median."""
    return float(np.median([np.median(blocks) for blocks in rounds]))


def print_heading(device: torch.device) -> None:
    threads = f"CPU, {torch.get_num_threads()} threads"
    title = torch.cuda.get_device_name(device) if device.type == "cuda" else threads
    print(f"{title}, torch {torch.__version__}")
    print(f"{'ratio':<64}{'median':>8}{'95% interval':>18}{'aim':>10}")


def print_ratio(title: str, over: Rounds, under: Rounds, aim: float | None) -> None:
    middle, low, high = ratio(over, under)
    shown = "" if aim is None else f">= {aim:g}"
    print(f"{title:<64}{middle:>8.3f}{f'{low:.3f} to {high:.3f}':>18}{shown:>10}", flush=True)


def print_spreads(title: str, values: Mapping[str, Sequence[float]], digits: int = 2) -> None:
    """Print a table with the median, the 95th percentile and the largest of each row's values."""
    print(f"{title:<44}{'median':>10}{'95th':>10}{'largest':>10}")
    for name, one in values.items():
        spread = "".join(f"{value:>10.{digits}f}" for value in np.percentile(one, (50, 95, 100)))
        print(f"{name:<44}{spread}", flush=True)


def engine(workload: Workload, recipe: str, experiment: Experiment | None = None) -> list[float]:
    """Return the throughput of each block of the engine's loop under a recipe, or of `experiment` instead.

    Times are those of the samples, so all that the engine does between two steps counts. The loop trains
    longer than its own warm-up, because that ends before compiling and capturing are done.
    """
    measured = workload.warmup + workload.steps
    ends: list[float] = []
    for event in train(experiment or experiment_of(workload, recipe), Control()):
        if isinstance(event, Samples):
            ends += event.seconds
        if isinstance(event, Finished):
            for part, reason in event.summary.left_out.items():
                print(f"  {workload}, {recipe}: {part} left out: {reason}", flush=True)
    samples = workload.block * workload.batch_size
    marks = ends[workload.warmup - 1 : measured : workload.block]
    return [samples / (end - begin) for begin, end in itertools.pairwise(marks)]


def engine_stretches(workload: Workload, recipe: str) -> Generator[float, None, None]:
    """Yield the samples per second of the engine's loop on a CPU, in stretches of at least a block.

    Between two stretches the loop stands still after it has sent its samples.
    """
    steps, begun = 0, time.perf_counter()
    for event in train(experiment_of(workload, recipe), Control()):
        if not isinstance(event, Samples):
            continue
        steps += len(event.step)
        if steps >= workload.block:
            if event.step[-1] > workload.warmup:
                yield steps * workload.batch_size / (time.perf_counter() - begun)
            steps, begun = 0, time.perf_counter()


def experiment_of(workload: Workload, recipe: str) -> Experiment:
    """Return the workload as an experiment of one epoch, without validation."""
    steps = workload.warmup + workload.steps
    return experiment_from(
        {
            "model": workload.model,
            "dataset": "synthetic",
            "image_size": workload.image_size,
            "num_classes": workload.num_classes,
            "samples": steps * workload.batch_size,
            "precision": workload.precision,
            "batch_size": workload.batch_size,
            "steps": steps,
            "device": str(workload.device),
            "measure": {"warmup_steps": workload.warmup // 2, "block_steps": workload.block},
            "step": {"recipe": recipe},
            "validation": {"every": 0},
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--steps", type=int, default=20, help="of each round")
    parser.add_argument("--model")
    parser.add_argument("--precision", choices=get_args(Format), default="fp32")
    parser.add_argument("--seconds", type=float, help="no round starts after so many")
    options = parser.parse_args()
    steps, rounds, device = options.steps, options.rounds, torch.device("cpu")
    print_heading(device)
    # Twice as many as are asked for: the engine's stretches end where it sends its samples.
    length = 2 * steps * rounds
    for model in (options.model,) if options.model else ("small-cnn", "resnet18"):
        batch, size, warmup = (64, 28, 20) if model == "small-cnn" else (16, 32, 10)
        warmup = min(warmup, steps)
        workload = Workload(model, batch, size, 10, options.precision, device, length, warmup, block=steps)
        with closing(engine_stretches(workload, "plain")) as ours, closing(guides_stretches(workload)) as own:
            found = interleave({"engine": ours, "by hand": own}, rounds, options.seconds)
            print_ratio(f"{workload}: plain / by hand", found["engine"], found["by hand"], _AIM)


if __name__ == "__main__":
    main()
