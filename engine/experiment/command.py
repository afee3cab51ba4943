"""A command that trains: a script of the user's own, which Ammeter starts and observes."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath
from typing import Annotated, Self

from pydantic import Field, model_validator

from engine.experiment.problem import contradiction
from engine.experiment.setting import setting
from engine.experiment.settings import Part

_PYTHON = re.compile(r"(python|pypy)(\d(\.\d+)?)?(\.exe)?")
_VARIABLE = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


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
        "The virtual or conda environment of the command. Empty: .venv or venv in the folder.",
        hint="found in the folder",
    )
    shell: bool = setting(False, "Shell", "Runs the command by a shell, which expands variables.")
    whole: bool = setting(False, "Whole run", "Lets the script run to its end after the measured steps.")

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
    def _split(self) -> tuple[str, ...]:
        if self.shell:
            return self.words
        # Windows' paths contain backslashes
        return tuple(shlex.split(self.line, posix=os.name == "posix"))

    @property
    def sha256(self) -> str:
        """The hash of everything that decides which code runs."""
        parts = (self.line, self.folder, self.venv, str(self.shell))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    @property
    def name(self) -> str:
        """The command in short: "train.py --amp" of "/usr/bin/python3 -u code/train.py --amp"."""
        return " ".join(_short(self)) or self.line

    @property
    def script(self) -> str:
        """The program that trains, without arguments: "train.py" of "python code/train.py --amp"."""
        words = [word for word in _short(self) if not _VARIABLE.fullmatch(word) and word != "-m"]
        return next((word for word in words if word.endswith(".py")), words[0] if words else self.name)


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
