"""Sweeps: their options, the command `sweep`, `compare` of a grid, and `resume` and `show` of a sweep."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Annotated, Any, cast

import typer

from engine.cli import options, output
from engine.cli import sweep_output as shown
from engine.cli.options import Precisions, Repeats, RunOptions, default_precisions, flag
from engine.cli.session import (
    DONE,
    FAILED,
    INTERRUPTED,
    CommandSession,
    Interrupt,
    TargetOption,
    open_session,
    raise_if_left,
    status_of,
)
from engine.compare.evidence import evidence_of
from engine.compare.split import MOST_OTHERS
from engine.experiment.checks import Catalog
from engine.experiment.command import refuse
from engine.experiment.experiment import layered, setting_error, setting_title
from engine.experiment.own.code import Code, code_from
from engine.experiment.problem import ProblemError, request_error
from engine.experiment.sweep import (
    VARIANT,
    Axis,
    AxisValues,
    Grid,
    Plan,
    Value,
    axes_of,
    grid_of,
    values_of_texts,
)
from engine.experiment.value import shortened
from engine.protocol.events import Failed
from engine.store.record import Status
from engine.store.saved.forecasts import Forecasts
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store
from engine.sweep.estimate import estimate_of_grid, exclusion_reasons, fit_of
from engine.sweep.order import SweepEvent, TurnStarted, turns
from engine.sweep.results import Results, results_of
from engine.sweep.sweeper import Sweeper
from engine.worker.launcher import Target

Swept = Annotated[
    list[str] | None,
    flag(
        "--sweep",
        "Train every combination of several settings: --sweep batch_size=32,64,128 --sweep "
        "precision=fp32,bf16. Keys as for --set. Separate values that contain commas by semicolons. In a "
        "TOML file: the table sweep. Repeatable.",
        "KEY=VALUES",
    ),
]
ToWithin = Annotated[
    str,
    typer.Option(
        "--to-within",
        metavar="PERCENT",
        help="Sweep: repeat the least certain combinations until every 95% interval is within this "
        "percentage, e.g. 2%.",
    ),
]
TimeLimit = Annotated[
    str,
    typer.Option(
        "--time-limit",
        metavar="TIME",
        help="Sweep: start no new runs after this time, e.g. 8h, 90m or 1h30m.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Sweep: print the combinations, which of them do not fit, and the expected runs and time, "
        "without training.",
    ),
]


@dataclass(frozen=True)
class SweepOptions:
    """The options of `compare` besides the settings. `swept` are the texts of --sweep.

    `is_dry`: list the runs without training them.
    """

    precisions: Sequence[str]
    swept: Sequence[str]
    plan: Plan
    is_dry: bool = False


def parse_plan(repeats: int, to_within: str, time_limit: str) -> Plan:
    """Parse the plan of a sweep from its options. Raises ProblemError."""
    return Plan(
        repeats=repeats,
        precision_percent=_parse_percent(to_within) if to_within else None,
        time_limit_seconds=time_limit_seconds(time_limit),
    )


def is_sweep(asked: RunOptions, request: SweepOptions) -> bool:
    """Return True if settings are swept, or an option applies only to a sweep."""
    has_axes = request.swept or asked.sweep or (asked.preset is not None and asked.preset.sweep)
    return bool(has_axes) or request.is_dry or request.plan != Plan(repeats=request.plan.repeats)


def grid_from(
    asked: RunOptions, request: SweepOptions, catalog: Catalog | None = None, *, on_gpu: bool
) -> Grid:
    """Return the grid of the options: the preset's variants, then the swept settings.

    Several precisions are an axis, by default also if nothing is swept. With a catalog, "all" devices are
    counted. Raises ProblemError.
    """
    base, preset, precisions = asked.settings(on_gpu), asked.preset, request.precisions
    typed = values_of_texts(request.swept)
    values = _swept_values(asked, precisions, typed, on_gpu=on_gpu)
    if len(precisions) == 1:
        base = layered(base, {"precision": precisions[0]})
    variants: tuple[Axis, ...] = ()
    if preset is not None and not precisions and "precision" not in values:
        variants = tuple(axis for axis in preset.axes(on_gpu) if axis.key == VARIANT)
    if not values and not variants:
        values = {"precision": default_precisions(on_gpu=on_gpu)}
    _refuse_overlap(variants, values)
    axes = axes_of(values, names_dataset=asked.names_dataset, typed=typed)
    return grid_of(base, (*variants, *axes), catalog)


def typed_code(grid: Grid, request: SweepOptions) -> list[Code]:
    """Return the code of the model files named by --sweep, not by a preset or TOML file."""
    if "model" not in values_of_texts(request.swept):
        return []
    texts = (settings.get("code") for axis in grid.axes if axis.key == "model" for settings in axis.overrides)
    return [code_from(text) for text in texts if text is not None]


def _swept_values(
    asked: RunOptions, precisions: Sequence[str], flags: AxisValues, *, on_gpu: bool
) -> AxisValues:
    if precisions and "precision" in flags:
        message = "is given by --precision and by --sweep."
        raise setting_error("precision", message, "Remove one of them.")
    of_preset = asked.preset.sweep_for(on_gpu) if asked.preset is not None else {}
    fixed = {"precision": precisions[0]} if len(precisions) == 1 else {}
    config, *later = asked.over
    values = _values_without_flags({**_values_without_flags(of_preset, config), **asked.sweep}, fixed, *later)
    first: dict[str, tuple[Value, ...]] = {"precision": tuple(precisions)} if len(precisions) > 1 else {}
    return {**first, **values, **first, **flags}


def _values_without_flags(values: AxisValues, *layers: Mapping[str, Any]) -> dict[str, tuple[Value, ...]]:
    return {key: given for key, given in values.items() if not any(_is_set(layer, key) for layer in layers)}


def _is_set(layer: Mapping[str, Any], key: str) -> bool:
    part, _, rest = key.partition(".")
    if part not in layer:
        return False
    below = layer[part]
    return not rest or (isinstance(below, Mapping) and _is_set(below, rest))


def _refuse_overlap(variants: Sequence[Axis], values: AxisValues) -> None:
    for axis in variants:
        key = next((key for key in values if any(_is_set(layer, key) for layer in axis.overrides)), None)
        if key is not None:
            message = "is swept, but the variants of the preset also set it."
            remedy = "Give --precision, which replaces the variants."
            raise setting_error(key, message, remedy, value=setting_title(key))


_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%?")
_TIME = re.compile(r"(?:(\d{1,9})d)?\s*(?:(\d{1,9})h)?\s*(?:(\d{1,9})m(?:in)?)?\s*(?:(\d{1,9})s)?")
_UNITS = (86_400, 3_600, 60, 1)
_MOST_SECONDS = 1e9


def _parse_percent(text: str) -> float:
    match = _PERCENT.fullmatch(text.strip())
    percent = float(match[1]) if match else 0.0
    if not 0 < percent <= 100:
        message = f"--to-within is '{shortened(text)}', but it must be more than 0% and at most 100%."
        remedy = "Write it as --to-within 2%."
        raise request_error(message, remedy, key="to_within", value=text)
    return percent


def time_limit_seconds(text: str) -> float | None:
    """Parse --time-limit to seconds. None if it is empty. Raises ProblemError."""
    if not text:
        return None
    match = _TIME.fullmatch(text.strip().lower())
    parts = [] if match is None else match.groups(default="0")
    seconds = sum(int(part) * unit for part, unit in zip(parts, _UNITS, strict=False))
    if not 0 < seconds <= _MOST_SECONDS:
        message = f"--time-limit is '{shortened(text)}', but it must be a time such as 8h, 90m or 45s."
        remedy = "Write it as --time-limit 8h."
        raise request_error(message, remedy, key="time_limit", value=text)
    return float(seconds)


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

    Each gets a short pilot, then a full run, then its repeats. Ctrl+C stops a sweep, and `ammeter resume ID`
    resumes it. --json prints id, name, status, plan, spent_seconds, grid (base, axes, compared) and cells,
    each with index, name, values, status, reason, runs, figures, ratio and ratio_ci.
    """
    asked = options.parse(ctx.params)
    options.refuse_limit(asked)
    request = SweepOptions(precision or (), sweep or (), parse_plan(repeats, to_within, time_limit), dry_run)
    if not is_sweep(asked, request):
        message = "No setting has several values."
        remedy = "Add a setting with several values, such as --sweep batch_size=32,64,128."
        raise request_error(message, remedy, key="sweep")
    return compare_grid(asked, request, name=name, trust_code=trust_code, as_json=as_json, target=target)


