"""The commands whose results are saved as a study: `limit`, `numerics`, `profile` and `tune`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any

import typer

from engine.cli import options, output
from engine.cli.session import CommandSession, TargetOption, find, open_session, saved_results
from engine.cli.study import run_study
from engine.cli.sweep import time_limit_seconds
from engine.experiment.command import refuse
from engine.experiment.experiment import all_settings, experiment_from, layered, setting_error
from engine.experiment.problem import request_error
from engine.experiment.value import shortened
from engine.export.formats import LIMIT, NUMERICS, PROFILE, TRACES, TUNE
from engine.limit.driver import DEFAULT_MARGIN, LimitDriver
from engine.numerics.driver import NumericsDriver, trouble_step
from engine.profile.driver import ProfileDriver
from engine.protocol.numerics import USUAL_PARTS, Numerics, Part
from engine.protocol.profile import profiles_of
from engine.protocol.trials import Limit, LimitSide
from engine.protocol.tune import CHANGE_KINDS, MOST_PROOF_REPEATS, Tuning, TuningPlan
from engine.store.saved.studies import Study
from engine.tune.driver import TuneDriver
from engine.worker.launcher import Target


@options.takes_settings("batch_size", "epochs", "steps", "lr", "name")
def limit(
    ctx: typer.Context,
    precision: Annotated[list[str] | None, options.precisions_option("Precision to try.")] = None,
    granularity: Annotated[
        int,
        typer.Option("--granularity", min=1, help="Search only multiples of this batch size. 1 is exact."),
    ] = 1,
    margin: Annotated[
        float,
        typer.Option(
            "--margin",
            min=0.0,
            max=0.9,
            help="Fraction of memory that the recommended batch leaves free.",
        ),
    ] = DEFAULT_MARGIN,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            "--strategy",
            metavar="NAME",
            help="Strategy for multiple devices: ddp or fsdp. Repeatable, to compare both.",
        ),
    ] = None,
    time_limit: Annotated[
        str,
        typer.Option(
            "--time-limit", metavar="TIME", help="Start no new trial after this time, e.g. 90s or 5m."
        ),
    ] = "",
    to: Annotated[list[str] | None, options.export_option(LIMIT)] = None,
    force: options.Force = False,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
) -> int:
    """Find the largest batch that fits, in each precision."""
    asked = options.parse(ctx.params)
    options.refuse_script(asked, "limit")
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
        driver = LimitDriver if seconds is None else partial(LimitDriver, time_limit_seconds=seconds)
        ended = run_study(session, driver, study, to, force=force)
    return ended.report(as_json=as_json)


def by_strategy(
    sides: Sequence[options.LabeledExperiment], strategies: Sequence[str]
) -> Iterator[options.LabeledExperiment]:
    """Yield each side in each strategy for multiple devices, or unchanged. Raises ProblemError."""
    if not strategies:
        yield from sides
        return
    words = dict(all_settings()["ranks.strategy"].choices)
    for label, experiment in sides:
        if experiment.devices == 1:
            message = "applies to multiple devices, but only one is selected."
            raise setting_error("ranks.strategy", message, "Add --devices 2, or all.")
        for name in strategies:
            settings = layered(experiment.model_dump(mode="json"), {"ranks": {"strategy": name}})
            yield f"{label}, {words.get(name, name)}", experiment_from(settings)


def _part_option(name: str, text: str) -> Any:
    return typer.Option(f"--{name}", help=text, rich_help_panel="Parts")


@options.takes_settings("name")
def numerics(
    ctx: typer.Context,
    map_: Annotated[bool, _part_option("map", "Show the dtype of each operation, and the casts.")] = False,
    range_: Annotated[
        bool, _part_option("range", "Show underflow and overflow in FP16, BF16 and FP8 by module.")
    ] = False,
    nan: Annotated[
        bool, _part_option("nan", "Search all steps of the experiment for the first NaN or Inf.")
    ] = False,
    divergence: Annotated[
        bool,
        _part_option("divergence", "Show where FP16 unscaled, FP16, BF16 and pure BF16 diverge from FP32."),
    ] = False,
    fp32_modules: Annotated[
        bool, _part_option("fp32-modules", "Find the fewest modules that need FP32, each verified by a run.")
    ] = False,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Examine this saved run with its own settings. The search for the first NaN or Inf starts "
            "at its newest checkpoint before the failure.",
        ),
    ] = None,
    to: Annotated[list[str] | None, options.export_option(NUMERICS)] = None,
    force: options.Force = False,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
    target: TargetOption = Target.PROCESS,
) -> int:
    """Examine an experiment's numerics: dtypes, ranges, the first NaN or Inf, and advice.

    By default, runs the parts of the preset, or the map and the ranges, and searches one step for a NaN or
    Inf. The exit status is 1 if one was found or the study failed. The study is always saved.
    """
    asked = options.parse(ctx.params)
    flags: dict[Part, bool] = {"map": map_, "range": range_, "nan": nan}
    flags |= {"ladder": divergence, "islands": fp32_modules}
    named = tuple(part for part, is_named in flags.items() if is_named)
    if not named and asked.preset is not None:
        named = asked.preset.parts
    if run is not None:
        options.refuse_settings(asked, run)
    options.refuse_script(asked, "numerics")
    NUMERICS.check(to or (), force=force)
    with open_session(target, asked.machine) as session:
        trains_all, parts = bool(named), named or USUAL_PARTS
        if run is None:
            wanted = Numerics(experiment=session.experiment(asked, trusts_all=trust_code), parts=parts)
        else:
            saved = session.store.run(run)
            refuse("numerics", [saved.experiment.command])
            session.accept(asked, [saved.experiment], on_gpu=True, trusts_all=trust_code)
            wanted = Numerics(experiment=saved.experiment, parts=parts, run_id=saved.id)
            trains_all = trains_all or trouble_step(session.store, saved) is not None
        study = Study(answer=wanted if trains_all else wanted.model_copy(update={"steps": 1}))
        ended = run_study(session, NumericsDriver, study, to, force=force)
    nan_part = ended.answer.results.nan
    return ended.report(as_json=as_json, is_failure=nan_part is not None and nan_part.first is not None)


@options.takes_settings("name")
def profile(
    ctx: typer.Context,
    precision: Annotated[
        list[str] | None,
        options.precisions_option("Precision to profile. The first is the baseline."),
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Profile this saved run with its own settings. Repeatable. The first is the baseline.",
        ),
    ] = None,
    to: Annotated[list[str] | None, options.export_option(PROFILE)] = None,
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace",
            metavar="FILE.json.gz",
            help="Write the recorded trace for Perfetto or chrome://tracing. Further precisions get numbered "
            "files.",
        ),
    ] = None,
    force: options.Force = False,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
    target: TargetOption = Target.PROCESS,
) -> int:
    """Show where the time of a step goes: matmuls, memory, copies, or waiting for the CPU and data.

    Some steps after the warm-up are timed, then a few are recorded. The profile names each bottleneck, what
    would help, and how close it comes to the measured limits of the device. It is saved.
    """
    asked = options.parse(ctx.params)
    if run:
        options.refuse_settings(asked, run[0], precisions=precision or ())
    else:
        options.refuse_script(asked, "profile")
        options.sides_of(asked, precision, on_gpu=True)
    traces = [] if trace is None else [trace]
    PROFILE.check(to or (), force=force)
    TRACES.check(traces, force=force)
    with open_session(target, asked.machine) as session:
        saved = [session.store.run(run_id) for run_id in run or ()]
        if saved:
            experiments = [known.experiment for known in saved]
            refuse("profile", (experiment.command for experiment in experiments))
            session.accept(asked, experiments, on_gpu=True, trusts_all=trust_code)
        else:
            experiments = [side for _, side in session.sides(asked, precision, trusts_all=trust_code)]
        session.warn_if_busy(experiments[0])
        study = Study(answer=profiles_of(experiments, [known.id for known in saved]))
        ended = run_study(session, ProfileDriver, study, (*(to or ()), *traces), force=force)
    problems = (side.problem for side in ended.answer.sides)
    return ended.report(as_json=as_json, failed_part=next(filter(None, problems), None))


_KINDS = ", ".join(CHANGE_KINDS)


@options.takes_settings("name", "precision", "recipe")
def tune(
    ctx: typer.Context,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--change", metavar="KIND", help=f"Kind of change to allow: {_KINDS}. Repeatable. Default: all."
        ),
    ] = None,
    any_batch: Annotated[
        bool,
        typer.Option(
            "--any-batch",
            help="Also try other batch sizes, which change the number of steps for the same samples. "
            "Otherwise a batch is at most split differently over gradient accumulation.",
        ),
    ] = False,
    coarse_formats: Annotated[
        bool,
        typer.Option(
            "--coarse-formats",
            help="Also try FP8 with each scaling, and pure BF16, which change the training more than "
            "autocast does.",
        ),
    ] = False,
    guard: Annotated[
        str,
        typer.Option(
            "--guard",
            metavar="GUARD",
            help="Accuracy check. alike: the losses of the fastest settings must stay within the range of "
            "FP32's repeats. none: no check.",
        ),
    ] = "alike",
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats",
            min=2,
            max=MOST_PROOF_REPEATS,
            help="Alternating runs of the fastest settings and of plain FP32 for the verification.",
        ),
    ] = 3,
    time_limit: Annotated[
        str,
        typer.Option(
            "--time-limit", metavar="TIME", help="Start nothing new after this time, e.g. 30m or 1h30m."
        ),
    ] = "",
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="ID", help="Resume a stopped tuning, as `ammeter resume` does."),
    ] = None,
    to: Annotated[list[str] | None, options.export_option(TUNE)] = None,
    force: options.Force = False,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
    target: TargetOption = Target.PROCESS,
) -> int:
    """Find the fastest settings for this model, data and device, and verify them against plain FP32.

    Short runs screen precisions, optimizations, attention kernels, activation checkpointing, batch sizes and
    loader settings.
    Fast ones get more and longer runs. The fastest settings and plain FP32 then train alternately as saved
    runs. --memory-gib limits the memory.
    """
    asked = options.parse(ctx.params)
    plan = _tuning_plan(change, guard, repeats, time_limit)
    plan = plan.model_copy(update={"changes_batch": any_batch, "coarse_formats": coarse_formats})
    if resume is None:
        options.refuse_script(asked, "tune")
    elif asked.preset is not None or any(asked.over) or asked.machine:
        message = "--resume uses the settings and machine of the tuning, so no others are allowed."
        remedy = "Remove either --resume or the others."
        raise request_error(message, remedy, key="resume", value=resume)
    TUNE.check(to or (), force=force)
    machine = asked.machine
    if resume is not None:
        with saved_results() as store:
            machine = store.studies.find(find(store, resume).id, "tune").machine
    with open_session(target, machine) as session:
        if resume is None:
            experiment = session.experiment(asked, trusts_all=trust_code)
            study = Study(answer=Tuning(experiment=experiment, plan=plan))
        else:
            study = _run_to_saved(session, resume, trusts_all=trust_code)
        return _follow(session, study, to, force=force, as_json=as_json)


def resume_tuning(session: CommandSession, study_id: str, *, trust_code: bool, as_json: bool) -> int:
    """Resume an interrupted or stopped tuning, and return the exit status."""
    study = _run_to_saved(session, study_id, trusts_all=trust_code)
    return _follow(session, study, None, force=False, as_json=as_json)


def _run_to_saved(session: CommandSession, start: str, *, trusts_all: bool) -> Study[Tuning]:
    study = session.store.studies.find(find(session.store, start).id, "tune")
    if trusts_all:
        session.trust(study.experiments)
    return study


def _follow(
    session: CommandSession, study: Study[Tuning], to: Iterable[str] | None, *, force: bool, as_json: bool
) -> int:
    session.warn_if_busy(study.experiments[0])
    ended = run_study(session, TuneDriver, study, to, force=force)
    status = ended.report(as_json=as_json)
    if ended.is_unfinished and ended.answer.is_known:
        output.aside(f"Resume it with `ammeter resume {ended.study.id}`.")
    return status


def _tuning_plan(kinds: Iterable[str] | None, guard: str, repeats: int, time_limit: str) -> TuningPlan:
    wanted = tuple(dict.fromkeys(kinds or CHANGE_KINDS))
    for kind in wanted:
        if kind not in CHANGE_KINDS:
            message = f"--change is '{shortened(kind)}', which is not a kind of change."
            raise request_error(message, f"Choose from {_KINDS}.", key="change", value=kind, allowed=_KINDS)
    if guard not in ("alike", "none"):
        message, allowed = f"--guard is '{shortened(guard)}', but it must be alike or none.", "alike, none"
        raise request_error(message, "Choose one of them.", key="guard", value=guard, allowed=allowed)
    return TuningPlan(
        kinds=tuple(kind for kind in CHANGE_KINDS if kind in wanted),
        guard="alike" if guard == "alike" else "none",
        repeats=repeats,
        time_limit_seconds=time_limit_seconds(time_limit),
    )
