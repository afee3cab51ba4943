"""The commands for saved results: `results`, `show`, `delete`, `export` and `import`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cache, partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from engine.cli import output
from engine.cli import sweep_output as shown
from engine.cli.options import AsJson, Force
from engine.cli.session import RUN, SWEEP, Id, Ids, Match, failure_in, find, saved_results
from engine.cli.study import OUTPUTS, show_study
from engine.cli.sweep import show_sweep
from engine.compare.comparison import compare
from engine.compare.evidence import Evidence
from engine.compare.failure import Failure
from engine.compare.requirement import Judgement, judge_saved
from engine.drawing.looks import BYS, CHART_NAMES, RACE, THEME_NAMES
from engine.experiment.problem import ProblemError, request_error, unknown_name
from engine.experiment.value import shortened
from engine.export import formats
from engine.export.archive.reader import import_archive
from engine.export.content import Content, Write, content_of
from engine.export.formats import COMPARISON, is_mlflow, written_clause
from engine.export.race import RACE_SUFFIXES, race_writer
from engine.export.writers.data import json_column
from engine.store.record import RunRecord, UnreadableRun
from engine.store.saved.studies import ANSWERS, Study, StudyEntry
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store
from engine.words.names import applying_settings, as_typed
from engine.words.numbers import NONE, counted
from resources.looks import DARK, LIGHT

_ROWS_SHOWN = 20
_PAGE_ROWS = 500
_KINDS = (RUN, SWEEP, *ANSWERS)
_Most = Annotated[int | None, typer.Option("--limit", min=1, help="List at most N results.", metavar="N")]
_Result = RunRecord | SweepRecord | StudyEntry


def results(
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help=f"List only one kind: {', '.join(_KINDS)}.")
    ] = None,
    limit: _Most = None,
    as_json: AsJson = False,
) -> int:
    """List the saved runs, sweeps and studies (limit, numerics, profile, tune), newest first."""
    if kind not in (None, *_KINDS):
        raise ProblemError(unknown_name("kind", kind or "", _KINDS, "kind of result"))
    unreadable: list[UnreadableRun] = []
    with saved_results() as store:
        listed = islice(_saved_results(store, kind, unreadable), limit)
        if as_json:
            _print_json(listed, unreadable)
        else:
            _print_table(store, listed, unreadable)
    return 0


def _saved_results(store: Store, kind: str | None, unreadable: list[UnreadableRun]) -> Iterator[_Result]:
    """Yield the results of a kind, newest first. Runs that cannot be read go to `unreadable`.

    They are read in pages: all at once, a hundred thousand runs took gigabytes.
    """
    others: list[_Result] = [*store.sweeps.bare.newest(), *store.studies.newest()]
    order: list[tuple[float, str | _Result]] = [
        (each.created.timestamp(), each) for each in others if kind in (None, _result_kind(each))
    ]
    order += store.times() if kind in (None, RUN) else []
    order.sort(key=itemgetter(0), reverse=True)
    for first in range(0, len(order), _PAGE_ROWS):
        page = [each for _, each in order[first : first + _PAGE_ROWS]]
        runs = {run.id: run for run in store.some([each for each in page if isinstance(each, str)])}
        for each in page:
            found = runs.get(each) if isinstance(each, str) else each
            if isinstance(found, UnreadableRun):
                unreadable.append(found)
            elif found is not None:
                yield found


def _print_json(listed: Iterable[_Result], unreadable: list[UnreadableRun]) -> None:
    others: list[_Result] = []

    def runs() -> Iterator[dict[str, Any]]:
        for each in listed:
            if isinstance(each, RunRecord):
                yield each.to_dict()
            else:
                others.append(each)

    output.json_object_of("runs", runs(), lambda: _other_results_json(others) | _unreadable_json(unreadable))


def _other_results_json(results: Sequence[_Result]) -> dict[str, Any]:
    return {
        "sweeps": [shown.overview(each) for each in results if isinstance(each, SweepRecord)],
        "studies": [
            asdict(each) | {"created": each.created.isoformat()}
            for each in results
            if isinstance(each, StudyEntry)
        ],
    }


def _print_table(store: Store, listed: Iterator[_Result], unreadable: list[UnreadableRun]) -> None:
    page = [*islice(listed, _PAGE_ROWS)]
    is_empty, is_long = not page, len(page) == _PAGE_ROWS
    decide = cache(partial(_decide, store))
    while page:
        headings, rows = ["Id", "Kind", "When", "Title", "Result"], [_row(each, decide) for each in page]
        if any(each.machine for each in page):
            headings.append("Machine")
            rows = [(*row, each.machine) for row, each in zip(rows, page, strict=True)]
        (output.long_table if is_long else output.table)(headings, rows)
        page = [*islice(listed, _PAGE_ROWS)]
    _warn(unreadable)
    if is_empty and not unreadable:
        output.line("No saved results yet. Create one with `ammeter run --preset hello-amp`.")


def _result_kind(result: _Result) -> str:
    if isinstance(result, RunRecord):
        return RUN
    return SWEEP if isinstance(result, SweepRecord) else result.kind


def _row(result: _Result, decide: Callable[[str], Judgement]) -> tuple[str, ...]:
    if isinstance(result, RunRecord):
        title = f"{shortened(result.name)}: {output.title(result)}"
        outcome = ", ".join(filter(None, (output.run_outcome(result), _judgement(result, decide).words)))
    elif isinstance(result, SweepRecord):
        title = f"{shortened(result.name)}: {', '.join(axis.title for axis in result.grid.axes)}"
        outcome = f"{counted(result.grid.size, 'combination')}, {shown.status(result)}"
    else:
        title, outcome = result.title, result.digest or (NONE if result.is_over else "unfinished")
    return result.id, _result_kind(result), output.when(result.created), title, outcome


def _judgement(run: RunRecord, decide: Callable[[str], Judgement]) -> Judgement:
    """Return the outcomes of the requirements that a run was started with. Those of models are not saved."""
    if run.comparison is None or not run.experiment.command.require:
        return Judgement(())
    return decide(run.comparison)


def _decide(store: Store, comparison: str) -> Judgement:
    # what varies within a run decides nothing
    return judge_saved(compare([Evidence(run, np.empty(0), ()) for run in store.of_comparison(comparison)]))


def _unreadable_json(unreadable: Sequence[UnreadableRun]) -> dict[str, Any]:
    entries = [{"id": run.id, "name": run.name, "message": run.why} for run in unreadable]
    return {"unreadable": entries} if entries else {}


def _warn(unreadable: Iterable[UnreadableRun]) -> None:
    for run in unreadable:
        output.warning(f"{run.name} ({run.id}) is skipped. {run.why}")


def show(
    id_: Id,
    samples: Annotated[
        bool, typer.Option("--samples", help="Run: add the curves, one value per step.")
    ] = False,
    code: Annotated[
        bool,
        typer.Option(
            "--code", help="Run: print only its model file with the modules next to it, or its command."
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show a run (settings, environment, summary), a sweep or a study."""
    with saved_results() as store:
        found = find(store, id_)
        if found.kind != RUN and (samples or code):
            option = "samples" if samples else "code"
            message = f"--{option} applies to runs, but {found.id} is a {found.kind}."
            raise request_error(message, f"Remove --{option}.", key=option, value=id_)
        if found.kind == RUN:
            _show_run(store, found.id, samples=samples, code=code, as_json=as_json)
        elif found.kind == SWEEP:
            show_sweep(store, store.sweeps.find(found.id), as_json=as_json)
        else:
            show_study(store.studies.find(found.id), as_json=as_json)
    return 0


