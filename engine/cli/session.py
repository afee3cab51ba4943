"""Shared by the commands: the store, finding results by id, a runner, Ctrl+C, and a progress line.

The first Ctrl+C stops the running work, as the window's button does, and the second ends it at once. On a
remote machine a run or sweep outlives the command, so there the second leaves it training. Progress is shown
only on a terminal.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from types import FrameType
from typing import Annotated, Any, NamedTuple, Self, TypeVar

import typer
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

from engine.busyness import LoadMonitor
from engine.cli import output
from engine.cli.options import LabeledExperiment, RunOptions, sides_of
from engine.cli.output import progress_console, warning
from engine.compare.failure import Failure, failure_of
from engine.compare.metrics import SPEED
from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, changed, experiment_from
from engine.experiment.own.code import Code
from engine.experiment.own.trust import foreign_parts
from engine.experiment.problem import Kind, Problem, ProblemError, request_error, request_problem
from engine.experiment.value import printable, shortened
from engine.protocol.events import Epoch, Event, Failed, Log, Phase, PhaseName, Samples, Started
from engine.runner import Runner
from engine.store.record import RunRecord
from engine.store.saved.forecasts import Forecasts
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target, kept_awake

_T = TypeVar("_T")


class InterruptError(Exception):
    """Raised when Ctrl+C ends a command without a result. `problem` describes the state of its work."""

    def __init__(self, problem: Problem | None = None) -> None:
        super().__init__()
        self.problem = problem


class Interrupt:
    """Context manager for Ctrl+C: the first SIGINT calls `stop`, the second raises KeyboardInterrupt.

    The first also sets `asked`, and prints `remark` on a terminal. After the second, and when the terminal is
    closed or the program is ended, training on a remote `machine` continues.
    """

    def __init__(
        self, stop: Callable[[], None], remark: str = "Stopping after this step.", machine: str = ""
    ) -> None:
        self.asked = False
        self._stop, self._remark, self._machine = stop, remark, machine
        self._before: Any = None

    def __enter__(self) -> Self:
        # Python allows handlers in the main thread only, and Ctrl+C arrives nowhere else
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._on_first)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def watch(self, events: Iterable[_T]) -> Iterator[_T]:
        """Yield the events of work, and stop the work again if it started after Ctrl+C."""
        for event in events:
            yield event
            if self.asked:
                self._stop()

    def _on_first(self, number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._machine and number != signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
        then = f"leave it training on {self._machine}" if self._machine else "stop immediately"
        output.aside(f"{self._remark} Press Ctrl+C again to {then}.")
        # the handler may have interrupted the main thread while it held the lock that stop() needs
        threading.Thread(target=self._stop, name="stop", daemon=True).start()


class ProgressLine:
    """A context manager that shows a line with the title, the columns and the elapsed time on a terminal.

    `fields` are values that the columns can display.
    """

    def __init__(self, title: str, *columns: ProgressColumn, **fields: Any) -> None:
        self._title = title = printable(title)
        self._progress = Progress(
            *columns, TimeElapsedColumn(), console=progress_console(), disable=not sys.stderr.isatty()
        )
        self._task = self._progress.add_task(title, total=None, **fields)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def _update(self, **changes: Any) -> None:
        self._progress.update(self._task, **changes)

    def _say(self, text: str, *, always: bool = False) -> None:
        # without a progress line, only if `always`
        if not self._progress.disable:
            self._progress.console.print(printable(text), soft_wrap=True)
        elif always:
            warning(text)


def _how_far(phase: Phase) -> str:
    return "" if phase.fraction is None else f" {100 * phase.fraction:.0f}%"


def text_column(form: str) -> TextColumn:
    """Return a column of text without markup, because names and titles may contain any text."""
    return TextColumn(form, markup=False)


class PhaseProgress(ProgressLine):
    """A progress line with the current work and its worker's phase, such as importing torch or measuring."""

    def __init__(self) -> None:
        super().__init__("Preparing", SpinnerColumn(), text_column("{task.description}"))
        self._prefix = ""

    def set_prefix(self, doing: str) -> None:
        """Set the current work. Empty if the worker's phase describes it."""
        self._prefix = f"{doing}: " if doing else ""
        if doing:
            self._update(description=doing)

    def show(self, event: Event) -> None:
        if isinstance(event, Phase):
            what = event.detail or event.name.value.capitalize()
            self._update(description=f"{self._prefix}{what}{_how_far(event)}")
        elif isinstance(event, Log):
            self._say(event.message, always=event.level == "problem")


