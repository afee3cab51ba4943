"""The verb `limit`."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.cli import options
from engine.cli.options import sides_of
from engine.cli.session import accept_code, has_gpu
from engine.cli.study import follow, open_desk
from engine.export.formats import LIMIT
from engine.limit.driver import DEFAULT_MARGIN, LimitDriver
from engine.protocol.trials import Limit, LimitSide
from engine.store.saved.study import Study


@options.takes_settings("batch_size", "epochs", "steps", "lr", "name")
def limit(
    ctx: typer.Context,
    precision: Annotated[
        list[str] | None,
        options.flag(
            "--precision",
            f"A precision to try. Repeatable. {options.PRECISIONS} {options.DEFAULT_PRECISIONS}",
            "NAME",
        ),
    ] = None,
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
    to: Annotated[list[str] | None, options.export_option(LIMIT)] = None,
    force: options.Force = False,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
) -> int:
    """Find the largest batch that fits, in each precision."""
    asked = options.asked(ctx.params)
    sides_of(asked, precision, on_gpu=True)
    LIMIT.check(to or (), force=force)
    with open_desk() as desk:
        on_gpu = has_gpu(asked, desk.catalog)
        sides = sides_of(asked, precision, on_gpu=on_gpu)
        experiments = [experiment for _, experiment in sides]
        accept_code(desk.launcher.trusted_code, asked, experiments, on_gpu=on_gpu, accepts_all=trust_code)
        wanted = Limit(
            sides=tuple(
                LimitSide(label=label, experiment=experiment, granularity=granularity)
                for label, experiment in sides
            ),
            margin_fraction=margin,
        )
        followed = follow(LimitDriver(desk.store, desk.launcher, desk.catalog), Study(answer=wanted))
        followed.export(to, force=force)
    return followed.tell(as_json=as_json)