def _show_run(store: Store, run_id: str, *, samples: bool, code: bool, as_json: bool) -> None:
    record = store.run(run_id)
    columns = store.samples(run_id) if samples else None
    command = record.experiment.command if code and record.experiment.is_script else None
    own = record.experiment.own_code if code and command is None else None
    if code and own is None and command is None:
        model = record.experiment.model
        message = f"{record.name} has no model file: {model} is a model of the catalog."
        remedy = "Remove --code, or name a run of a model file."
        raise request_error(message, remedy, key="code", value=record.id)
    judgement = _judgement(record, partial(_decide, store))
    if as_json:
        value = record.to_dict() | (judgement.to_dict() if judgement.outcomes else {})
        if columns is not None:
            value["samples"] = {name: json_column(values) for name, values in columns.items()}
        if own is not None:
            value["code"] = {**own.model_dump(), "sha256": own.sha256}
        if command is not None:
            value["code"] = {**command.model_dump(), "sha256": command.sha256}
        output.json_object(value)
    elif command is not None:
        output.source(command.whole_text)
    elif own is not None:
        output.source(own.text)
        for name, text in own.beside.items():
            output.source(f"\n# {name}, next to {own.file}\n{text}")
    else:
        _print_run(record, columns, failure_in(store, record))
        if judgement.outcomes:
            output.line("\nRequirements")
        for outcome in judgement.outcomes:
            output.line(outcome.sentence)


