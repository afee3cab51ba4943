"""Sweeps: the verb `sweep`, `compare` of a grid, `resume` and `show` of a sweep."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

import typer

from engine.cli import options, output
from engine.cli.options import Asked, Precisions, Repeats
from engine.cli.session import (
    DONE,
    FAILED,
    INTERRUPTED,
    Interrupt,
    Session,
    TargetOption,
    accept_code,
    has_gpu,
    open_session,
    trust_all,
    warn_if_busy,
)
from engine.cli.sweep import shown
from engine.cli.sweep.options import (
    DryRun,
    Request,
    Swept,
    TimeLimit,
    ToWithin,
    grid_from,
    is_sweep,
    plan_from,
    typed_code,
)
from engine.compare.evidence import evidence_of
from engine.compare.split import MOST_OTHERS
from engine.experiment.checks import Catalog
from engine.experiment.problem import Problem, ProblemError, request_problem
from engine.experiment.sweep import Grid
from engine.protocol.events import Failed
from engine.store.forecasts import Forecasts
from engine.store.record import Status
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store
from engine.sweep.estimate import estimate_of_grid, fit_of, why_unfit
from engine.sweep.order import SweepEvent, turns
from engine.sweep.results import Results, results_of
from engine.sweep.sweeper import Sweeper
from engine.worker.launcher import Target


@options.takes_settings()
def sweep(
    ctx: typer.Context,
    precision: Precisions = None,
    repeats: Repeats = 1,
    sweep: Swept = None,
    to_within: ToWithin = "",
    time_limit: TimeLimit = "",
    dry_run: DryRun = False,
    name: str | None = None,
    trust_code: options.TrustCode = False,
    as_json: options.AsJson = False,
    target: TargetOption = Target.PROCESS,
) -> int:
    """Train every combination of the values of several settings.

    Each has a short pilot first, then a whole run, then its repeats. Ctrl+C stops a sweep; `ammeter resume
    ID` goes on with it. --json prints id, name, status, plan, spent_seconds, grid (base, axes, compared) and
    cells, each with index, name, values, status, reason, runs, figures, ratio and ratio_ci.
    """
    asked = options.asked(ctx.params)
    options.refuse_limit(asked)
    request = Request(precision or (), sweep or (), plan_from(repeats, to_within, time_limit), dry_run)
    if not is_sweep(asked, request):
        message = "Nothing is swept."
        remedy = "Give a setting several values, such as --sweep batch_size=32,64,128."
        raise ProblemError(request_problem(message, remedy, key="sweep"))
    return compare_grid(asked, request, name=name, trust_code=trust_code, as_json=as_json, target=target)


def compare_grid(
    asked: Asked, request: Request, *, name: str | None, trust_code: bool, as_json: bool, target: Target
) -> int:
    """Trains the cells of a grid, or says of a dry run what it would train; returns the exit status."""
    grid_from(asked, request, on_gpu=True)
    with open_session(target) as session:
        catalog = session.runner.catalog()
        session.raise_if_interrupted()
        on_gpu = has_gpu(asked, catalog)
        grid = grid_from(asked, request, on_gpu=on_gpu)
        experiments = [cell.experiment for cell in grid.cells]
        trusted, named = session.launcher.trusted_code, typed_code(grid, request)
        accept_code(trusted, asked, experiments, on_gpu=on_gpu, accepts_all=trust_code, named=named)
        left_out = _left_out(session, grid, catalog)
        if request.is_dry:
            known = session.store.runs(MOST_OTHERS)
            estimate = estimate_of_grid(grid, request.plan, known, left_out)
            shown.show_plan(grid, request.plan, left_out, estimate, is_json=as_json)
            return DONE
        warn_if_busy(session.watch, experiments[0])
        sweeper = Sweeper(session.store, session.launcher, catalog)
        sweep_id = sweeper.prepare(name or "", grid, request.plan)
        return _carry_on(session, sweeper, sweep_id, as_json=as_json)


def resume_sweep(sweep_id: str, *, trust_code: bool, as_json: bool, target: Target) -> int:
    """Goes on with a saved sweep; returns the exit status."""
    with open_session(target) as session:
        record = session.store.sweeps.find(sweep_id)
        _refuse_ended(record)
        if trust_code:
            trust_all(session.launcher.trusted_code, (cell.experiment for cell in record.grid.cells))
        warn_if_busy(session.watch, record.grid.cells[0].experiment)
        sweeper = Sweeper(session.store, session.launcher)
        return _carry_on(session, sweeper, sweep_id, as_json=as_json)


def show_sweep(store: Store, record: SweepRecord, *, as_json: bool) -> None:
    """Prints a saved sweep as it was printed when it ended."""
    results = _results(store, record)
    if as_json:
        output.json_object(shown.values(record, results))
    else:
        shown.show_results(record, results)


def _results(store: Store, record: SweepRecord) -> Results:
    return results_of(record, evidence_of(store, [run for cell in record.cells for run in cell.runs]))


def _left_out(session: Session, grid: Grid, catalog: Catalog) -> dict[int, str]:
    """Why cells cannot be trained here or will not fit, by index; forecasts that are missing are made."""
    forecasts = Forecasts(session.store.path.parent)
    unknown = fit_of(grid, catalog, forecasts).unknown
    if unknown:
        output.aside("Forecasting the memory of the cells.")
    for experiment in unknown:
        # a cell without a forecast may fit
        with suppress(ProblemError):
            session.runner.forecast(experiment, lambda: session.interrupt.asked)
        session.raise_if_interrupted()
    return why_unfit(grid, catalog, forecasts)


def _refuse_ended(record: SweepRecord) -> None:
    why = "is complete." if next(turns(record), None) is None else shown.time_used(record)
    if why:
        remedy = "Start another sweep to train more."
        raise ProblemError(request_problem(f"{record.name} {why}", remedy, key="run", value=record.id))


def _carry_on(session: Session, sweeper: Sweeper, sweep_id: str, *, as_json: bool) -> int:
    """Trains what is left of a sweep, prints what is known of it, and returns the exit status."""
    session.raise_if_interrupted()
    store, last = session.store, cast(SweepEvent | None, None)
    grid = store.sweeps.find(sweep_id).grid
    with Interrupt(sweeper.stop) as interrupt, shown.SweepProgress(grid) as progress:
        for last in sweeper.carry_on(sweep_id):
            progress.show(last)
            if interrupt.asked:
                # Ctrl+C may have come before the sweep began
                sweeper.stop()
    record = store.sweeps.find(sweep_id)
    results = _results(store, record)
    problem = last.problem if isinstance(last, Failed) else _problem_of_all(record)
    if not as_json:
        shown.show_results(record, results)
    values = shown.values(record, results)
    if problem is not None and not interrupt.asked:
        output.error(problem, as_json, **values)
    elif as_json:
        output.json_object(values)
    if interrupt.asked:
        return INTERRUPTED
    return DONE if problem is None else FAILED


def _problem_of_all(record: SweepRecord) -> Problem | None:
    """Why the first cell failed, where no cell came to the end of a run: a cell that fails stops no other."""
    if any(run.status is Status.FINISHED for cell in record.cells for run in cell.runs):
        return None
    return next((cell.problem for cell in record.cells if cell.problem is not None), None)
