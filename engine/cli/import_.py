"""The verb for runs from another machine: `import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.archives.reader import Imported, import_archive
from engine.cli import output
from engine.cli.options import AsJson
from engine.cli.saved import saved_runs

ArchivePath = Annotated[
    Path, typer.Argument(metavar="FILE.zip", help="An archive that `ammeter export` or the window wrote.")
]


def import_(file: ArchivePath, as_json: AsJson = False) -> int:
    """Add the runs of an archive to the saved ones: all of them, or none if anything is wrong with it."""
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
        _show(imported)
    return 0


def _show(imported: Imported) -> None:
    for run in imported.added:
        beside = ", beside the run that has its id" if run in imported.copies else ""
        output.line(f"Imported {run.name} ({run.id}){beside}.")
    for run in imported.already_here:
        output.line(f"Already here: {run.name} ({run.id}).")
    if not imported.added and not imported.already_here:
        output.line("The archive holds no runs.")