def compare_grid(
    asked: RunOptions,
    request: SweepOptions,
    *,
    name: str | None,
    trust_code: bool,
    as_json: bool,
    target: Target,
) -> int:
    """Train the cells of a grid, or only print them in a dry run. Return the exit status."""
    cells = grid_from(asked, request, on_gpu=True).cells
    refuse("sweep", (cell.experiment.command for cell in cells))
    with open_session(target, asked.machine) as session:
        catalog, on_gpu = session.catalog, session.on_gpu(asked)
        grid = grid_from(asked, request, catalog, on_gpu=on_gpu)
        experiments = [cell.experiment for cell in grid.cells]
        named = typed_code(grid, request)
        session.accept(asked, experiments, on_gpu=on_gpu, trusts_all=trust_code, named=named)
        excluded = _excluded(session, grid, catalog)
        if request.is_dry:
            known = session.store.runs(MOST_OTHERS)
            estimate = estimate_of_grid(grid, request.plan, known, excluded)
            shown.show_plan(grid, request.plan, excluded, estimate, is_json=as_json)
            return DONE
        session.warn_if_busy(experiments[0])
        sweeper = Sweeper(session.store, session.launcher, catalog)
        sweep_id = sweeper.prepare(name or "", grid, request.plan)
        return _run_sweep(session, sweeper, sweep_id, as_json=as_json)


