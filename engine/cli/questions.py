"""The verbs that ask a question and save its answer as a study: `limit`, `numerics`, `profile` and `tune`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any

import typer

from engine.cli import options, output
from engine.cli.session import Session, TargetOption, find, open_session, saved_results
from engine.cli.study import follow
from engine.cli.sweep import time_limit_seconds
from engine.experiment.experiment import all_settings, experiment_from, layered, setting_error
from engine.experiment.problem import request_error
from engine.experiment.value import shortened
from engine.export.formats import LIMIT, NUMERICS, PROFILE, TRACES, TUNE
from engine.limit.driver import DEFAULT_MARGIN, LimitDriver
from engine.numerics.driver import NumericsDriver, trouble_step
from engine.profile.driver import ProfileDriver
from engine.protocol.numerics.numerics import USUAL_PARTS, Numerics, Part
from engine.protocol.profiles import profiles_of
from engine.protocol.trials import Limit, LimitSide
from engine.protocol.tune import CHANGE_KINDS, MOST_PROOF_REPEATS, Tuning, TuningPlan
from engine.store.saved.study import Study
from engine.tune.driver import TuneDriver
from engine.worker.launcher import Target


@options.takes_settings("batch_size", "epochs", "steps", "lr", "name")
def limit(
    ctx: typer.Context,
    precision: Annotated[list[str] | None, options.precisions_option("A precision to try.")] = None,
    granularity: Annotated[
        int, typer.Option("--granularity", min=1, help="The batch found is a multiple of this; 1 is exact.")
    ] = 1,
    margin: Annotated[
        float,
        typer.Option(
            "--margin",
            min=0.0,
            max=0.9,
            help="The fraction of memory that the recommended batch leaves free.",
        ),
    ] = DEFAULT_MARGIN,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            "--strategy",
            metavar="NAME",
            help="On several devices: ddp, fsdp, or both side by side. Repeatable.",
        ),
    ] = None,
    time_limit: Annotated[
        str,
        typer.Option(
            "--time-limit", metavar="TIME", help="Start no new trial after this long, such as 90s or 5m."
        ),
    ] = "",
    to: Annotated[list[str] | None, options.export_option(LIMIT)] = None,
    force: options.Force = False,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
) -> int:
    """Find the largest batch that fits, in each precision."""
    asked = options.asked(ctx.params)
    options.sides_of(asked, precision, on_gpu=True)
    seconds = time_limit_seconds(time_limit)
    LIMIT.check(to or (), force=force)
    with open_session(Target.PROCESS, asked.machine) as session:
        sides = tuple(
            LimitSide(label=label, experiment=experiment, granularity=granularity)
            for label, experiment in by_strategy(
                session.sides(asked, precision, trusts_all=trust_code), strategy or ()
            )
        )
        study = Study(answer=Limit(sides=sides, margin_fraction=margin))
        driver = partial(LimitDriver, time_limit_seconds=seconds)
        followed = follow(session, driver, study, to, force=force)
    return followed.tell(as_json=as_json)


def by_strategy(
    sides: Sequence[options.LabelledExperiment], strategies: Sequence[str]
) -> Iterator[options.LabelledExperiment]:
    """Each side in each strategy of several devices, or as it is without any. Raises ProblemError."""
    if not strategies:
        yield from sides
        return
    words = dict(all_settings()["ranks.strategy"].choices)
    for label, experiment in sides:
        if experiment.devices == 1:
            message = "says how several devices share a model, but here is one."
            raise setting_error("ranks.strategy", message, "Add --devices 2, or all.")
        for name in strategies:
            settings = layered(experiment.model_dump(mode="json"), {"ranks": {"strategy": name}})
            yield f"{label}, {words.get(name, name)}", experiment_from(settings)


def _part(name: str, text: str) -> Any:
    return typer.Option(f"--{name}", help=text, rich_help_panel="Parts")


@options.takes_settings("name")
def numerics(
    ctx: typer.Context,
    map_: Annotated[bool, _part("map", "Which operation computes in which format, and the casts.")] = False,
    range_: Annotated[
        bool, _part("range", "What FP16, BF16 and FP8 would round to 0 or make infinite, by module.")
    ] = False,
    nan: Annotated[bool, _part("nan", "The first NaN or Inf, through all steps of the experiment.")] = False,
    ladder: Annotated[
        bool, _part("ladder", "Where FP16 without and with a loss scaler, BF16 and pure BF16 part from FP32.")
    ] = False,
    islands: Annotated[
        bool, _part("islands", "The fewest modules that must stay in FP32, each proven by a run.")
    ] = False,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Look at this saved run with its own settings; the first NaN or Inf is looked for from "
            "its newest checkpoint before it went wrong.",
        ),
    ] = None,
    to: Annotated[list[str] | None, options.export_option(NUMERICS)] = None,
    force: options.Force = False,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
    target: TargetOption = Target.PROCESS,
) -> int:
    """Look at an experiment's numerics: formats, ranges, the first NaN or Inf, and what to do about it.

    Without a part it makes those of the preset, or the map and the ranges, and looks through one step for a
    NaN or Inf. The exit status is 1 if one was found, or if this failed. The study is saved in any case.
    """
    asked = options.asked(ctx.params)
    flags: dict[Part, bool] = {"map": map_, "range": range_, "nan": nan, "ladder": ladder, "islands": islands}
    named = tuple(part for part, is_named in flags.items() if is_named)
    if not named and asked.preset is not None:
        named = asked.preset.parts
    if run is not None:
        options.refuse_settings(asked, run, "looked at")
    experiment_from(asked.settings(True))
    NUMERICS.check(to or (), force=force)
    with open_session(target, asked.machine) as session:
        goes_on, parts = bool(named), named or USUAL_PARTS
        if run is None:
            wanted = Numerics(experiment=session.experiment(asked, trusts_all=trust_code), parts=parts)
        else:
            saved = session.store.run(run)
            session.accept(asked, [saved.experiment], on_gpu=True, trusts_all=trust_code)
            wanted = Numerics(experiment=saved.experiment, parts=parts, run_id=saved.id)
            goes_on = goes_on or trouble_step(session.store, saved) is not None
        study = Study(answer=wanted if goes_on else wanted.model_copy(update={"steps": 1}))
        followed = follow(session, NumericsDriver, study, to, force=force)
    nan_part = followed.answer.results.nan
    return followed.tell(as_json=as_json, is_failure=nan_part is not None and nan_part.first is not None)


@options.takes_settings("name")
def profile(
    ctx: typer.Context,
    precision: Annotated[
        list[str] | None,
        options.precisions_option(
            "A precision to profile, set side by side with the others; the first is the baseline."
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
    help next, and how close it comes to the device's limits, which are measured. The study is saved.
    """
    asked = options.asked(ctx.params)
    if run:
        options.refuse_settings(asked, run[0], "profiled", precisions=precision or ())
    else:
        options.sides_of(asked, precision, on_gpu=True)
    traces = [] if trace is None else [trace]
    PROFILE.check(to or (), force=force)
    TRACES.check(traces, force=force)
    with open_session(target, asked.machine) as session:
        saved = [session.store.run(run_id) for run_id in run or ()]
        if saved:
            experiments = [known.experiment for known in saved]
            session.accept(asked, experiments, on_gpu=True, trusts_all=trust_code)
        else:
            experiments = [side for _, side in session.sides(asked, precision, trusts_all=trust_code)]
        session.warn_if_busy(experiments[0])
        study = Study(answer=profiles_of(experiments, [known.id for known in saved]))
        followed = follow(session, ProfileDriver, study, (*(to or ()), *traces), force=force)
    problems = (side.problem for side in followed.answer.sides)
    return followed.tell(as_json=as_json, failed_part=next(filter(None, problems), None))


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
    coarse_formats: Annotated[
        bool,
        typer.Option(
            "--coarse-formats",
            help="Also try FP8, with each of its scalings, and pure BF16. They change the training more than "
            "autocast does.",
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
            "--carry-on", metavar="ID", help="Go on with a tuning that was stopped, as `ammeter resume` does."
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
    plan = _plan(change, guard, repeats, time_limit)
    plan = plan.model_copy(update={"changes_batch": any_batch, "coarse_formats": coarse_formats})
    if carry_on is None:
        experiment_from(asked.settings(True))
    elif asked.preset is not None or any(asked.over) or asked.machine:
        message = "A tuning goes on with its own settings and machine; --carry-on takes no others."
        remedy = "Leave out either --carry-on or the others."
        raise request_error(message, remedy, key="carry_on", value=carry_on)
    TUNE.check(to or (), force=force)
    machine = asked.machine
    if carry_on is not None:
        with saved_results() as store:
            machine = store.studies.find(find(store, carry_on).id, "tune").machine
    with open_session(target, machine) as session:
        if carry_on is None:
            experiment = session.experiment(asked, trusts_all=trust_code)
            study = Study(answer=Tuning(experiment=experiment, plan=plan))
        else:
            study = _saved(session, carry_on, trusts_all=trust_code)
        return _follow(session, study, to, force=force, as_json=as_json)


def resume_tuning(session: Session, study_id: str, *, trust_code: bool, as_json: bool) -> int:
    """Goes on with a tuning that was cut off or stopped; returns the exit status."""
    study = _saved(session, study_id, trusts_all=trust_code)
    return _follow(session, study, None, force=False, as_json=as_json)


def _saved(session: Session, start: str, *, trusts_all: bool) -> Study[Tuning]:
    study = session.store.studies.find(find(session.store, start).id, "tune")
    if trusts_all:
        session.trust(study.experiments)
    return study


def _follow(
    session: Session, study: Study[Tuning], to: Iterable[str] | None, *, force: bool, as_json: bool
) -> int:
    session.warn_if_busy(study.experiments[0])
    followed = follow(session, TuneDriver, study, to, force=force)
    status = followed.tell(as_json=as_json)
    if followed.is_unfinished and followed.answer.is_known:
        output.aside(f"`ammeter resume {followed.study.id}` goes on with it.")
    return status


def _plan(kinds: Iterable[str] | None, guard: str, repeats: int, time_limit: str) -> TuningPlan:
    wanted = tuple(dict.fromkeys(kinds or CHANGE_KINDS))
    for kind in wanted:
        if kind not in CHANGE_KINDS:
            message, remedy = (
                f"--change is '{shortened(kind)}', which is no kind of change.",
                f"Choose from {_KINDS}.",
            )
            raise request_error(message, remedy, key="change", value=kind, allowed=_KINDS)
    if guard not in ("alike", "none"):
        message, allowed = f"--guard is '{shortened(guard)}', but it must be alike or none.", "alike, none"
        raise request_error(message, "Choose one of them.", key="guard", value=guard, allowed=allowed)
    return TuningPlan(
        kinds=tuple(kind for kind in CHANGE_KINDS if kind in wanted),
        guard="alike" if guard == "alike" else "none",
        repeats=repeats,
        time_limit_seconds=time_limit_seconds(time_limit),
    )
