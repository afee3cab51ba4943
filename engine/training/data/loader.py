"""The processes that load batches, or this process where there are none."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from engine.parts import Data
from engine.problem import Problem, ProblemError
from engine.training.data.host_batches import Draw, HostBatch, Pictures


class Loader:
    """Makes the batches that it is told to, in order and ahead of their use, in `data.workers` processes.

    The processes are started here, and each has read its dataset when this returns: importing PyTorch takes
    them seconds that belong to no step. Without persistent workers the same is true of `begin`. Raises
    ProblemError where the samples cannot be read.
    """

    def __init__(self, samples: Pictures, data: Data, device: torch.device) -> None:
        self._workers = data.workers
        self._is_persistent = data.persistent_workers and data.workers > 0
        self._plan = _Plan()
        self._iterator: Any = None
        self._loader = DataLoader(
            _Maker(samples),
            batch_size=None,
            # each index of this sampler is a whole batch
            sampler=self._plan,
            collate_fn=_unchanged,
            num_workers=data.workers,
            prefetch_factor=data.prefetch if data.workers else None,
            persistent_workers=self._is_persistent,
            multiprocessing_context="spawn" if data.workers else None,
            pin_memory=data.pin_memory and device.type in ("cuda", "xpu"),
            worker_init_fn=_end_with_parent,
            # otherwise each epoch would draw from the global generator, and change what dropout draws
            generator=torch.Generator(),
        )
        if self._is_persistent:
            self.begin(())
        elif not self._workers:
            samples.open()

    def begin(self, draws: Iterable[Draw]) -> Iterator[HostBatch]:
        """The batches of these draws; what is left of those begun before is dropped.

        Their making begins at once. The iterator raises ProblemError for what cannot be read.
        """
        if not self._is_persistent:
            self.close()
        to_start = self._workers if self._iterator is None else 0
        self._plan.draws = itertools.chain(itertools.repeat(None, to_start), draws)
        self._iterator = iter(self._loader)
        try:
            # batches go round the processes, so that each of them answers once
            for _ in range(to_start):
                _raise_told(next(self._iterator))
        except BaseException:
            self.close()
            raise
        return map(_raise_told, self._iterator)

    def once(self, draw: Draw) -> HostBatch | None:
        """One batch from processes that wait for work; None where some would have to be started for it."""
        return next(self.begin((draw,))) if self._is_persistent else None

    def close(self) -> None:
        """Ends the processes and waits for them."""
        iterator, self._iterator = self._iterator, None
        if iterator is not None and self._workers:
            # Left alone they end with the last reference, which a traceback or a generator may hold.
            iterator._shutdown_workers()


class _Plan:
    """The sampler: what is to be made next, one batch an item. None asks a process to open its dataset."""

    def __init__(self) -> None:
        self.draws: Iterable[Draw | None] = ()

    def __iter__(self) -> Iterator[Draw | None]:
        return iter(self.draws)


@dataclass(frozen=True)
class _Told:
    """Problems on their way out of a loader process: PyTorch itself would pass on no more than a text."""

    problems: tuple[Problem, ...]


class _Maker(Dataset[Any]):
    def __init__(self, samples: Pictures) -> None:
        self._samples = samples

    def __getitem__(self, draw: Draw | None) -> HostBatch | _Told | None:
        try:
            if draw is None:
                self._samples.open()
                return None
            return self._samples.batch(draw)
        except ProblemError as error:
            return _Told(error.problems)


def _raise_told(made: Any) -> Any:
    if isinstance(made, _Told):
        raise ProblemError(*made.problems)
    return made


def _unchanged(made: Any) -> Any:
    return made


def _end_with_parent(_worker: int) -> None:
    """Ends this loader process as soon as the one that started it is gone, however that came."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="parent-watch", daemon=True).start()
