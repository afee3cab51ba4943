"""The verb `profile`."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.cli import options
from engine.cli.options import Asked, sides_of
from engine.cli.session import TargetOption, accept_code, has_gpu, warn_if_busy
from engine.cli.study import Desk, follow, open_desk
from engine.experiment.experiment import Experiment
from engine.export.formats import PROFILE, TRACES
from engine.profile.driver import ProfileDriver
from engine.protocol.profiles import profiles_of
from engine.store.record import RunRecord
from engine.store.saved.study import Study
from engine.worker.launcher import Target


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
    help next, and how close it comes to the device's limits, which are measured. The study is saved.
    """
    asked = options.asked(ctx.params)
    if run:
        options.refuse_settings(asked, run[0], "profiled", precisions=precision or ())
    else:
        sides_of(asked, precision, on_gpu=True)
    traces = [] if trace is None else [trace]
    PROFILE.check(to or (), force=force)
    TRACES.check(traces, force=force)
    with open_desk(target) as desk:
        saved = [desk.store.run(run_id) for run_id in run or ()]
        experiments = _experiments(desk, asked, precision, saved, accepts_all=trust_code)
        warn_if_busy(desk.watch, experiments[0])
        wanted = profiles_of(experiments, [known.id for known in saved])
        followed = follow(ProfileDriver(desk.store, desk.launcher, desk.catalog), Study(answer=wanted))
        followed.export((*(to or ()), *traces), force=force)
    problems = (side.problem for side in followed.answer.sides)
    return followed.tell(as_json=as_json, failed_part=next(filter(None, problems), None))


def _experiments(
    desk: Desk, asked: Asked, precisions: list[str] | None, saved: list[RunRecord], *, accepts_all: bool
) -> list[Experiment]:
    """The sides' experiments, whose code may run here. Raises ProblemError."""
    on_gpu = has_gpu(asked, desk.catalog)
    sides = [] if saved else sides_of(asked, precisions, on_gpu=on_gpu)
    experiments = [known.experiment for known in saved] or [experiment for _, experiment in sides]
    accept_code(desk.launcher.trusted_code, asked, experiments, on_gpu=on_gpu, accepts_all=accepts_all)
    return experiments
