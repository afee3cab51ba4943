"""A command that trains: a script of the user's own, which Ammeter starts and observes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from engine.experiment.problem import Problem, ProblemError, contradiction, request_problem
from engine.experiment.setting import setting
from engine.experiment.settings import Part
from engine.experiment.value import one_line, shortened

STEPS, WARMUP_STEPS = 200, 20
"""The measured steps of a script, and those before them, unless the user asks for others."""
MOST_STEPS, MOST_WARMUP_STEPS = 10**8, 10**6
_MOST_BLOCK, _BLOCKS = 10, 5
_IS_POSIX = os.name == "posix"
_PYTHON = re.compile(r"(python|pypy)(\d(\.\d+)?)?(\.exe)?")
_VARIABLE = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_RATIO = r"((?=[\d.]*[1-9])\d{1,6}(?:\.\d{1,9})?)\s*(%?)"
REQUIREMENT = re.compile(rf"(speed|memory|time)\s*(>=|<=)\s*{_RATIO}|(loss)")
REQUIREMENT_RULE = "must be a metric, >= or <=, and a ratio."
REQUIREMENT_EXAMPLES = 'Write "speed >= 1.05", "memory <= 0.8" or "loss".'


class Command(Part):
    """The command that trains, as the user typed it, and where it runs. Without a `line` there is none.

    The line may begin with changes to the environment, `NAME=VALUE`. With `shell`, a shell reads it.
    Otherwise it is split at spaces, as a shell would do, and nothing in it is expanded.
    """

    line: Annotated[str, Field(max_length=32_000)] = setting(
        "", "Command", "The command that trains, as typed in a terminal."
    )
    folder: Annotated[str, Field(max_length=4_096)] = setting(
        "", "Folder", "The folder in which the command runs.", hint="this one"
    )
    venv: Annotated[str, Field(max_length=4_096)] = setting(
        "",
        "Environment",
        "Virtual or conda environment. Empty: .venv or venv in the folder, or the active one.",
        hint="found in the folder",
    )
    shell: bool = setting(False, "Shell", "Runs the command in a shell, which expands variables.")
    whole: bool = setting(False, "Whole run", "Lets the script run to its end after the measured steps.")
    require: Annotated[str, Field(max_length=1_000)] = setting(
        "",
        "Only if",
        "Requirements on each side, relative to the baseline, separated by commas.",
        hint="speed >= 1.05",
    )

    @model_validator(mode="after")
    def _can_be_split(self) -> Self:
        try:
            words = self.words
        except ValueError as error:
            why = f"cannot be read: {str(error).lower()}."
            raise contradiction("line", why, "Close each quote.", self.line) from None
        if self.line.strip() and not words:
            why = "sets variables, but names no program."
            raise contradiction("line", why, "Add the program, such as python train.py.", self.line)
        for text in requirement_texts(self.require):
            if not REQUIREMENT.fullmatch(text):
                why = f"contains '{shortened(text)}', but each {REQUIREMENT_RULE}"
                raise contradiction("require", why, REQUIREMENT_EXAMPLES, self.require)
            if text.startswith("time") and not self.whole:
                why = f"contains '{text}', but only whole runs have a training time."
                raise contradiction("require", why, "Let the scripts finish.", self.require)
        return self

    @property
    def changes(self) -> dict[str, str]:
        """The environment variables that the line sets before its program."""
        return dict(word.split("=", 1) for word in self._split[: len(self._split) - len(self.words)])

    @property
    def words(self) -> tuple[str, ...]:
        """The program and its arguments. With `shell`, the line is one word. Raises ValueError."""
        if self.shell:
            return (self.line,) if self.line.strip() else ()
        words = self._split
        count = next((place for place, word in enumerate(words) if not _VARIABLE.fullmatch(word)), len(words))
        return words[count:]

    @property
    def is_bare(self) -> bool:
        """True if the line starts Python without a script."""
        words = () if self.shell else self.words
        return len(words) == 1 and _PYTHON.fullmatch(PurePath(words[0]).name) is not None

    @property
    def _split(self) -> tuple[str, ...]:
        if self.shell:
            return self.words
        words = shlex.shlex(self.line, posix=True, punctuation_chars=False)
        words.whitespace_split, words.commenters = True, ""
        if not _IS_POSIX:
            # paths contain backslashes
            words.escape = ""
        return tuple(words)

    @property
    def sha256(self) -> str:
        """The hash of everything that decides which code runs."""
        parts = (self.line, self.folder, self.venv, str(self.shell))
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def where(self) -> str:
        """Where and by what the line runs, as a clause: "in /home/me/nano, in a shell"."""
        venv = f", with the environment {self.venv}" if self.venv else ""
        return f"in {self.folder or 'the current folder'}{venv}{', in a shell' * self.shell}"

    @property
    def whole_text(self) -> str:
        """The line in full, below where it runs, for a person who decides whether it may run."""
        return f"# Runs {one_line(self.where)}\n{self.line}"

    @property
    def name(self) -> str:
        """The command in short: "train.py --amp" of "/usr/bin/python3 -u code/train.py --amp"."""
        return " ".join(_short(self)) or self.line

    @property
    def script(self) -> str:
        """The program that trains, without arguments: "train.py" of "python code/train.py --amp"."""
        words = [word for word in _short(self) if not _VARIABLE.fullmatch(word) and word != "-m"]
        return next((word for word in words if word.endswith(".py")), words[0] if words else self.name)


def quoted(word: str) -> str:
    """Return the word as it is written in a command's line, in quotes if it needs them."""
    if _IS_POSIX:
        return shlex.quote(word)
    # Windows' file names contain no double quotes
    return f'"{word}"' if re.search(r"[\s']", word) else word


