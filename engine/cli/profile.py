"""The verb `profile`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from engine.busyness import Watch
from engine.cli import options, output
from engine.cli.options import Asked, sides_of
from engine.cli.session import (
    DONE,
    FAILED,
    INTERRUPTED,
    Interrupt,
    TargetOption,
    accept_code,
    followed,
    has_gpu,
    read_catalog,
    warn_if_busy,
)
from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment
from engine.experiment.own.trust import TrustedCode
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.export.formats import PROFILE, TRACES
from engine.export.kinds.profile import sections
from engine.export.kinds.profile import values as values_of
from engine.protocol.events import Failed
from engine.protocol.timing.profile import Profiled
from engine.protocol.timing.timing import SideFailed, SideStarted, Timing, TimingStarted
from engine.runner import Runner
from engine.store.record import RunRecord
from engine.store.store import Store
from engine.timing.names import failures, side_names
from engine.timing.profiler import Profiler, TimingEvent
from engine.worker.launcher import Launcher, Target

_ROWS_SHOWN = 8


@options.takes_settings("name")
def profile(
    ctx: typer.Context,
    precision: Annotated[
        list[str] | None,
        options.flag(
            "--precision",
            "A precision to profile, set side by side with the others; the first is the baseline. "
            f"Repeatable. {options.PRECISIONS} {options.DEFAULT_PRECISIONS}",
            "NAME",
        ),
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Profile this saved run with its own settings. Repeatable; the first is the baseline.",
        ),
    ] = None,
    to: Annotated[list[str] | None, options.export_option(PROFILE)] = None,
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace",
            metavar="FILE.json.gz",
            help="Write what was recorded to a file that Perfetto and chrome://tracing open; "
            "further sides go beside it, numbered.",
        ),
    ] = None,
    force: options.Force = False,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
    target: TargetOption = Target.PROCESS,
) -> int:
    """Explain where the time of a step goes: matrix products, memory, copies, or waiting for host and data.

    Some steps after the warm-up are timed, then a few are recorded. It says what bounds each side, what would
    help next, and how close it comes to the device's limits, which are measured. The timing is saved.
    """
    asked = options.asked(ctx.params)
    if run:
        options.refuse_settings(asked, run[0], "profiled", precisions=precision or ())
    else:
        sides_of(asked, precision, on_gpu=True)
    traces = [] if trace is None else [trace]
    PROFILE.check(to or (), force=force)
    TRACES.check(traces, force=force)
    with Store() as store, Launcher(target) as launcher:
        store.recover()
        store.check_writable()
        saved = [store.run(run_id) for run_id in run or ()]
        # it imports torch while another worker reads the catalog
        launcher.prepare()
        watch = Watch()
        catalog = read_catalog(Runner(store, launcher))
        trusted = launcher.trusted_code
        experiments = _experiments(trusted, asked, precision, saved, catalog, accepts_all=trust_code)
        warn_if_busy(watch, experiments[0])
        profiler, outcome = Profiler(store, launcher, catalog), _Outcome()
        with Interrupt(profiler.stop) as interrupt:
            events = profiler.profile(experiments, [known.id for known in saved])
            outcome.take(followed(events, profiler, interrupt, outcome.prefix))
        if outcome.timing.profiles():
            record = store.timings.find(outcome.id)
            for path in (*(to or ()), *traces):
                PROFILE.export(record, path, force=force)
    return outcome.print(as_json, interrupted=interrupt.asked)


def _experiments(
    trusted: TrustedCode,
    asked: Asked,
    precisions: list[str] | None,
    saved: list[RunRecord],
    catalog: Catalog,
    *,
    accepts_all: bool,
) -> list[Experiment]:
    """The sides' experiments, whose code may run here. Raises ProblemError."""
    on_gpu = has_gpu(asked, catalog)
    sides = [] if saved else sides_of(asked, precisions, on_gpu=on_gpu)
    experiments = [known.experiment for known in saved] or [experiment for _, experiment in sides]
    accept_code(trusted, asked, experiments, on_gpu=on_gpu, accepts_all=accepts_all)
    return experiments


class _Outcome:
    """What is known of a timing, and its end."""

    def __init__(self) -> None:
        self.id = ""
        self.timing = Timing()
        self._place = 0
        self._problem: Problem | None = None

    def prefix(self, event: TimingEvent) -> str:
        """The side that an event is of, for the progress line."""
        names = side_names(self.timing)
        return f"{names[self._place]}: " if len(names) > 1 else ""

    def take(self, events: Iterator[TimingEvent]) -> None:
        """Takes all events. Raises ProblemError for a request that was refused."""
        for event in events:
            match event:
                case TimingStarted():
                    self.id, self.timing = event.timing_id, event.timing
                case SideStarted(side=place):
                    self._place = place
                case Profiled(profile=known):
                    self.timing = self.timing.with_side(self._place, profile=known)
                case SideFailed(problem=problem):
                    self.timing = self.timing.with_side(self._place, problem=problem)
                    self._problem = self._problem or problem
                case Failed(problem=problem):
                    self._problem = problem
        if self._problem is not None and self._problem.kind is Kind.REQUEST and not self.timing.profiles():
            raise ProblemError(self._problem)

    def print(self, as_json: bool, *, interrupted: bool) -> int:
        """Prints what is known and returns the exit status."""
        if not as_json:
            output.sections(sections(self.timing, brief=True), _ROWS_SHOWN)
            for text in failures(self.timing) if self.timing.profiles() else ():
                output.warning(text)
        is_saved = self._problem is not None or bool(self.timing.profiles())
        values = {"id": self.id if is_saved else None, **values_of(self.timing)}
        if self._problem is not None and (as_json or not self.timing.profiles()):
            output.error(self._problem, as_json, **values)
        elif as_json:
            output.json_object(values)
        if interrupted:
            return INTERRUPTED
        return FAILED if self._problem is not None else DONE
