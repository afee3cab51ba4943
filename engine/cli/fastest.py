"""The verb `fastest`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from engine.busyness import Watch
from engine.cli import options, output
from engine.cli.options import Asked
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
    trust_all,
    warn_if_busy,
)
from engine.cli.sweep.options import time_limit_seconds
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.problem import Kind, Problem, ProblemError, request_problem
from engine.experiment.text import shortened
from engine.export.formats import TUNE
from engine.export.kinds.tune import sections
from engine.export.kinds.tune import values as values_of
from engine.protocol.events import Failed, Finished
from engine.protocol.tuning import CHANGE_KINDS, MOST_PROOF_REPEATS, ChangeKind, Tuning, TuningPlan
from engine.runner import Runner
from engine.store.store import Store
from engine.sweep.fastest.events import TrialStarted, TuningEvent, TuningKnown, TuningStarted
from engine.sweep.fastest.tuner import Tuner
from engine.worker.awake import kept_awake
from engine.worker.launcher import Launcher, Target

_KINDS = ", ".join(CHANGE_KINDS)


@options.takes_settings("name", "precision", "recipe")
def fastest(
    ctx: typer.Context,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--change", metavar="KIND", help=f"What may change: {_KINDS}. Repeatable. Default: all of them."
        ),
    ] = None,
    any_batch: Annotated[
        bool,
        typer.Option(
            "--any-batch",
            help="Also try other batch sizes. They change the training: fewer or more steps for the same "
            "samples. Without it a batch is at most split otherwise over gradient accumulation.",
        ),
    ] = False,
    guard: Annotated[
        str,
        typer.Option(
            "--guard",
            metavar="GUARD",
            help="alike: the winner's losses must stay within the band of FP32's repeats. none: no guard.",
        ),
    ] = "alike",
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats",
            min=2,
            max=MOST_PROOF_REPEATS,
            help="How often the proof trains the winner and plain FP32; they take turns.",
        ),
    ] = 3,
    time_limit: Annotated[
        str,
        typer.Option(
            "--time-limit", metavar="TIME", help="Begin nothing new after this long, such as 30m or 1h30m."
        ),
    ] = "",
    carry_on: Annotated[
        str | None,
        typer.Option("--carry-on", metavar="ID", help="Go on with a search that was cut off or stopped."),
    ] = None,
    to: Annotated[list[str] | None, options.export_option(TUNE)] = None,
    force: options.Force = False,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
    target: TargetOption = Target.PROCESS,
) -> int:
    """Find the fastest settings for this model, data and device, and prove them beside plain FP32.

    It tries precisions, recipes, activation checkpointing, batches and loader settings in short runs, more
    and longer ones of those that are fast. The winner and the plain FP32 loop then train in turns as saved
    runs, which `ammeter compare` and the window show. --memory-gib caps the memory.
    """
    asked = options.asked(ctx.params)
    plan = _plan(change, any_batch=any_batch, guard=guard, repeats=repeats, time_limit=time_limit)
    if carry_on is not None:
        _refuse_settings(asked, carry_on)
    else:
        experiment_from(asked.settings(True))
    TUNE.check(to or (), force=force)
    with Store() as store, Launcher(target) as launcher, kept_awake():
        store.recover()
        store.check_writable()
        # it imports torch while another worker reads the catalog
        launcher.prepare()
        watch = Watch()
        catalog = read_catalog(Runner(store, launcher))
        tuner, outcome = Tuner(store, launcher, catalog), _Outcome()
        if carry_on is None:
            on_gpu = has_gpu(asked, catalog)
            experiment: Experiment = experiment_from(asked.settings(on_gpu))
            accept_code(launcher.trusted_code, asked, [experiment], on_gpu=on_gpu, accepts_all=trust_code)
            events = tuner.tune(experiment, plan)
        else:
            experiment = store.tunings.find(carry_on).tuning.experiment
            if trust_code:
                trust_all(launcher.trusted_code, [experiment])
            events = tuner.carry_on(carry_on)
        warn_if_busy(watch, experiment)
        with Interrupt(tuner.stop) as interrupt:
            outcome.take(followed(events, tuner, interrupt, outcome.prefix))
        if outcome.is_saved:
            record = store.tunings.find(outcome.id)
            for path in to or ():
                TUNE.export(record, path, force=force)
    return outcome.print(as_json, interrupted=interrupt.asked)


def _refuse_settings(asked: Asked, tuning_id: str) -> None:
    """Raises ProblemError where settings are given beside --carry-on."""
    if asked.preset is not None or any(asked.over):
        message = "A search goes on with its own settings; --carry-on takes no others."
        remedy = "Leave out either --carry-on or the settings."
        raise ProblemError(request_problem(message, remedy, key="carry_on", value=tuning_id))


def _plan(
    kinds: Iterable[str] | None, *, any_batch: bool, guard: str, repeats: int, time_limit: str
) -> TuningPlan:
    """The plan that the options stand for. Raises ProblemError."""
    wanted = tuple(dict.fromkeys(kinds or CHANGE_KINDS))
    for kind in wanted:
        if kind not in CHANGE_KINDS:
            message = f"--change is '{shortened(kind)}', which is no kind of change."
            remedy = f"Choose from {_KINDS}."
            raise ProblemError(request_problem(message, remedy, key="change", value=kind, allowed=_KINDS))
    if guard not in ("alike", "none"):
        message = f"--guard is '{shortened(guard)}', but it must be alike or none."
        raise ProblemError(
            request_problem(message, "Choose one of them.", key="guard", value=guard, allowed="alike, none")
        )
    known: tuple[ChangeKind, ...] = tuple(kind for kind in CHANGE_KINDS if kind in wanted)
    return TuningPlan(
        kinds=known,
        changes_batch=any_batch,
        guard="alike" if guard == "alike" else "none",
        repeats=repeats,
        time_limit_seconds=time_limit_seconds(time_limit),
    )


class _Outcome:
    """What is known of a tuning, and its end."""

    def __init__(self) -> None:
        self.id = ""
        self._tuning: Tuning | None = None
        self._trial: TrialStarted | None = None
        self._problem: Problem | None = None
        self._is_early = False

    @property
    def is_saved(self) -> bool:
        """Whether anything is known."""
        return self._tuning is not None and bool(self._tuning.trials)

    def prefix(self, event: TuningEvent) -> str:
        """The run that an event is of, for the progress line."""
        trial = self._trial
        return "" if trial is None else f"{_PHASES[trial.phase]}, run {trial.number}, {trial.words}: "

    def take(self, events: Iterator[TuningEvent]) -> None:
        """Takes all events. Raises ProblemError for a request that was refused."""
        for event in events:
            match event:
                case TuningStarted():
                    self.id, self._tuning = event.tuning_id, event.tuning
                case TrialStarted():
                    self._trial = event
                case TuningKnown(tuning=tuning):
                    self._tuning = tuning
                case Failed(problem=problem):
                    self._problem = problem
                case Finished(stopped=stopped):
                    self._is_early = stopped
        if self._problem is not None and self._problem.kind is Kind.REQUEST:
            raise ProblemError(self._problem)

    def print(self, as_json: bool, *, interrupted: bool) -> int:
        """Prints what is known and returns the exit status."""
        known = self._tuning if self.is_saved else None
        if not as_json and known is not None:
            output.sections(sections(known, brief=True))
        values = {"id": self.id, **values_of(known)} if known is not None else {"id": None}
        if self._problem is not None:
            output.error(self._problem, as_json, **values)
        elif as_json:
            output.json_object(values)
        if self._is_early and known is not None:
            output.aside(f"`ammeter fastest --carry-on {self.id}` goes on with it.")
        if interrupted:
            return INTERRUPTED
        return FAILED if self._problem is not None else DONE


_PHASES = {
    "candidates": "Search",
    "halving": "Search",
    "proof": "Proof",
    "gains": "Gains",
    "over": "Gains",
}
