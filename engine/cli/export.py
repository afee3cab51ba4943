"""The verb that writes saved runs into files that others open: `export`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from engine.cli import output
from engine.cli.options import AsJson
from engine.cli.saved import RunIds, saved_runs
from engine.exports import formats
from engine.exports.chart_names import BYS, CHART_NAMES
from engine.exports.content import Content, content_of
from engine.exports.mlflow_place import is_mlflow
from engine.problem import ProblemError, request_problem, unknown_name

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
Plot = Annotated[
    str | None,
    typer.Option("--plot", metavar="NAME", help=f"For a picture: one of {', '.join(CHART_NAMES)}."),
]
Against = Annotated[
    str | None,
    typer.Option("--by", metavar="AXIS", help=f"For a picture: curves by one of {', '.join(BYS)}."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]


def export(
    runs: RunIds,
    to: To,
    baseline: Baseline = None,
    plot: Plot = None,
    by: Against = None,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Write saved runs, side by side, as a report, a table, a picture, a script or whole."""
    picture = _picture(to, plot, by)
    with saved_runs() as store:
        content = content_of(store, runs, baseline)
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


def _picture(to: str, plot: str | None, by: str | None) -> formats.Write | None:
    """How the chosen plot is written; None where none was chosen. Checked before anything is read."""
    chosen = None if is_mlflow(to) else formats.format_for(to)
    if plot is None and by is None:
        return None
    if chosen is None or chosen.name not in ("png", "svg"):
        message = "--plot and --by are for pictures."
        raise ProblemError(request_problem(message, "End the path in .png or .svg.", key="plot", value=plot))
    charts = tuple(name for name in CHART_NAMES if name == plot)
    if plot is not None and not charts:
        raise ProblemError(unknown_name("plot", plot, CHART_NAMES, "plot"))
    axes = tuple(name for name in BYS if name == (by or "seconds"))
    if by is not None and not axes:
        raise ProblemError(unknown_name("by", by, BYS, "axis"))
    from engine.exports import pictures

    write = pictures.write_png if chosen.name == "png" else pictures.write_svg
    return partial(write, charts=charts or pictures.SHEET, by=axes[0])