def delete(ids: Ids, as_json: AsJson = False) -> int:
    """Delete runs, sweeps or studies. The runs of a deleted sweep or study are kept."""
    with saved_results(writes=True) as store:
        found = list(dict.fromkeys(find(store, start) for start in ids))
        names = {each.id: _name(store, each) for each in found}
        store.remove(each.id for each in found if each.kind == RUN)
        for each in found:
            if each.kind != RUN:
                (store.sweeps if each.kind == SWEEP else store.studies).delete(each.id)
    lines = (f"Deleted {name} ({result_id})." for result_id, name in names.items())
    output.outcome(as_json, {"deleted": list(names)}, *lines)
    return 0


def _name(store: Store, found: Match) -> str:
    if found.kind == RUN:
        return store.name(found.id)[1]
    if found.kind == SWEEP:
        return f"{store.sweeps.find(found.id).name}, whose runs are kept"
    return store.studies.find(found.id).name


def _print_run(run: RunRecord, columns: dict[str, NDArray[Any]] | None, failure: Failure | None) -> None:
    output.run_summary(run)
    if failure is not None:
        output.line()
        for line in failure.lines():
            output.line(line)
    if run.tags:
        output.line(f"\nTags: {', '.join(run.tags)}")
    if run.note:
        output.line(f"\n{run.note}")
    output.line("\nSettings")
    output.pairs((key, as_typed(value)) for key, value in applying_settings(run.experiment).items())
    if run.environment is not None:
        output.line("\nEnvironment")
        output.pairs((key, as_typed(value)) for key, value in run.environment.model_dump().items())
    if columns:
        _show_curves(columns)


def _show_curves(columns: dict[str, NDArray[Any]]) -> None:
    rows = len(next(iter(columns.values())))
    chosen = np.unique(np.linspace(0, rows - 1, min(rows, _ROWS_SHOWN)).astype(int))
    output.line(f"\nCurves: {len(chosen)} of {rows:,} steps (--json prints all)")
    cells = [[f"{columns[name][row]:,.6g}" for name in columns] for row in chosen]
    output.table(list(columns), cells, list(columns))


To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="PATH",
        help=f"File to write, in the format of its ending: {COMPARISON.endings}. A path that ends in / is a"
        " TensorBoard folder. mlflow:FOLDER or mlflow:http://HOST:PORT logs to MLflow.",
    ),
]
Baseline = Annotated[
    str | None, typer.Option("--baseline", metavar="RUN", help="Run that the others are compared with.")
]
Lead = Annotated[
    str | None,
    typer.Option("--lead", metavar="RUN", help="Run that leads the report and is replayed."),
]
Title = Annotated[str, typer.Option("--title", metavar="TEXT", help="Title of the report.")]
_PLOTS = (*CHART_NAMES, RACE)
Plot = Annotated[
    str | None,
    typer.Option(
        "--plot",
        metavar="NAME",
        help=f"Image: the chart, one of {', '.join(CHART_NAMES)}, or race for the replay.",
    ),
]
Against = Annotated[
    str | None,
    typer.Option("--by", metavar="AXIS", help=f"Image: the x axis of curves, one of {', '.join(BYS)}."),
]
Theme = Annotated[
    str | None,
    typer.Option(
        "--theme",
        metavar="NAME",
        help=f"Image: {' or '.join(THEME_NAMES)}. Default: light for charts, dark for a replay.",
    ),
]