def resume_sweep(session: CommandSession, sweep_id: str, *, trust_code: bool, as_json: bool) -> int:
    """Resume a saved sweep, and return the exit status."""
    record = session.store.sweeps.find(sweep_id)
    if why := "is complete." if next(turns(record), None) is None else shown.time_used(record):
        remedy = "Start another sweep to train more."
        raise request_error(f"{record.name} {why}", remedy, key="run", value=record.id)
    if trust_code:
        session.trust(cell.experiment for cell in record.grid.cells)
    session.warn_if_busy(record.grid.cells[0].experiment)
    sweeper = Sweeper(session.store, session.launcher)
    return _run_sweep(session, sweeper, sweep_id, as_json=as_json)


def show_sweep(store: Store, record: SweepRecord, *, as_json: bool) -> None:
    """Print a saved sweep as it was printed when it ended."""
    results = _sweep_results(store, record)
    if as_json:
        output.json_object(shown.values(record, results))
    else:
        shown.show_results(record, results)


def _sweep_results(store: Store, record: SweepRecord) -> Results:
    return results_of(record, evidence_of(store, [run for cell in record.cells for run in cell.runs]))


def _excluded(session: CommandSession, grid: Grid, catalog: Catalog) -> dict[int, str]:
    forecasts = Forecasts(session.store.path.parent, session.launcher.site.name)
    unknown = fit_of(grid, catalog, forecasts).unknown
    if unknown:
        output.aside("Estimating the memory of the combinations.")
    for experiment in unknown:
        # a cell without a forecast may fit
        with suppress(ProblemError):
            session.runner.forecast(experiment, lambda: session.interrupt.asked)
        session.raise_if_interrupted()
    return exclusion_reasons(grid, catalog, forecasts)


def _run_sweep(session: CommandSession, sweeper: Sweeper, sweep_id: str, *, as_json: bool) -> int:
    session.raise_if_interrupted()
    store, last = session.store, cast(SweepEvent | None, None)
    grid = store.sweeps.find(sweep_id).grid
    run_id = ""
    try:
        with (
            Interrupt(sweeper.stop, machine=session.machine) as interrupt,
            shown.SweepProgress(grid) as progress,
            closing(sweeper.run(sweep_id)) as events,
        ):
            for last in interrupt.watch(events):
                progress.show(last)
                run_id = (last.turn.run_id or "") if isinstance(last, TurnStarted) else run_id
    except KeyboardInterrupt:
        raise_if_left(session, run_id, store.sweeps.find(sweep_id).name, sweep_id)
        raise
    record = store.sweeps.find(sweep_id)
    results = _sweep_results(store, record)
    problem = last.problem if isinstance(last, Failed) else None
    if problem is None and not any(
        run.status is Status.FINISHED for cell in record.cells for run in cell.runs
    ):
        # a cell that fails stops no other, so why the first one failed matters where none came to an end
        problem = next((cell.problem for cell in record.cells if cell.problem is not None), None)
    if not as_json:
        shown.show_results(record, results)
    values = shown.values(record, results)
    if problem is not None and not interrupt.asked:
        output.error(problem, as_json, **values)
    elif as_json:
        output.json_object(values)
    if interrupt.asked:
        return INTERRUPTED
    return FAILED if problem is not None else status_of(run for cell in record.cells for run in cell.runs)
