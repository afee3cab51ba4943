"""Opens the pictures of a run before it starts, so that it meets no broken one midway."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from PIL import Image

from engine.experiment.experiment import Experiment
from engine.training.data.batches import epoch_order
from engine.training.data.image_folder import PICTURE_ERRORS, ImageFolder

MOST_SECONDS = 10.0
"""The longest that a run waits for this; of a folder that takes longer only a part is checked."""

_AT_ONCE = 32
_THREADS = min(4, os.cpu_count() or 1)


@dataclass(frozen=True)
class CheckProgress:
    """The check's progress: pictures opened, pictures that the run will use, and the broken ones."""

    count: int
    of: int
    broken: tuple[str, ...]


def pictures_used(folder: ImageFolder, experiment: Experiment, steps: int | None) -> tuple[str, ...]:
    """The files that a run of so many steps reads (None: all): to train on, in the first epoch's order, then
    to validate on.
    """
    count = len(folder.train)
    trained = count if steps is None else min(count, steps * experiment.step_samples)
    # a run of less than an epoch reads only the beginning of that order
    drawn = epoch_order(count, experiment.seed, 1)[:trained].tolist()
    validated = folder.validation[: experiment.validation.limit] if experiment.validation.every else ()
    return tuple(file for file, _ in (*(folder.train[index] for index in drawn), *validated))


def look_through(
    files: Sequence[str], must_end: Callable[[], bool], seed: int, most_seconds: float = MOST_SECONDS
) -> Iterator[CheckProgress]:
    """Decodes the pictures in a random order from `seed`, and yields its progress.

    Ends when all are decoded, when time is up, or when it must. Pillow decodes without Python's lock, so a
    few threads share the work.
    """
    order = random.Random(seed).sample(files, len(files))
    broken: tuple[str, ...] = ()
    ends = time.monotonic() + most_seconds
    with ThreadPoolExecutor(_THREADS) as pool:
        for first in range(0, len(order), _AT_ONCE):
            some = order[first : first + _AT_ONCE]
            are_whole = pool.map(_is_whole, some)
            broken += tuple(file for file, is_whole in zip(some, are_whole, strict=True) if not is_whole)
            yield CheckProgress(first + len(some), len(order), broken)
            if must_end() or time.monotonic() > ends:
                return


def _is_whole(file: str) -> bool:
    try:
        with Image.open(file) as picture:
            # at an eighth of its size a JPEG is still read to its end, in a third of the time
            picture.draft(None, (1, 1))
            picture.load()
    except PICTURE_ERRORS:
        return False
    return True
