"""The folder, environment and programs of scripts, looked up in a thread, because a disk may be slow."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from engine.experiment.command import Command
from engine.experiment.paths import read_file
from engine.experiment.problem import Problem, request_problem
from engine.worker.script.process import environment_of, found_venv, missing_place
from gui.session.reader import Lookups

_MOST_BYTES = 2**14
_VERSION = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+)", re.MULTILINE)


class Program(NamedTuple):
    """The program of a command as it is typed, and the PATH that the command sets for it, if any."""

    name: str
    path: str | None


class Place(NamedTuple):
    """Where scripts run, as typed, and their programs."""

    folder: str
    venv: str
    programs: tuple[Program, ...]


class Found(NamedTuple):
    """What was found: problems by field and by program, and the environment: ".venv, Python 3.12"."""

    problems: Mapping[str, Problem]
    missing: Mapping[Program, Problem]
    environment: str


def program_of(command: Command) -> Program | None:
    """Return the program of a command. None if a shell finds it."""
    if command.shell or not command.words:
        return None
    return Program(command.words[0], command.changes.get("PATH"))


def place_of(commands: Iterable[Command], folder: str, venv: str) -> Place:
    """Return the place of commands, equal for all that differ in their arguments only."""
    programs = dict.fromkeys(filter(None, map(program_of, commands)))
    return Place(folder.strip(), venv.strip(), tuple(programs))


def look_up(place: Place) -> Found:
    """Look for the folder, environment and programs of a place."""
    command = Command(folder=place.folder, venv=place.venv)
    problem, venv = missing_place(command) if place.folder else None, found_venv(command)
    problems = {} if problem is None else {str(problem.key).removeprefix("command."): problem}
    looked = ((program, _missing(program, place)) for program in place.programs)
    missing = {program: problem for program, problem in looked if problem is not None}
    return Found(problems, missing, _environment_words(venv) if place.folder and venv else "")


def _missing(program: Program, place: Place) -> Problem | None:
    name, command = program.name, Command(folder=place.folder, venv=place.venv)
    path = program.path or environment_of(command, Path(), os.environ).get("PATH", os.defpath)
    # a path is meant from the folder, a name alone is not looked for there
    is_path = Path(name).name != name
    full = str(Path(place.folder).expanduser() / Path(name).expanduser()) if is_path else name
    if shutil.which(full, path=path) is not None:
        return None
    where = "in the environment of the folder or " if found_venv(command) is not None else ""
    return request_problem(f"{name} was not found {where}on this machine.", "Check its spelling.")


def _environment_words(venv: Path) -> str:
    version = None
    with suppress(OSError, UnicodeDecodeError):
        version = _VERSION.search(read_file(venv / "pyvenv.cfg", _MOST_BYTES).decode("utf-8"))
    return venv.name if version is None else f"{venv.name}, Python {version[1]}"


class PlaceReader(Lookups[Place, Found]):
    """Looks up the places of scripts in a thread."""

    def find(self, place: Place) -> Found | None:
        """Return what was found, and look again. None while it is looked for the first time."""
        return self.request(place, partial(look_up, place))
