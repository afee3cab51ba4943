"""Where commands run: their folder, environment and programs, and the problem of each that is missing."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from engine.experiment.command import Command
from engine.experiment.paths import expanded, read_file
from engine.experiment.problem import Problem, request_problem
from engine.experiment.value import shortened
from engine.worker.keeper import SCRIPTS_PATH

FOLDER = "AMMETER_OBSERVER_FOLDER"
"""The environment variable with the folder that the observer writes to."""
USER_SITE = "AMMETER_SCRIPTS_USER_SITE"
"""The environment variable by which a launcher marks that PYTHONNOUSERSITE is its own, not the user's."""
OBSERVER = Path(__file__).parent / "observer"
# on Windows, the root of a conda environment has its python.exe
_PROGRAMS = ("", "Scripts") if sys.platform == "win32" else ("bin",)
# what workers and launchers set to keep the user's own files out
_OF_WORKERS = ("PYTHONSAFEPATH", "NoDefaultCurrentDirectoryInExePath", SCRIPTS_PATH, USER_SITE)
_MOST_BYTES = 2**14
_VERSION = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+)", re.MULTILINE)


def folder_of(command: Command) -> Path:
    """Return the folder in which the command runs, on a remote machine relative to the home folder."""
    start = "~" if "AMMETER_REMOTE" in os.environ else "."
    return expanded(start) / expanded(command.folder)


def found_venv(command: Command) -> Path | None:
    """Return the folder of the command's environment: the requested one, or .venv or venv in its folder."""
    folder = folder_of(command)
    names = (command.venv,) if command.venv else (".venv", "venv")
    paths = ((folder / expanded(name)).absolute() for name in names)
    return next((path for path in paths if (path / _PROGRAMS[-1]).is_dir()), None)


def environment_of(command: Command, observed: Path, around: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a command whose observer writes to `observed`, from the one `around` it."""
    environment = {name: value for name, value in around.items() if name not in _OF_WORKERS}
    if path := around.get(SCRIPTS_PATH):
        environment["PYTHONPATH"] = path
    if USER_SITE in around:
        environment.pop("PYTHONNOUSERSITE", None)
    venv = found_venv(command)
    if venv is not None:
        environment["VIRTUAL_ENV"] = str(venv)
        programs = (str(venv / name) for name in _PROGRAMS)
        environment["PATH"] = os.pathsep.join((*programs, environment.get("PATH", os.defpath)))
        environment.pop("PYTHONHOME", None)
    environment |= command.changes
    # after the changes, which may set this one
    paths = (str(OBSERVER), environment.get("PYTHONPATH", ""))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return environment | {FOLDER: str(observed), "PYTHONUNBUFFERED": "1"}


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
    """The problems by field and by program, and the environment: ".venv, Python 3.12"."""

    problems: Mapping[str, Problem]
    missing: Mapping[Program, Problem]
    environment: str

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """The problems of the fields, then those of the programs."""
        return (*self.problems.values(), *self.missing.values())


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
    """Look for the folder, environment and programs of a place, which may take long on a slow disk."""
    command, problems = Command(folder=place.folder, venv=place.venv), {}
    folder, venv = folder_of(command), found_venv(command)
    if not folder.is_dir():
        message = f"The folder {shortened(str(folder), 300)} does not exist."
        problems["folder"] = request_problem(message, "Select another one.", key="command.folder")
    elif place.venv and venv is None:
        message = f"{shortened(place.venv, 300)} is not a virtual or conda environment."
        remedy = "Select its folder, or none."
        problems["venv"] = request_problem(message, remedy, key="command.venv")
    looked = ((program, _missing(program, command)) for program in place.programs)
    missing = {program: problem for program, problem in looked if problem is not None}
    return Found(problems, missing, "" if venv is None else _environment_words(venv))


def _missing(program: Program, place: Command) -> Problem | None:
    name = program.name
    path = program.path or environment_of(place, Path(), os.environ).get("PATH", os.defpath)
    file = folder_of(place) / name
    # a path is meant from the folder, a name alone is not looked for there
    if shutil.which(str(file) if Path(name).name != name else name, path=path) is not None:
        return None
    where = " in the environment of the folder or elsewhere" if found_venv(place) is not None else ""
    why = "is not a program" if file.is_file() else f"was not found{where}"
    remedy = "Start it with python." if name.endswith(".py") else "Check its spelling."
    return request_problem(f"{shortened(name, 300)} {why}.", remedy, key="command.line")


def _environment_words(venv: Path) -> str:
    version = None
    with suppress(OSError, UnicodeDecodeError):
        version = _VERSION.search(read_file(venv / "pyvenv.cfg", _MOST_BYTES).decode("utf-8"))
    return venv.name if version is None else f"{venv.name}, Python {version[1]}"
