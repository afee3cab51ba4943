"""Arms measured in one process, alternating, and the ratio of two of them with its interval."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

import numpy as np
import torch
from by_hand import Workload
from numpy.typing import NDArray
from within import within

from engine.experiment.experiment import Experiment, experiment_from
from engine.protocol.events import Finished, Samples
from engine.protocol.jobs import Control
from engine.training.runs.loop import train

Arm = Callable[[], list[float]]
Rounds = list[list[float]]
_RESAMPLES = 4_000


def alternate(arms: Mapping[str, Arm], rounds: int, seconds: float | None = None) -> dict[str, Rounds]:
    """The speeds of each arm's blocks, round by round; every other round runs backwards.

    No round but the first begins after so many seconds.
    """
    found: dict[str, Rounds] = {name: [] for name in arms}
    for number in within(range(rounds), seconds):
        for name in list(arms) if number % 2 == 0 else list(arms)[::-1]:
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
    """The speeds of arms that run at once, a stretch each in turns: for a machine that others use too.

    No pair but the first begins after so many seconds.
    """
    found: dict[str, Rounds] = {name: [] for name in arms}
    for number in within(range(pairs), seconds):
        for name in list(arms) if number % 2 == 0 else list(arms)[::-1]:
            found[name].append([next(arms[name])])
    return found


def ratio(over: Rounds, under: Rounds) -> tuple[float, float, float]:
    """The median over rounds of the ratio of the arms' median speeds, with its bootstrap 95% interval.

    Rounds are drawn anew, and within each the blocks of either arm.
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
    return np.median(rng.choice(blocks, size=(count, len(blocks))), axis=1)


def speed(rounds: Rounds) -> float:
    """Samples per second: the median over rounds of each one's median."""
    return float(np.median([np.median(blocks) for blocks in rounds]))


def print_heading(device: torch.device) -> None:
    title = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {threads()} threads"
    print(f"{title}, torch {torch.__version__}")
    print(f"{'ratio':<64}{'median':>8}{'95% interval':>18}{'aim':>10}")


def print_ratio(what: str, over: Rounds, under: Rounds, aim: float | None) -> None:
    middle, low, high = ratio(over, under)
    shown = "" if aim is None else f">= {aim:g}"
    print(f"{what:<64}{middle:>8.3f}{f'{low:.3f} to {high:.3f}':>18}{shown:>10}", flush=True)


def threads() -> int:
    return torch.get_num_threads()


def engine(workload: Workload, recipe: str, experiment: Experiment | None = None) -> list[float]:
    """The engine's own loop under a recipe, drained as its worker drains it: speeds of its blocks.

    Times are those of its samples, so that all it does between two steps counts. It trains longer than its
    own warm-up, for that ends before compiling and capturing are done. `experiment` is trained in place of
    the workload's own.
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


def engine_stretches(
    workload: Workload, recipe: str, experiment: Experiment | None = None
) -> Generator[float, None, None]:
    """The same loop on a CPU, for as long as it is asked: samples per second of stretches of a block or more.

    Between two stretches the loop stands still where it has told of its last steps. `experiment` is trained
    in place of the workload's own.
    """
    steps, begun = 0, time.perf_counter()
    for event in train(experiment or experiment_of(workload, recipe), Control()):
        if not isinstance(event, Samples):
            continue
        steps += len(event.step)
        if steps >= workload.block:
            if event.step[-1] > workload.warmup:
                yield steps * workload.batch_size / (time.perf_counter() - begun)
            steps, begun = 0, time.perf_counter()


def experiment_of(workload: Workload, recipe: str) -> Experiment:
    """The workload as an experiment of one epoch, without validation."""
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
