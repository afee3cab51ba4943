"""The verbs for saved runs: `runs`, `show`, `delete`, `export` and `import`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from engine.cli import output
from engine.cli.options import AsJson, Published
from engine.drawing.looks import BYS, CHART_NAMES, RACE, THEME_NAMES, By, ThemeName
from engine.experiment.own.code import Code
from engine.experiment.problem import ProblemError, request_problem, unknown_name
from engine.experiment.text import shortened
from engine.export.archive.reader import Imported, import_archive
from engine.export.content import Content, Write, content_of
from engine.export.formats import COMPARISON, SWEEP, and_beside, files_beside
from engine.export.pictures.animation import RACE_SUFFIXES, race_writer
from engine.export.trackers.mlflow_client import is_mlflow
from engine.export.writers.data import json_column
from engine.store.record import RunRecord
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store
from engine.words.settings import applying_settings, as_typed
from resources.looks import DARK, LIGHT

_ROWS_SHOWN = 20

RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or any unambiguous beginning of it.")]
RunOrSweepId = Annotated[
    str, typer.Argument(metavar="ID", help="The id of a run or a sweep, or any unambiguous beginning of it.")
]
RunOrSweepIds = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Ids of runs or sweeps, or their unambiguous beginnings.")
]
RunIds = Annotated[
    list[str], typer.Argument(metavar="RUN...", help="Ids of runs, or their unambiguous beginnings.")
]


def runs(
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="List at most N runs.", metavar="N")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List the saved runs, newest first."""
    with saved_runs() as store:
        readable, unreadable = store.listing(limit)
    if as_json:
        entries = [{"id": run.id, "name": run.name, "message": run.why} for run in unreadable]
        beside = {"unreadable": entries} if entries else {}
        output.json_object({"runs": [run.to_dict() for run in readable], **beside})
        return 0
    for run in unreadable:
        output.warning(f"{run.name} ({run.id}) is left out. {run.why}")
    if readable:
        output.runs_table(readable)
    elif not unreadable:
        output.line("There are no saved runs yet. `ammeter run --preset hello-amp` makes the first one.")
    return 0


