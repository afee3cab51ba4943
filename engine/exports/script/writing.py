"""A script on the disk, and the pictures beside it."""

from __future__ import annotations

import io
import zipfile
from importlib.resources import files
from pathlib import Path

from engine.exports.content import Content
from engine.exports.script.page import script_of
from engine.problem import ProblemError, request_problem
from engine.records.record import RunRecord


def write_script(content: Content, path: Path) -> None:
    """Writes the script of a single run, and what it trains on beside it where that comes with the program.

    Raises ProblemError where there are several runs, or one that no script can be written for.
    """
    if len(content.runs) != 1:
        message = f"A script is of one run, and these are {len(content.runs):,}."
        raise ProblemError(request_problem(message, "Choose one of them.", key="run"))
    (run,) = content.runs
    started = content.started(run.id)
    text = script_of(run, None if started is None else started.steps_per_epoch)
    path.write_text(text, encoding="utf-8", newline="\n")
    data = built_in_data(run)
    if data is not None:
        path.with_suffix(".npz").write_bytes(data)


def built_in_data(run: RunRecord) -> bytes | None:
    """The pictures that come with the program, as an .npz with their licence; None where others are used."""
    if run.experiment.dataset != "fashion":
        return None
    folder = files("resources") / "fashion"
    packed = io.BytesIO((folder / "fashion.npz").read_bytes())
    with zipfile.ZipFile(packed, "a") as archive:
        # of a fixed date, so that the same pictures are the same file
        archive.writestr(zipfile.ZipInfo("LICENSE"), (folder / "LICENSE").read_bytes())
    return packed.getvalue()
