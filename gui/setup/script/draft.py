"""The draft of a comparison of scripts: commands, where they run, and how long. Does not use Qt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from engine.compare.requirement import parse_list
from engine.experiment.command import (
    MOST_STEPS,
    MOST_WARMUP_STEPS,
    STEPS,
    WARMUP_STEPS,
    Command,
    command_names,
    quoted,
    script_settings,
    usual_repeats,
)
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.problem import Problem, ProblemError, problems_from_validation, request_problem
from engine.experiment.value import Message
from engine.worker.script.places import Found, Place, Program, place_of, program_of
from gui.setup.check import MOST_REPEATS, Outcome
from gui.setup.fields import clean, field_text

MOST_COMMANDS = 8
_NO_PROGRAM = Program("", None)
_ONLY_WHOLE = request_problem("Only whole runs have a training time.", "Let the scripts finish.")


class ScriptDraft(Message):
    """The content of the form. Numbers are text, as typed. An empty line is no command.

    `steps` are measured, after `warmup` steps. An empty `repeat` is the usual number. `typed` are the places
    of the lines that the user typed here, or whose file the user opened here. Other lines came with a run,
    and must be accepted before they run. `foreign` are the fields of the environment that came with a run
    and that the user has not edited.
    """

    lines: tuple[str, ...] = Field(("", ""), min_length=1, max_length=MOST_COMMANDS)
    folder: str = ""
    venv: str = ""
    steps: str = str(STEPS)
    repeat: str = ""
    warmup: str = str(WARMUP_STEPS)
    shell: bool = False
    whole: bool = False
    require: str = ""
    typed: frozenset[int] = frozenset()
    foreign: frozenset[str] = frozenset()

    def with_fields(self, **values: Any) -> ScriptDraft:
        """Return the draft with other values of fields, which the user edited."""
        return self.model_copy(update={**values, "foreign": self.foreign.difference(values)})

    def with_line(self, place: int, line: str) -> ScriptDraft:
        """Return the draft with another command, which the user typed."""
        lines = (*self.lines[:place], line, *self.lines[place + 1 :])
        return self.model_copy(update={"lines": lines, "typed": self.typed | {place}})

    def without_line(self, place: int) -> ScriptDraft:
        """Return the draft without one of its commands."""
        lines = (*self.lines[:place], *self.lines[place + 1 :])
        typed = frozenset(at - (at > place) for at in self.typed if at != place)
        return self.model_copy(update={"lines": lines, "typed": typed})

    def with_file(self, file: Path) -> ScriptDraft:
        """Return the draft of a Python file that the user opened, in its folder.

        Commands in that folder stay. The file takes the first empty line, or a new one. An environment or
        shell that came with a run is not used, nor the commands in it.
        """
        line = f"python {quoted(file.name)}"
        folder, lines = str(file.parent), [*map(str.strip, self.lines), ""]
        at = lines.index(line if line in lines else "")
        if folder == self.folder.strip() and at < MOST_COMMANDS and not self.foreign:
            return self.with_line(at, line)
        return ScriptDraft(steps=self.steps, repeat=self.repeat, folder=folder).with_line(0, line)

    def with_experiment(self, experiment: Experiment, sides: Sequence[Experiment] = ()) -> ScriptDraft:
        """Return the draft of a run's experiment, with the commands of `sides` that run in the same place.

        Commands that the form has keep the others beside them.
        """
        command, warmup = experiment.command, experiment.measure.warmup_steps
        place = _place(command)
        alike = [side.command.line for side in (*sides, experiment) if _place(side.command) == place]
        lines = tuple(dict.fromkeys(alike))[:MOST_COMMANDS]
        is_same_place = place == self.model_dump(include={*place})
        is_known = is_same_place and {*lines} <= {*self.lines}
        foreign = frozenset(key for key in ("venv", "shell") if place[key])
        update = {
            **place,
            "foreign": self.foreign if is_same_place else foreign,
            "require": command.require,
            "warmup": field_text("steps", warmup),
            "steps": field_text("steps", max(1, (experiment.steps or 0) - warmup)),
        }
        if not is_known:
            update |= {"lines": (*lines, "") if len(lines) == 1 else lines, "typed": frozenset()}
        return self.model_copy(update=update)


def _place(command: Command) -> dict[str, Any]:
    return command.model_dump(exclude={"line", "require"})


class _Numbers(BaseModel):
    steps: int = Field(ge=1, le=MOST_STEPS)
    warmup: int = Field(ge=0, le=MOST_WARMUP_STEPS)
    repeat: int = Field(ge=1, le=MOST_REPEATS)


TITLES = {"steps": "Length", "warmup": "Warm-up", "repeat": "Repeats"}


def check_scripts(draft: ScriptDraft, find: Callable[[Place], Found | None]) -> Outcome:
    """Return the experiments that the draft describes, named by their commands, and its problems by field.

    The problem of a command is under "line" and its place, such as "line0". `find` returns what is known of
    the folder and the programs on this machine.
    """
    found: dict[str, Problem] = {}
    numbers = _Numbers(steps=1, warmup=0, repeat=1)
    lines = {f"line{place}": line.strip() for place, line in enumerate(draft.lines) if line.strip()}
    usual = {"repeat": str(usual_repeats(len(lines)))}
    try:
        texts = {key: clean("steps", getattr(draft, key)) or usual.get(key, "") for key in TITLES}
        numbers = _Numbers.model_validate(texts)
    except ValidationError as error:
        found = {problem.key or "": problem for problem in problems_from_validation(error, TITLES)}
    required = ""
    try:
        required = ", ".join(requirement.text for requirement in parse_list(draft.require))
    except ProblemError as error:
        found["require"] = error.problem
    if "time" in required and not draft.whole:
        # the commands themselves are right
        found["require"], required = _ONLY_WHOLE, ""
    where = {"folder": draft.folder.strip(), "venv": draft.venv.strip(), "require": required}
    where |= draft.model_dump(include={"shell", "whole"})
    experiments: dict[str, Experiment] = {}
    for key, line in lines.items():
        try:
            experiment = experiment_from(script_settings(where, line, numbers.steps, numbers.warmup))
        except ProblemError as error:
            field = (error.problem.key or "").removeprefix("command.")
            found.setdefault(field if field in where else key, error.problem)
            continue
        if experiment in experiments.values():
            remedy = "Change one of them. Repeats runs each command several times."
            found.setdefault(key, request_problem("Two commands are the same.", remedy))
        else:
            experiments[key] = experiment
    if not experiments and not found:
        found["line0"] = request_problem("Type the command that trains, such as python train.py.", "")
    if not draft.folder.strip():
        found["folder"] = request_problem("Select the folder of the scripts.", "")
    commands = [experiment.command for experiment in experiments.values()]
    if (seen := find(place_of(commands, draft.folder, draft.venv))) is not None:
        found |= seen.problems
        for key, command in zip(experiments, commands, strict=True):
            if (missing := seen.missing.get(program_of(command) or _NO_PROGRAM)) is not None:
                found.setdefault(key, missing)
    sides = tuple(zip(command_names(commands), experiments.values(), strict=True))
    # what must be set first is said first
    keys = [*(f"line{place}" for place in range(len(draft.lines))), "folder", "venv", *TITLES, "require"]
    problems = {key: found[key] for key in sorted(found, key=keys.index)}
    return Outcome(sides, problems, numbers.repeat, (None,) * len(sides))
