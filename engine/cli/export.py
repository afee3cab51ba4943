"""The verb that writes saved runs into files that others open: `export`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from engine.cli import output
from engine.cli.options import AsJson
from engine.cli.saved import RunIds, saved_runs
from engine.exports import formats
from engine.exports.chart_names import BYS, CHART_NAMES, RACE, THEME_NAMES, By, ThemeName
from engine.exports.content import Content, content_of
from engine.exports.mlflow_place import is_mlflow
from engine.exports.race_writing import RACE_SUFFIXES, race_writer
from engine.problem import ProblemError, request_problem, unknown_name
from resources.looks import DARK, LIGHT

To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="PATH",
        help=f"The file to write, in the form that its ending says: {', '.join(formats.endings())}. A path"
        " that ends in / is a folder for TensorBoard; mlflow:FOLDER or mlflow:http://HOST:PORT is MLflow.",
    ),
]
Baseline = Annotated[
    str | None, typer.Option("--baseline", metavar="RUN", help="Which run the others are compared with.")
]
Lead = Annotated[
    str | None,
    typer.Option("--lead", metavar="RUN", help="Whose side leads the report, and races the baseline."),
]
Title = Annotated[str, typer.Option("--title", metavar="TEXT", help="What the report is called.")]
_PLOTS = (*CHART_NAMES, RACE)
Plot = Annotated[
    str | None,
    typer.Option("--plot", metavar="NAME", help=f"For a picture: one of {', '.join(_PLOTS)}."),
]
Against = Annotated[
    str | None,
    typer.Option("--by", metavar="AXIS", help=f"For a picture: curves by one of {', '.join(BYS)}."),
]
Theme = Annotated[
    str | None,
    typer.Option(
        "--theme",
        metavar="NAME",
        help=f"For a picture: {' or '.join(THEME_NAMES)}. Charts are light without it, a race is dark.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]


def export(
    runs: RunIds,
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
    """Write saved runs, side by side, as a report, a table, a picture, a race, a script or whole."""
    picture = _picture(to, plot, by, theme)
    with saved_runs() as store:
        content = content_of(store, runs, baseline, lead, title)
        said = _send(content, to) if is_mlflow(to) else _write(content, to, picture, force)
    if as_json:
        output.json_object({"to": to, "runs": [run.id for run in content.runs]})
    else:
        for line in said:
            output.line(line)
    return 0


def _send(content: Content, to: str) -> tuple[str, ...]:
    # its client takes a second to load
    from engine.exports.mlflow_runs import log_runs

    return log_runs(content, to).sentences


def _write(content: Content, to: str, picture: formats.Write | None, force: bool) -> tuple[str, ...]:
    path = formats.export(content, to, force=force, write=picture)
    count = "1 run" if len(content.runs) == 1 else f"{len(content.runs):,} runs"
    return (f"Wrote {count} to {path}.",)


def _picture(to: str, plot: str | None, by: str | None, theme: str | None) -> formats.Write | None:
    """How the chosen picture is written; None where none was chosen. Checked before anything is read."""
    chosen = None if is_mlflow(to) else formats.format_for(to)
    if plot is None and by is None and theme is None:
        return None
    if chosen is None or chosen.suffix not in RACE_SUFFIXES:
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
    if plot == RACE or (chosen.is_race and plot is None and by is None):
        return race_writer(chosen.suffix, *themes)
    if chosen.is_race:
        message = f"{chosen.suffix} holds a race and no other picture."
        remedy = "End the path in .png or .svg, or leave --plot and --by out."
        raise ProblemError(request_problem(message, remedy, key="plot", value=plot))
    return _charts(chosen.name, plot, axes[0], themes)


def _charts(form: str, plot: str | None, by: By, themes: tuple[ThemeName, ...]) -> formats.Write:
    from engine.exports import pictures

    charts = tuple(name for name in CHART_NAMES if name == plot) or pictures.SHEET
    write = pictures.write_png if form == "png" else pictures.write_svg
    return partial(write, charts=charts, by=by, palette=DARK if themes == ("dark",) else LIGHT)
