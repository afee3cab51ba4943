"""The verb `numerics`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from engine.cli import options
from engine.cli.options import Asked
from engine.cli.session import TargetOption, accept_code, has_gpu
from engine.cli.study import Desk, follow, open_desk
from engine.experiment.experiment import Experiment, experiment_from
from engine.export.formats import NUMERICS
from engine.numerics.driver import NumericsDriver, trouble_step
from engine.protocol.numerics.numerics import USUAL_PARTS, Numerics, Part
from engine.store.record import RunRecord
from engine.store.saved.study import Study
from engine.worker.launcher import Target


def _part(name: str, text: str) -> Any:
    return typer.Option(f"--{name}", help=text, rich_help_panel="Parts")


@options.takes_settings("name")
def numerics(
    ctx: typer.Context,
    map_: Annotated[bool, _part("map", "Which operation computes in which format, and the casts.")] = False,
    range_: Annotated[
        bool, _part("range", "What FP16, BF16 and FP8 would round to 0 or make infinite, by module.")
    ] = False,
    nan: Annotated[
        bool,
        _part("nan", "The first NaN or Inf, through all steps of the experiment."),
    ] = False,
    ladder: Annotated[
        bool, _part("ladder", "Where FP16 without and with a loss scaler, and BF16, part from FP32.")
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
    named = _named({"map": map_, "range": range_, "nan": nan, "ladder": ladder, "islands": islands})
    if not named and asked.preset is not None:
        named = asked.preset.parts
    if run is not None:
        options.refuse_settings(asked, run, "looked at")
    experiment_from(asked.settings(True))
    NUMERICS.check(to or (), force=force)
    with open_desk(target) as desk:
        saved = None if run is None else desk.store.run(run)
        experiment = _experiment(desk, asked, saved, accepts_all=trust_code)
        goes_on = bool(named) or (saved is not None and trouble_step(desk.store, saved) is not None)
        wanted = Numerics(
            experiment=experiment,
            parts=named or USUAL_PARTS,
            run_id=None if saved is None else saved.id,
            steps=None if goes_on else 1,
        )
        driver = NumericsDriver(desk.store, desk.launcher, desk.catalog)
        followed = follow(driver, Study(answer=wanted))
        followed.export(to, force=force)
    nan_part = followed.answer.results.nan
    return followed.tell(as_json=as_json, is_failure=nan_part is not None and nan_part.first is not None)


def _named(flags: dict[Part, bool]) -> tuple[Part, ...]:
    return tuple(part for part, is_named in flags.items() if is_named)


def _experiment(desk: Desk, asked: Asked, saved: RunRecord | None, *, accepts_all: bool) -> Experiment:
    """The experiment whose code may run here. Raises ProblemError."""
    on_gpu = has_gpu(asked, desk.catalog)
    experiment = experiment_from(asked.settings(on_gpu)) if saved is None else saved.experiment
    accept_code(desk.launcher.trusted_code, asked, [experiment], on_gpu=on_gpu, accepts_all=accepts_all)
    return experiment