class RunProgress(ProgressLine):
    """A progress line of one run, updated with the run's events."""

    def __init__(self, title: str) -> None:
        super().__init__(
            title,
            text_column("{task.description}"),
            BarColumn(bar_width=28),
            text_column("step {task.completed:,.0f} of {task.fields[steps]}"),
            text_column("{task.fields[figures]}"),
            steps="–",
            figures="",
        )
        self._accuracy = ""

    def show(self, event: Event) -> None:
        if isinstance(event, Started):
            done, total = event.resumed_step or 0, event.total_steps
            self._update(completed=done, total=total, steps=f"{total:,}")
        elif isinstance(event, Phase):
            what = event.detail if event.name is PhaseName.WAITING else event.name.value
            self._update(description=f"{self._title}: {what}{_how_far(event)}")
        elif isinstance(event, Samples) and event.step:
            figures = f"{SPEED.text_with_unit(event.samples_per_second[-1])}  loss {event.loss[-1]:.3f}"
            self._update(completed=event.step[-1], figures=f"{figures}{self._accuracy}")
        elif isinstance(event, Epoch) and event.validation_accuracy is not None:
            self._accuracy = f"  accuracy {100 * event.validation_accuracy:.1f}%"
        elif isinstance(event, Log):
            self._say(event.message, always=event.level == "problem")


DONE, FAILED, NOT_ALL_DONE, INTERRUPTED = 0, 1, 4, 130
"""Exit statuses: done, failed, trained without something that was requested, and interrupted by Ctrl+C with
the results so far saved. Requirements add 3: undecided."""

_LEAST_SECONDS = 0.6


def status_of(runs: Iterable[RunRecord]) -> int:
    """Return the exit status for finished runs, and report skipped requests on stderr."""
    # the runs of a sweep often lack the same
    lacking = {
        missing: run.name
        for run in runs
        if run.summary is not None
        for missing in run.summary.not_done.items()
    }
    for (key, reason), name in lacking.items():
        output.warning(f"{name}: {key} was not done. {reason}")
    return NOT_ALL_DONE if lacking else DONE


TargetOption = Annotated[Target, typer.Option("--target", hidden=True)]


