"""The command `export`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from engine.cli import output
from engine.cli.options import AsJson, Force
from engine.cli.session import RUN, SWEEP, Ids, Match, find, saved_results
from engine.cli.study import PRINTED
from engine.drawing.looks import BYS, CHART_NAMES, RACE, THEME_NAMES
from engine.experiment.problem import ProblemError, request_error, unknown_name
from engine.export import formats
from engine.export.content import Content, Write, content_of
from engine.export.formats import COMPARISON, companion_files, companions_clause, is_mlflow
from engine.export.race import RACE_SUFFIXES, race_writer
from engine.store.saved.study import Study
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store
from engine.words.numbers import counted
from resources.looks import DARK, LIGHT

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
    typer.Option("--lead", metavar="RUN", help="Run that leads the report and its replay."),
]
Title = Annotated[str, typer.Option("--title", metavar="TEXT", help="Title of the report.")]
_PLOTS = (*CHART_NAMES, RACE)
Plot = Annotated[
    str | None,
    typer.Option("--plot", metavar="NAME", help=f"Image: the chart, one of {', '.join(_PLOTS)}."),
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
        sentences = _write(content, to, image, force)
    output.outcome(as_json, {"to": to, "runs": [run.id for run in content.runs]}, *sentences)
    return 0


def _export_alone(store: Store, found: Match, to: str, force: bool, as_json: bool, *, has_more: bool) -> None:
    if has_more:
        message = f"A {found.kind} is exported by itself, with only the options --to and --force."
        raise request_error(message, "Remove the rest.", key="id", value=found.id)
    result: SweepRecord | Study[Any]
    if found.kind == SWEEP:
        result = store.sweeps.find(found.id)
        path = formats.SWEEP.export(result, to, force=force)
    else:
        result = store.studies.find(found.id)
        path = PRINTED[result.kind].formats.export(result, to, force=force)
    output.outcome(as_json, {"to": to, found.kind: found.id}, f"Wrote {result.name} to {path}.")


def _write(content: Content, to: str, image: Write | None, force: bool) -> tuple[str, ...]:
    if is_mlflow(to):
        # its client takes a second to load
        from engine.export.mlflow import log_runs

        return log_runs(content, to).sentences
    path = COMPARISON.export(content, to, force=force, write=image)
    return (
        f"Wrote {counted(len(content.runs), 'run')} to {path}{companions_clause(companion_files(path))}.",
    )


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