def requirement_texts(text: str) -> tuple[str, ...]:
    """Split requirements at commas: "speed >= 1.05, loss"."""
    return tuple(filter(None, (part.strip() for part in text.lower().split(","))))


def _short(command: Command) -> list[str]:
    words = [*(f"{name}={value}" for name, value in command.changes.items()), *command.words]
    if command.shell:
        return words
    place = next((at for at, word in enumerate(words) if _PYTHON.fullmatch(PurePath(word).name)), None)
    if place is not None:
        del words[place]
        # such as -u, which says nothing about the training
        while place < len(words) and words[place].startswith("-") and words[place] not in ("-m", "-c"):
            del words[place]
    return [PurePath(word).name if word.endswith(".py") else word for word in words]


def command_names(commands: Sequence[Command]) -> tuple[str, ...]:
    """Return a short name for each command that is to be told from the others: "train.py --amp"."""
    names = [command.name for command in commands]
    if len(set(names)) == len({command.line for command in commands}):
        return tuple(names)
    # the same script by another program, in another folder
    pairs = zip(names, commands, strict=True)
    return tuple(name if names.count(name) == 1 else command.line for name, command in pairs)


def script_settings(
    place: Mapping[str, Any], line: str, steps: int = STEPS, warmup: int = WARMUP_STEPS
) -> dict[str, Any]:
    """Return the settings of an experiment that measures `steps` of a command, after those of the warm-up.

    `place` has the other fields of the `Command`.
    """
    measure = {"warmup_steps": warmup, "block_steps": max(1, min(_MOST_BLOCK, steps // _BLOCKS))}
    return {"command": {**place, "line": line}, "steps": warmup + steps, "measure": measure}


def usual_repeats(commands: int) -> int:
    """Return the default number of runs per command: 5, or 1 if there is nothing to compare."""
    return 1 if commands == 1 else 5


def script_line(commands: Sequence[Command], steps: int, warmup: int, repeats: int, machine: str = "") -> str:
    """Return the line that measures `steps` of these commands again in a terminal, the baseline first.

    It has every setting that differs from the default, and is quoted for a POSIX shell.
    """
    command = commands[0]
    options = (
        ("--steps", "" if steps == STEPS else str(steps)),
        ("--warmup", "" if warmup == WARMUP_STEPS else str(warmup)),
        ("--repeats", "" if repeats == usual_repeats(len(commands)) else str(repeats)),
        *(("--require", text) for text in requirement_texts(command.require)),
        ("--folder", command.folder),
        ("--venv", command.venv),
        ("--machine", machine),
    )
    flags = ["--whole"] * command.whole + ["--shell"] * command.shell
    words = [word for option, value in options if value for word in (option, value)]
    return shlex.join(["ammeter", "script", *(one.line for one in commands), *words, *flags])


# what Ammeter does with experiments of its own, and not with a script
_REFUSALS: Mapping[str, tuple[str, str]] = {
    "limit": (
        "A script's largest batch cannot be searched, because Ammeter does not control its batch size.",
        "Compare commands with different batch sizes.",
    ),
    "numerics": (
        "A script's numerics cannot be examined, because Ammeter sees its steps, not its tensors.",
        "Put its model into a model file.",
    ),
    "profile": (
        "A script cannot be profiled, because Ammeter does not control its steps.",
        "Put its model into a model file, or use torch.profiler in the script.",
    ),
    "sweep": (
        "A script cannot be swept, because its settings are its own.",
        "Compare commands with different options.",
    ),
    "tune": (
        "A script cannot be tuned, because its settings are its own.",
        "Compare commands with different options.",
    ),
    "check": ("A script cannot be checked, because its model is known only while it trains.", "Run it."),
    "forecast": ("A script's memory cannot be estimated, because it is known only after a run.", "Run it."),
    "precision": (
        "A script's precision cannot be selected, because the script decides it.",
        "Compare one command for each precision.",
    ),
    "resume": (
        "A script cannot be resumed, because Ammeter does not save its state.",
        "Start it as a new run.",
    ),
    "pause": ("A script cannot be paused.", "Stop it, or let it finish."),
    "export": ("A script already is a program, so there is none to write.", "Export another format."),
}


def refusal(action: str, commands: Iterable[Command]) -> Problem | None:
    """Return why a study or another action is not possible with the commands. None if none of them trains."""
    command = next((each for each in commands if each.line.strip()), None)
    if command is None:
        return None
    message, remedy = _REFUSALS[action]
    return request_problem(message, remedy, key="command.line", value=command.name)


def refuse(action: str, commands: Iterable[Command]) -> None:
    """Raise ProblemError with the `refusal`, if there is one."""
    if (problem := refusal(action, commands)) is not None:
        raise ProblemError(problem)