@dataclass(frozen=True)
class CommandSession:
    """The open store, launcher, runner and Ctrl+C handling of one command.

    `watch` has measured the load by other programs since before the command's own work.
    """

    store: Store
    launcher: Launcher
    runner: Runner
    interrupt: Interrupt
    watch: LoadMonitor

    @property
    def machine(self) -> str:
        """The name of the remote machine that trains, "" for this one."""
        return self.launcher.site.name

    def raise_if_interrupted(self) -> None:
        """Raise InterruptError after Ctrl+C. Before training there is nothing to save."""
        if self.interrupt.asked:
            raise InterruptError

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog of the machine that trains. Raises ProblemError, and InterruptError after Ctrl+C."""
        catalog = self.runner.catalog()
        self.raise_if_interrupted()
        return catalog

    def on_gpu(self, asked: RunOptions) -> bool:
        """Return True if the device in the options is a GPU."""
        device = self.catalog.device(str(asked.settings(True).get("device", "auto")))
        return device.is_gpu if device is not None else self.catalog.has_gpu

    def experiment(self, asked: RunOptions, *, trusts_all: bool) -> Experiment:
        """Return the experiment in the options, with trusted code. Raises ProblemError."""
        # reading the catalog imports torch, so it is read only if the settings depend on it
        on_gpu = asked.settings(True) == asked.settings(False) or self.on_gpu(asked)
        experiment = self._placed(experiment_from(asked.settings(on_gpu)))
        self.accept(asked, [experiment], on_gpu=on_gpu, trusts_all=trusts_all)
        return experiment

    def sides(
        self, asked: RunOptions, precisions: list[str] | None, *, trusts_all: bool
    ) -> list[LabeledExperiment]:
        """Return the sides in the options, with trusted code. Raises ProblemError."""
        on_gpu = self.on_gpu(asked)
        sides = [
            (label, self._placed(experiment))
            for label, experiment in sides_of(asked, precisions, on_gpu=on_gpu)
        ]
        self.accept(asked, [experiment for _, experiment in sides], on_gpu=on_gpu, trusts_all=trusts_all)
        return sides

    def _placed(self, experiment: Experiment) -> Experiment:
        # a folder of another machine is relative to the home folder there
        if self.machine or not experiment.is_script:
            return experiment
        folder = os.path.abspath(os.path.expanduser(experiment.command.folder))  # noqa: PTH100, PTH111
        return changed(experiment, {"command.folder": folder})

    def accept(
        self,
        asked: RunOptions,
        experiments: Sequence[Experiment],
        *,
        on_gpu: bool,
        trusts_all: bool,
        named: Iterable[Code] = (),
    ) -> None:
        """Trust the code of files named on the command line, or all code and commands with --trust-code.

        `named` is the code of more such files. Raises ProblemError for untrusted code or commands.
        """
        for code in (asked.chosen_code(on_gpu), *named):
            if code is not None:
                self.launcher.trusted_code.name(code)
        for path in asked.typed_paths:
            self.launcher.trusted_code.name_path(path)
        if trusts_all:
            self.trust(experiments)
        for experiment in experiments:
            self.launcher.trusted_code.check(experiment)

    def trust(self, experiments: Iterable[Experiment]) -> None:
        """Trust the code and commands of experiments, as allowed by --trust-code."""
        for experiment in experiments:
            for code in foreign_parts(experiment):
                self.launcher.trusted_code.add(code)

    def warn_if_busy(self, experiment: Experiment) -> None:
        """Warn on a terminal if other programs use the machine before a measurement."""
        if not sys.stderr.isatty() or self.machine:
            # nobody would read it in time, and a disturbed run reports it
            return
        # the worker imports torch at the same time, for longer than this
        time.sleep(max(0.0, _LEAST_SECONDS - self.watch.seconds))
        if busy := self.watch.measure(experiment.device).sentence:
            output.warning(f"{busy} Results measured now may be unreliable.")


def launcher_for(target: Target, machine: str = "") -> Launcher:
    """Return a launcher for this machine or the named one. Raises ProblemError if it is unknown."""
    if not machine:
        return Launcher(target)
    if target is Target.THREAD:
        message = f"A thread of this program cannot train on {machine}."
        raise request_error(message, "Remove either --target or --machine.", key="target", value=target)
    # imported here, because most calls use this machine
    from engine.machines.machine import Machines
    from engine.machines.remote_site import launcher_on

    return launcher_on(Machines().find(machine))


@contextmanager
def open_store() -> Iterator[Store]:
    """Open the store. Report on stderr if a file of an older version was moved away."""
    with Store() as store:
        if store.moved:
            output.warning(store.moved)
        yield store


@contextmanager
def open_session(target: Target, machine: str = "", *, saves: bool = True) -> Iterator[CommandSession]:
    """Open the store and a runner. At the end, close both and stop the running job.

    If this machine trains, it is kept awake. Raises ProblemError if the store is not writable although
    `saves`, and for an unknown `machine`.
    """
    awake = nullcontext() if machine else kept_awake()
    with launcher_for(target, machine) as launcher, open_store() as store, awake:
        if saves:
            store.recover()
            store.check_writable()
            for note in store.notes:
                output.aside(note)
            # it imports torch while another worker reads the catalog
            launcher.prepare()
        runner, watch = Runner(store, launcher), LoadMonitor()
        runner.on_wait = lambda words: output.aside(f"{machine}: {words}.")
        with Interrupt(runner.stop, machine=launcher.site.name) as interrupt:
            try:
                yield CommandSession(store, launcher, runner, interrupt, watch)
            except ProblemError:
                if interrupt.asked:
                    raise InterruptError from None
                raise


def train(session: CommandSession, added: RunRecord, title: str) -> Event:
    """Train the queued run to its last event. Raises ProblemError if refused, InterruptError if left."""
    last: Event | None = None
    began = False
    try:
        with RunProgress(title) as progress, closing(session.runner.run(added.id)) as events:
            for last in session.interrupt.watch(events):
                progress.show(last)
                began |= isinstance(last, Started)
    except KeyboardInterrupt:
        raise_if_left(session, added.id, added.name, added.id)
        raise
    assert last is not None  # every job ends with a last event
    if isinstance(last, Failed) and last.problem.kind in (Kind.REQUEST, Kind.NO_ENGINE) and not began:
        raise ProblemError(last.problem)
    return last


def failure_in(store: Store, run: RunRecord) -> Failure | None:
    """Return why a run, alone or in its comparison, failed. None if it did not fail."""
    runs = [run] if run.comparison is None else store.of_comparison(run.comparison)
    return failure_of(runs, Forecasts(store.path.parent, run.machine), None, run_id=run.id)


def raise_if_left(session: CommandSession, run_id: str, name: str, to_resume: str) -> None:
    """Raise InterruptError, which says how to reconnect, if the run still trains on a remote machine."""
    if session.store.remote_place(run_id) is not None:
        message = f"{name} keeps training on {session.machine}."
        remedy = f"`ammeter resume {to_resume}` reconnects to it."
        raise InterruptError(request_problem(message, remedy, key="run", value=run_id)) from None


RUN, SWEEP, STUDY = "run", "sweep", "study"

Id = Annotated[
    str,
    typer.Argument(metavar="ID", help="Id of a run, sweep or study, or an unambiguous prefix."),
]
Ids = Annotated[
    list[str],
    typer.Argument(metavar="ID...", help="Ids of runs, sweeps or studies, or unambiguous prefixes."),
]


class Match(NamedTuple):
    """A saved result that was found by its id: its kind (run, sweep or study) and its full id."""

    kind: str
    id: str


def find(store: Store, start: str) -> Match:
    """Return the only run, sweep or study whose id starts with `start`. Raises ProblemError."""
    tables = ((RUN, store), (SWEEP, store.sweeps), (STUDY, store.studies))
    found = [Match(kind, each) for kind, table in tables for each in table.starting(start)]
    if len(found) == 1:
        return found[0]
    shown = shortened(start)
    if found:
        ids = ", ".join(each.id for each in found[:6])
        message, remedy = f"'{shown}' matches more than one id: {ids}.", "Give more of the id."
    else:
        message = f"No run, sweep or study id starts with '{shown}'."
        remedy = "List the ids with `ammeter results`."
    raise request_error(message, remedy, key="id", value=start)


@contextmanager
def saved_results(*, writes: bool = False) -> Iterator[Store]:
    """Open the store, and mark runs whose process has ended as interrupted.

    If the store is read-only, raise ProblemError for a command that `writes`, and warn on stderr for any
    other.
    """
    with open_store() as store:
        store.recover()
        for note in store.notes:
            output.aside(note)
        if writes:
            store.check_writable()
        elif store.unwritable is not None:
            output.warning(store.unwritable.message)
        yield store
