"""What the verbs that train work with: the store, a runner, and Ctrl+C."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

from engine.busyness import Watch
from engine.catalog import Catalog
from engine.cli import output
from engine.cli.interrupt import Interrupt, InterruptError
from engine.cli.options import Asked
from engine.cli.progress import RunProgress
from engine.events import Event, Failed, Started
from engine.experiment import Experiment
from engine.launcher import Launcher, Target
from engine.problem import Kind, ProblemError
from engine.records.record import RunRecord
from engine.records.store import Store
from engine.runner import Runner

DONE, FAILED, INTERRUPTED = 0, 1, 130
"""Exit statuses of a run: done; tried and failed; interrupted by Ctrl+C, with what was trained saved."""

_LEAST_SECONDS = 0.6

TargetOption = Annotated[Target, typer.Option("--target", hidden=True)]


@dataclass(frozen=True)
class Workshop:
    """Open for the length of one verb; `interrupt` says whether Ctrl+C was pressed."""

    store: Store
    runner: Runner
    interrupt: Interrupt
    watch: Watch

    def heed_interrupt(self) -> None:
        """Raises InterruptError where Ctrl+C came: before anything was trained there is nothing to save."""
        if self.interrupt.asked:
            raise InterruptError


@contextmanager
def workshop(target: Target) -> Iterator[Workshop]:
    """Opens the store and readies a runner; both are closed afterwards, and the job that runs is ended."""
    with Store() as store, Launcher(target) as launcher:
        store.recover()
        # what is trained and cannot be saved is lost
        store.check_writable()
        for note in store.notes:
            output.aside(note)
        # it imports torch while another worker reads the catalog
        launcher.prepare()
        runner, watch = Runner(store, launcher), Watch()
        with Interrupt(runner.stop) as interrupt:
            try:
                yield Workshop(store, runner, interrupt, watch)
            except ProblemError:
                if interrupt.asked:
                    raise InterruptError from None
                raise


def tell_of_busyness(shop: Workshop, experiment: Experiment) -> None:
    """Says on a terminal what other programs take of the machine on which something is about to be measured.

    Elsewhere nobody reads it in time, and a run that was disturbed says so itself.
    """
    if not sys.stderr.isatty():
        return
    # the worker imports torch meanwhile, for longer than this
    time.sleep(max(0.0, _LEAST_SECONDS - shop.watch.seconds))
    if busy := shop.watch.look(experiment.device).sentence:
        output.warning(f"{busy} What is measured now may not be clean.")


def has_gpu(asked: Asked, catalog: Catalog) -> bool:
    """Whether the device that the options name is a GPU."""
    device = catalog.device(str(asked.settings(True).get("device", "auto")))
    return device.is_gpu if device is not None else catalog.has_gpu


def train(shop: Workshop, added: RunRecord, title: str) -> Event:
    """Trains the queued run to its last event. Raises ProblemError for a request that was refused."""
    last: Event | None = None
    began = False
    with RunProgress(title) as progress:
        for last in shop.runner.run(added.id):
            progress.show(last)
            began |= isinstance(last, Started)
            if shop.interrupt.asked:
                # Ctrl+C may have come before there was a session to stop; asking twice does no harm
                shop.runner.stop()
    assert last is not None  # every job ends with a last event
    if isinstance(last, Failed) and last.problem.kind is Kind.REQUEST and not began:
        raise ProblemError(last.problem)
    return last