def show(
    run: RunId,
    samples: Annotated[bool, typer.Option("--samples", help="Add the curves, one value per step.")] = False,
    code: Annotated[
        bool,
        typer.Option("--code", help="Print the model's own file instead, then the modules beside it."),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show everything about one run: settings, environment and summary."""
    with saved_runs() as store:
        record = store.run(run)
        columns = store.samples(record.id) if samples else None
    own = _code_of(record) if code else None
    if as_json:
        value = record.to_dict()
        if columns is not None:
            value["samples"] = {name: json_column(values) for name, values in columns.items()}
        if own is not None:
            value["code"] = {**own.model_dump(), "sha256": own.sha256}
        output.json_object(value)
    elif own is not None:
        _print_code(own)
    else:
        _print_run(record, columns)
    return 0


def delete(runs: RunOrSweepIds, as_json: AsJson = False) -> int:
    """Delete saved runs and their samples. A sweep is deleted without its runs."""
    with saved_runs(writes=True) as store:
        sweeps = {start: sweep for start in runs if (sweep := sweep_starting(store, start)) is not None}
        names = dict(store.name(start) for start in runs if start not in sweeps)
        store.remove(names)
        for sweep_id in dict.fromkeys(sweeps.values()):
            names[sweep_id] = f"{store.sweeps.find(sweep_id).name}, whose runs are kept"
            store.sweeps.delete(sweep_id)
    if as_json:
        output.json_object({"deleted": list(names)})
    else:
        for work_id, name in names.items():
            output.line(f"Deleted {name} ({work_id}).")
    return 0


def sweep_starting(store: Store, start: str) -> str | None:
    """The id of the only sweep whose id starts so; None where there is none, as for the id of a run.

    Raises ProblemError where several do, or a run as well.
    """
    ids = store.sweeps.starting(start)
    if not ids:
        return None
    if len(ids) > 1 or any(run.id.startswith(start.strip().lower()) for run in store.runs()):
        message = f"The ids of several runs or sweeps start with '{shortened(start)}'."
        raise ProblemError(request_problem(message, "Give more of the id.", key="run", value=start))
    return ids[0]


@contextmanager
def saved_runs(*, writes: bool = False) -> Iterator[Store]:
    """The store, in which runs whose process is gone count as interrupted.

    Where nothing can be saved, a verb that `writes` gets a ProblemError, any other a warning on stderr.
    """
    with Store() as store:
        store.recover()
        for note in store.notes:
            output.aside(note)
        if writes:
            store.check_writable()
        elif store.unwritable is not None:
            output.warning(store.unwritable.message)
        yield store


def _code_of(run: RunRecord) -> Code:
    code = run.experiment.own_code
    if code is None:
        message = f"{run.name} has no code of its own: {run.experiment.model} is a model of the catalog."
        remedy = "Leave out --code, or name a run of a model file."
        raise ProblemError(request_problem(message, remedy, key="code", value=run.id))
    return code


def _print_code(code: Code) -> None:
    output.source(code.text)
    for name, text in code.beside.items():
        output.source(f"\n# {name}, beside {code.file}\n{text}")


def _print_run(run: RunRecord, columns: dict[str, NDArray[Any]] | None) -> None:
    output.run_summary(run)
    if run.problem is not None:
        output.line(f"\n{run.problem.message}\n{run.problem.remedy}")
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
    output.line(f"\nCurves: {len(chosen)} of {rows:,} steps; --json prints all")
    cells = [[f"{columns[name][row]:,.6g}" for name in columns] for row in chosen]
    output.table(list(columns), cells, list(columns))


To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="PATH",
        help=f"The file to write; its ending chooses the format: {COMPARISON.endings}. A path that"
        " ends in / is a folder for TensorBoard; mlflow:FOLDER or mlflow:http://HOST:PORT is MLflow.",
    ),
]
Baseline = Annotated[
    str | None, typer.Option("--baseline", metavar="RUN", help="The run that the others are compared with.")
]
Lead = Annotated[
    str | None,
    typer.Option("--lead", metavar="RUN", help="The run that leads the report and races the baseline."),
]
Title = Annotated[str, typer.Option("--title", metavar="TEXT", help="The title of the report.")]
_PLOTS = (*CHART_NAMES, RACE)
Plot = Annotated[
    str | None,
    typer.Option("--plot", metavar="NAME", help=f"Of a picture: what it shows, one of {', '.join(_PLOTS)}."),
]
Against = Annotated[
    str | None,
    typer.Option("--by", metavar="AXIS", help=f"Of a picture: the curves' x axis, one of {', '.join(BYS)}."),
]
Theme = Annotated[
    str | None,
    typer.Option(
        "--theme",
        metavar="NAME",
        help=f"Of a picture: {' or '.join(THEME_NAMES)}. By default charts are light, a race is dark.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what exists.")]


def export(
    runs: RunOrSweepIds,
    to: To,
    baseline: Baseline = None,
    lead: Lead = None,
    title: Title = "",
    plot: Plot = None,
    by: Against = None,
    theme: Theme = None,
    published: Published = False,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Export saved runs as a report, a table, a picture, a race or a script, or the runs themselves.

    A sweep is exported as a report, its pictures, or its cells.
    """
    with saved_runs() as store:
        if (sweep_id := sweep_starting(store, runs[0])) is not None:
            of_runs = (*runs[1:], baseline, lead, title, plot, by, theme)
            _export_sweep(store.sweeps.find(sweep_id), to, force, as_json, others=any(of_runs) or published)
            return 0
        picture = _picture(to, plot, by, theme)
        content = content_of(store, runs, baseline, lead, title, with_published=published)
        sentences = _send(content, to) if is_mlflow(to) else _write(content, to, picture, force)
    if as_json:
        output.json_object({"to": to, "runs": [run.id for run in content.runs]})
    else:
        for sentence in sentences:
            output.line(sentence)
    return 0


def _export_sweep(record: SweepRecord, to: str, force: bool, as_json: bool, *, others: bool) -> None:
    if others:
        message = f"{record.name} is a sweep: it is exported alone, and takes no option but --to and --force."
        raise ProblemError(request_problem(message, "Leave out the rest.", key="run", value=record.id))
    path = SWEEP.export(record, to, force=force)
    if as_json:
        output.json_object({"to": to, "sweep": record.id})
    else:
        output.line(f"Wrote {record.name} to {path}.")


def _send(content: Content, to: str) -> tuple[str, ...]:
    # its client takes a second to load
    from engine.export.trackers.mlflow import log_runs

    return log_runs(content, to).sentences


def _write(content: Content, to: str, picture: Write | None, force: bool) -> tuple[str, ...]:
    path = COMPARISON.export(content, to, force=force, write=picture)
    count = "1 run" if len(content.runs) == 1 else f"{len(content.runs):,} runs"
    return (f"Wrote {count} to {path}{and_beside(files_beside(path))}.",)


def _picture(to: str, plot: str | None, by: str | None, theme: str | None) -> Write | None:
    """How the chosen picture is written; None where none was chosen. Checked before any run is read."""
    form = None if is_mlflow(to) else COMPARISON.format_for(to)
    if plot is None and by is None and theme is None:
        return None
    if form is None or form.suffix not in RACE_SUFFIXES:
        message = "--plot, --by and --theme are for pictures."
        remedy = "End the path in .png or .svg."
        raise ProblemError(request_problem(message, remedy, key="plot", value=plot))
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
        message = f"A {form.suffix} file can only show a race."
        remedy = "End the path in .png or .svg, or leave out --plot and --by."
        raise ProblemError(request_problem(message, remedy, key="plot", value=plot))
    return _charts(plot, axes[0], themes)


def _charts(plot: str | None, by: By, themes: tuple[ThemeName, ...]) -> Write:
    from engine.export.pictures import sheet

    charts = tuple(name for name in CHART_NAMES if name == plot) or sheet.SHEET
    return partial(sheet.write_picture, charts=charts, by=by, palette=DARK if themes == ("dark",) else LIGHT)


ArchivePath = Annotated[
    Path, typer.Argument(metavar="FILE.ammeter", help="An archive that `ammeter export` or the window wrote.")
]


def import_(file: ArchivePath, as_json: AsJson = False) -> int:
    """Import the runs of an archive: all of them, or none if anything in it is wrong."""
    with saved_runs(writes=True) as store:
        imported = import_archive(store, file)
    if as_json:
        output.json_object(
            {
                "imported": [run.to_dict() for run in imported.added],
                "already_here": [run.to_dict() for run in imported.already_here],
            }
        )
    else:
        _print_imported(imported)
    return 0


def _print_imported(imported: Imported) -> None:
    for run in imported.added:
        note = "; a different run already has its old id" if run in imported.copies else ""
        output.line(f"Imported {run.name} ({run.id}){note}.")
    for run in imported.already_here:
        output.line(f"Already saved: {run.name} ({run.id}).")
    if not imported.added and not imported.already_here:
        output.line("The archive holds no runs.")
