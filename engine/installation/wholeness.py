"""Checks that an installation has all files of its wheels, as their RECORD files list them."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from pathlib import Path

from engine.experiment.problem import Problem
from engine.installation.installed import State, broken, engine_here


def whole_problem(folder: Path | None = None) -> Problem | None:
    """The files that the engine lacks; None for a whole one. It may take seconds: for a thread."""
    engine = engine_here(folder)
    if engine.state is not State.READY or engine.installation is None or engine.packages is None:
        return engine.problem
    why = _what_is_missing(engine.packages, engine.installation.packages)
    return None if why is None else broken(why)


def _what_is_missing(packages: Path, versions: dict[str, str]) -> str | None:
    records = {_normal(path.parent.name.split("-")[0]): path for path in packages.glob("*.dist-info/RECORD")}
    for name in versions:
        if _normal(name) not in records:
            return f"the package {name} is missing from it"
    for record in records.values():
        try:
            for file, size_bytes in _listed(record):
                if _size(packages, file) != size_bytes:
                    state = "is missing" if _size(packages, file) is None else "is not whole"
                    return f"its file {file} {state}"
        except (OSError, ValueError, csv.Error):
            return f"its file {record.relative_to(packages).as_posix()} cannot be read"
    return None


def _listed(record: Path) -> Iterator[tuple[str, int]]:
    """The files of a RECORD with their sizes; not itself, nor compiled ones, which Python may write anew."""
    with record.open(newline="", encoding="utf-8") as lines:
        for file, _, size in csv.reader(lines):
            if size and not file.endswith(".pyc"):
                yield file, int(size)


def _size(packages: Path, file: str) -> int | None:
    try:
        return os.stat(os.path.join(packages, file)).st_size  # noqa: PTH116, PTH118 - of twenty thousand files
    except OSError:
        return None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
