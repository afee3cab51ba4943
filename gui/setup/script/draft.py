"""The draft of a comparison of scripts: commands, where they run, and how long. Does not use Qt."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from engine.compare.requirement import parse_list
from engine.experiment.command import Command, command_names
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.paths import read_file
from engine.experiment.problem import Problem, ProblemError, problems_from_validation, request_problem
from engine.experiment.value import Message
from engine.worker.script.process import environment_of, found_venv
from gui.setup.check import MOST_REPEATS, Outcome
from gui.setup.fields import clean, field_text

MOST_COMMANDS = 8
_MOST_BYTES = 2**14
_VERSION = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+)", re.MULTILINE)


class ScriptDraft(Message):
    """The content of the form. Numbers are text, as typed. An empty line is no command.

    `steps` are measured, after `warmup` steps. `typed` are the lines that the user typed here, or whose file
    the user opened here. Other lines came with a run, and must be accepted before they run.
    """

    lines: tuple[str, ...] = Field(("", ""), min_length=1, max_length=MOST_COMMANDS)
    folder: str = ""
    venv: str = ""
    steps: str = "200"
    repeat: str = "5"
    warmup: str = "20"
    shell: bool = False
    whole: bool = False
    require: str = ""
    typed: frozenset[str] = frozenset()

    def with_line(self, place: int, line: str) -> ScriptDraft:
        """Return the draft with another command, which the user typed."""
        lines = (*self.lines[:place], line, *self.lines[place + 1 :])
        return self.model_copy(update={"lines": lines, "typed": (self.typed & {*lines}) | {line}})

    def with_file(self, file: Path) -> ScriptDraft:
        """Return the draft of a Python file that the user opened, in its folder."""
        line = f'python "{file.name}"' if " " in file.name else f"python {file.name}"
        usual = ScriptDraft(steps=self.steps, repeat=self.repeat, folder=str(file.parent))
        return usual.with_line(0, line)

    def with_experiment(self, experiment: Experiment) -> ScriptDraft:
        """Return the draft of a run's experiment. A command that the form has keeps the others beside it."""
        command, warmup = experiment.command, experiment.measure.warmup_steps
        place = command.model_dump(exclude={"line", "require"})
        is_known = command.line in self.lines and place == self.model_dump(include={*place})
        update = {
            **place,
            "require": command.require,
            "warmup": field_text("steps", warmup),
            "steps": field_text("steps", max(1, (experiment.steps or 0) - warmup)),
        }
        if not is_known:
            update |= {"lines": (command.line, ""), "typed": frozenset()}
        return self.model_copy(update=update)


class _Numbers(BaseModel):
    steps: int = Field(ge=1, le=10_000_000)
    warmup: int = Field(ge=0, le=10_000)
    repeat: int = Field(ge=1, le=MOST_REPEATS)


TITLES = {"steps": "Length", "warmup": "Warm-up", "repeat": "Repeats"}


def check_scripts(draft: ScriptDraft, *, may_look: bool) -> Outcome:
    """Return the experiments that the draft describes, named by their commands, and its problems by field.

    The problem of a command is under "line" and its place, such as "line0". With `may_look`, the folder and
    the programs must exist on this machine.
    """
    found: dict[str, Problem] = {}
    numbers = _Numbers(steps=1, warmup=0, repeat=1)
    try:
        texts = {key: clean("steps", getattr(draft, key)) for key in TITLES}
        numbers = _Numbers.model_validate(texts)
    except ValidationError as error:
        found = {problem.key or "": problem for problem in problems_from_validation(error, TITLES)}
    required = ""
    try:
        required = ", ".join(requirement.text for requirement in parse_list(draft.require))
    except ProblemError as error:
        found["require"] = error.problem
    experiments: list[Experiment] = []
    for place, line in enumerate(draft.lines):
        if line.strip():
            settings = {
                "command": {
                    **draft.model_dump(include={"shell", "whole"}),
                    "line": line.strip(),
                    "folder": draft.folder.strip(),
                    "venv": draft.venv.strip(),
                    "require": required,
                },
                "steps": numbers.warmup + numbers.steps,
                "measure": {"warmup_steps": numbers.warmup},
            }
            try:
                experiment = experiment_from(settings)
            except ProblemError as error:
                found.setdefault(f"line{place}", error.problem)
            else:
                if experiment in experiments:
                    remedy = "Change one of them. Repeats runs each command several times."
                    found.setdefault(f"line{place}", request_problem("Two commands are the same.", remedy))
                else:
                    experiments.append(experiment)
                    if may_look and (missing := _missing_program(experiment.command)) is not None:
                        found.setdefault(f"line{place}", missing)
    if not experiments and not found:
        found["line0"] = request_problem("Type the command that trains, such as python train.py.", "")
    found |= dict(_wrong_places(draft, may_look))
    names = command_names([experiment.command for experiment in experiments])
    sides = tuple(zip(names, experiments, strict=True))
    # what must be set first is said first
    keys = [*(f"line{place}" for place in range(len(draft.lines))), "folder", "venv", *TITLES, "require"]
    problems = {key: found[key] for key in sorted(found, key=keys.index)}
    return Outcome(sides, problems, numbers.repeat, (None,) * len(sides))


def _wrong_places(draft: ScriptDraft, may_look: bool) -> Iterator[tuple[str, Problem]]:
    folder, venv = draft.folder.strip(), draft.venv.strip()
    if not folder:
        yield "folder", request_problem("Select the folder of the scripts.", "")
    elif may_look and not Path(folder).expanduser().is_dir():
        yield "folder", request_problem(f"The folder {folder} does not exist.", "Select another one.")
    elif may_look and venv and found_venv(Command(folder=folder, venv=venv)) is None:
        why = f"{venv} is not a virtual or conda environment."
        yield "venv", request_problem(why, "Select its folder, or leave the field empty.")


def _missing_program(command: Command) -> Problem | None:
    if command.shell or not command.words:
        return None
    folder, program = Path(command.folder).expanduser(), command.words[0]
    # a path is meant from the folder, a name alone is not looked for there
    name = str(folder / Path(program).expanduser()) if Path(program).name != program else program
    path = environment_of(command, Path(), os.environ).get("PATH", os.defpath)
    if shutil.which(name, path=path) is not None:
        return None
    where = "in the environment of the folder or " if found_venv(command) is not None else ""
    return request_problem(f"{program} was not found {where}on this machine.", "Check its spelling.")


def environment_words(folder: str, venv: str) -> str:
    """Return the environment of a folder's commands: ".venv, Python 3.12". Empty if there is none."""
    place = found_venv(Command(folder=folder.strip(), venv=venv.strip())) if folder.strip() else None
    if place is None:
        return ""
    version = None
    with suppress(OSError, UnicodeDecodeError):
        version = _VERSION.search(read_file(place / "pyvenv.cfg", _MOST_BYTES).decode("utf-8"))
    return place.name if version is None else f"{place.name}, Python {version[1]}"
