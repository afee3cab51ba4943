"""The verb `probe`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from engine.cli import options
from engine.cli.options import sides_of
from engine.cli.session import accept_code, has_gpu
from engine.cli.study import follow, open_desk
from engine.export.sections.section import Section
from engine.limit.driver import DEFAULT_MARGIN, LimitDriver
from engine.limit.result import outcome
from engine.protocol.trials import Limit, LimitSide, Trial
from engine.store.saved.study import Study


@options.takes_settings("batch_size", "epochs", "steps", "lr", "name")
def probe(
    ctx: typer.Context,
    precision: Annotated[
        list[str] | None,
        options.flag(
            "--precision",
            f"A precision to search in. Repeatable. {options.PRECISIONS} {options.DEFAULT_PRECISIONS}",
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
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
) -> int:
    """Find the largest batch that fits, in each precision."""
    asked = options.asked(ctx.params)
    sides_of(asked, precision, on_gpu=True)
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
    limit = followed.answer
    values = {"results": [_values(followed.study.id, side) for side in limit.sides if side.result]}
    return followed.tell(list(_sections(limit)), values, as_json=as_json)


def _values(study_id: str, side: LimitSide) -> dict[str, Any]:
    result = {} if side.result is None else json.loads(side.result.model_dump_json())
    return {"id": study_id, "label": side.label, **result}


def _sections(limit: Limit) -> Iterator[Section]:
    for side in limit.sides:
        result = side.result
        if result is None:
            continue
        advice = f"With a margin: {result.recommended_batch:,}." if result.recommended_batch else None
        yield Section(
            f"{side.label}: {len(result.trials)} trials in {result.seconds:,.1f} s",
            (),
            _HEADINGS,
            tuple(map(_row, result.trials)),
            right=("Batch", "Peak, MiB", "Seconds"),
            notes=tuple(filter(None, (advice, result.note))),
        )
    yield Section("Result", (limit.digest,))


_HEADINGS = ("Batch", "Outcome", "Peak, MiB", "Seconds")


def _row(trial: Trial) -> tuple[str, ...]:
    peak = "–" if trial.peak_mib is None else f"{trial.peak_mib:,.0f}"
    return f"{trial.batch_size:,}", outcome(trial), peak, f"{trial.seconds:,.1f}"