def export(
    ids: Ids,
    to: To,
    baseline: Baseline = None,
    lead: Lead = None,
    title: Title = "",
    plot: Plot = None,
    by: Against = None,
    theme: Theme = None,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Export runs as a report, table, image, replay, script or archive.

    Export each sweep or study by itself: as a report, images, tables or other formats of its kind.
    """
    with saved_results() as store:
        found = find(store, ids[0])
        if found.kind != RUN:
            of_runs = (*ids[1:], baseline, lead, title, plot, by, theme)
            _export_alone(store, found, to, force, as_json, has_more=any(of_runs))
            return 0
        image = _image_writer(to, plot, by, theme)
        content = content_of(store, ids, baseline, lead, title)
        sentences = _write_runs(content, to, image, force)
    output.outcome(as_json, {"to": to, "runs": [run.id for run in content.runs]}, *sentences)
    return 0


def _export_alone(store: Store, found: Match, to: str, force: bool, as_json: bool, *, has_more: bool) -> None:
    if has_more:
        message = f"A {found.kind} is exported by itself, with only the options --to and --force."
        raise request_error(message, "Remove the rest.", key="id", value=found.id)
    result: SweepRecord | Study[Any]
    if found.kind == SWEEP:
        result = store.sweeps.find(found.id)
        files = formats.SWEEP.export_files(result, to, force=force)
    else:
        result = store.studies.find(found.id)
        files = OUTPUTS[result.kind].formats.export_files(result, to, force=force)
    output.outcome(
        as_json,
        {"to": to, found.kind: found.id},
        f"Wrote {result.name} to {files[0]}{written_clause(files)}.",
    )


def _write_runs(content: Content, to: str, image: Write | None, force: bool) -> tuple[str, ...]:
    if is_mlflow(to):
        # its client takes a second to load
        from engine.export.mlflow import log_runs

        return log_runs(content, to).sentences
    files = COMPARISON.export_files(content, to, force=force, write=image)
    return (f"Wrote {counted(len(content.runs), 'run')} to {files[0]}{written_clause(files)}.",)


def _image_writer(to: str, plot: str | None, by: str | None, theme: str | None) -> Write | None:
    form = None if is_mlflow(to) else COMPARISON.format_for(to)
    if plot is None and by is None and theme is None:
        return None
    if form is None or form.suffix not in RACE_SUFFIXES:
        message = "--plot, --by and --theme apply to images only."
        remedy = "End the path in .png or .svg."
        raise request_error(message, remedy, key="plot", value=plot)
    if plot is not None and plot not in _PLOTS:
        raise ProblemError(unknown_name("plot", plot, _PLOTS, "plot"))
    axes = tuple(name for name in BYS if name == (by or "seconds"))
    if not axes:
        raise ProblemError(unknown_name("by", by or "", BYS, "axis"))
    themes = tuple(name for name in THEME_NAMES if name == theme)
    if theme is not None and not themes:
        raise ProblemError(unknown_name("theme", theme, THEME_NAMES, "theme"))
    if plot == RACE or (form.is_race and plot is None and by is None):
        return race_writer(form.suffix, *themes)
    if form.is_race:
        message = f"A {form.suffix} file can only show a replay."
        remedy = "End the path in .png or .svg, or remove --plot and --by."
        raise request_error(message, remedy, key="plot", value=plot)
    # imported here, because exporting a table should not wait for the drawing libraries
    from engine.export.report.charts import SHEET, write_picture

    charts = tuple(name for name in CHART_NAMES if name == plot) or SHEET
    palette = DARK if themes == ("dark",) else LIGHT
    return partial(write_picture, charts=charts, by=axes[0], palette=palette)


ArchivePath = Annotated[
    Path, typer.Argument(metavar="FILE.ammeter", help="Archive from `ammeter export` or the window.")
]


def import_(file: ArchivePath, as_json: AsJson = False) -> int:
    """Import the runs of an archive: all of them, or none if anything in it is wrong."""
    with saved_results(writes=True) as store:
        imported = import_archive(store, file)
    note = ", a new id because another run has the old one"
    lines = [
        *(f"Imported {run.name} ({run.id}){note * (run in imported.copies)}." for run in imported.added),
        *(f"Already saved: {run.name} ({run.id})." for run in imported.already_here),
    ]
    value = {
        "imported": [run.to_dict() for run in imported.added],
        "already_here": [run.to_dict() for run in imported.already_here],
    }
    output.outcome(as_json, value, *(lines or ["The archive has no runs."]))
    return 0
