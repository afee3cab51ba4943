"""The verb `tune`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from engine.cli import options, output
from engine.cli.lookup import find
from engine.cli.options import Asked
from engine.cli.session import TargetOption, accept_code, has_gpu, trust_all, warn_if_busy
from engine.cli.study import Desk, follow, open_desk
from engine.cli.sweep.options import time_limit_seconds
from engine.experiment.experiment import experiment_from
from engine.experiment.problem import ProblemError, request_problem
from engine.experiment.value import shortened
from engine.export.formats import TUNE
from engine.protocol.tune import CHANGE_KINDS, MOST_PROOF_REPEATS, ChangeKind, Tuning, TuningPlan
from engine.store.saved.study import Study
from engine.tune.driver import TuneDriver
from engine.worker.launcher import Target

_KINDS = ", ".join(CHANGE_KINDS)


@options.takes_settings("name", "precision", "recipe")
def tune(
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
        typer.Option(
            "--carry-on",
            metavar="ID",
            help="Go on with a tuning that was stopped, as `ammeter resume` does.",
        ),
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
    with open_desk(target) as desk:
        if carry_on is not None:
            return _follow(desk, _saved(desk, carry_on, accepts_all=trust_code), to, force, as_json)
        on_gpu, trusted = has_gpu(asked, desk.catalog), desk.launcher.trusted_code
        experiment = experiment_from(asked.settings(on_gpu))
        accept_code(trusted, asked, [experiment], on_gpu=on_gpu, accepts_all=trust_code)
        return _follow(desk, Study(answer=Tuning(experiment=experiment, plan=plan)), to, force, as_json)


def resume_tuning(study_id: str, *, trust_code: bool, as_json: bool, target: Target) -> int:
    """Goes on with a tuning that was cut off or stopped; returns the exit status."""
    with open_desk(target) as desk:
        return _follow(desk, _saved(desk, study_id, accepts_all=trust_code), None, False, as_json)


def _saved(desk: Desk, start: str, *, accepts_all: bool) -> Study[Tuning]:
    """The saved tuning whose id starts so. Raises ProblemError."""
    study = desk.store.studies.find(find(desk.store, start).id, "tune")
    if accepts_all:
        trust_all(desk.launcher.trusted_code, study.experiments)
    return study


def _follow(desk: Desk, study: Study[Tuning], to: Iterable[str] | None, force: bool, as_json: bool) -> int:
    warn_if_busy(desk.watch, study.experiments[0])
    followed = follow(TuneDriver(desk.store, desk.launcher, desk.catalog), study)
    followed.export(to, force=force)
    status = followed.tell(as_json=as_json)
    if followed.is_unfinished and followed.answer.is_known:
        output.aside(f"`ammeter resume {followed.study.id}` goes on with it.")
    return status


def _refuse_settings(asked: Asked, tuning_id: str) -> None:
    """Raises ProblemError where settings are given beside --carry-on."""
    if asked.preset is not None or any(asked.over):
        message = "A tuning goes on with its own settings; --carry-on takes no others."
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
