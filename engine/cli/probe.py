"""The verb `probe`."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from engine.cli import options, output
from engine.cli.options import sides_of
from engine.cli.session import (
    DONE,
    FAILED,
    INTERRUPTED,
    Interrupt,
    ProbeProgress,
    accept_code,
    has_gpu,
    read_catalog,
)
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.export.formats import LIMIT
from engine.export.kinds.limit import LimitSide, section
from engine.limit.prober import DEFAULT_MARGIN, Prober
from engine.limit.result import sentence
from engine.protocol.events import Failed
from engine.protocol.trials import ProbeEnded, ProbeResult
from engine.runner import Runner
from engine.store.store import Store
from engine.worker.launcher import Launcher

Side = tuple[str, Experiment]


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
    to: Annotated[list[str] | None, options.export_option(LIMIT)] = None,
    force: options.Force = False,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
) -> int:
    """Find the largest batch that fits, in each precision."""
    asked = options.asked(ctx.params)
    sides_of(asked, precision, on_gpu=True)
    LIMIT.check(to or (), force=force)
    with Store() as store, Launcher() as launcher:
        store.check_writable()
        catalog = read_catalog(Runner(store, launcher))
        on_gpu = has_gpu(asked, catalog)
        sides = sides_of(asked, precision, on_gpu=on_gpu)
        experiments = [experiment for _, experiment in sides]
        accept_code(launcher.trusted_code, asked, experiments, on_gpu=on_gpu, accepts_all=trust_code)
        prober = Prober(store, launcher, catalog)
        with Interrupt(prober.stop) as interrupt:
            searched = _search(prober, sides, granularity, margin, interrupt)
        records = [store.probes.find(search.probe_id) for search in searched.searches]
        for path in to or () if records else ():
            LIMIT.export(records, path, force=force)
    return _print_outcome(searched, as_json, interrupt.asked)


@dataclass(frozen=True)
class _Search:
    probe_id: str
    side: LimitSide
    result: ProbeResult


@dataclass(frozen=True)
class _Outcome:
    searches: tuple[_Search, ...]
    problem: Problem | None


def _search(
    prober: Prober, sides: list[Side], granularity: int, margin: float, interrupt: Interrupt
) -> _Outcome:
    searches: list[_Search] = []
    problem: Problem | None = None
    series = secrets.token_hex(6)
    for label, experiment in sides:
        if interrupt.asked:
            break
        with ProbeProgress(label) as progress:
            for event in prober.probe(experiment, granularity, margin, series=series):
                progress.show(event)
                if isinstance(event, ProbeEnded):
                    side = LimitSide(label, experiment.precision, event.result.trials, event.result)
                    searches.append(_Search(event.probe_id, side, event.result))
                elif isinstance(event, Failed):
                    if event.problem.kind is Kind.REQUEST and not searches:
                        raise ProblemError(event.problem)
                    problem = problem or event.problem
                if interrupt.asked:
                    # Ctrl+C may have come before the search began
                    prober.stop()
    return _Outcome(tuple(searches), problem)


def _print_outcome(outcome: _Outcome, as_json: bool, interrupted: bool) -> int:
    if not as_json:
        _print_searches(outcome.searches)
    results = {"results": [_dict(search) for search in outcome.searches]}
    if outcome.problem is not None:
        output.error(outcome.problem, as_json, **results)
    elif as_json:
        output.json_object(results)
    if interrupted:
        return INTERRUPTED
    return FAILED if outcome.problem is not None else DONE


def _dict(search: _Search) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(search.result.model_dump_json())
    return {"id": search.probe_id, "label": search.side.label, **values}


def _print_searches(searches: tuple[_Search, ...]) -> None:
    sides = [search.side for search in searches]
    output.sections(map(section, sides))
    if sides:
        output.line(f"\n{sentence(sides)}")
