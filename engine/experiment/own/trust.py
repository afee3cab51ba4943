"""Trusted code, which may run here: files and commands that the user named on this machine, and those that
the user accepted.

Trust is stored in the user's settings, one line per text and per path. It is valid for this machine, this
user and this folder of runs, so an imported store or folder is not trusted. It does not protect from a
program that runs as this user, nor on a copy of this machine.
"""

from __future__ import annotations

import functools
import getpass
import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from engine.experiment.command import Command
from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code, read_code, remote_problem
from engine.experiment.paths import config_folder, is_remote, plain_file, trust_path
from engine.experiment.problem import Problem, ProblemError, request_problem
from engine.experiment.value import one_line, shortened

_KEY = "trust_code"
_WRITABLE_BY_OTHERS = 0o022


Foreign: TypeAlias = Code | Command
"""What runs with the user's permissions, and may have come from elsewhere."""
_LONGEST_QUOTED = 400  # a sentence is cut in the middle, where a command could hide


class UntrustedCodeError(ProblemError):
    """Raised instead of running `code` that came from elsewhere and that the user has not accepted."""

    def __init__(self, code: Foreign) -> None:
        message = f"{_shown(code)} came from elsewhere and is not yet allowed to run on this machine."
        remedy = (
            "Read it first with `ammeter show RUN --code`. To run it, add --trust-code, or "
            "select Use these settings in the window and start it there."
        )
        super().__init__(request_problem(message, remedy, key=_KEY, value=_short(code)))
        self.code = code


def _short(code: Foreign) -> str:
    return code.short if isinstance(code, Code) else f"{shortened(code.line)}, {code.sha256[:8]}"


def _shown(code: Foreign) -> str:
    if isinstance(code, Code):
        return f"The code of {code.file} ({code.sha256[:8]})"
    whole = one_line(f"The command `{code.line}` {code.where}")
    is_long = len(whole) > _LONGEST_QUOTED
    return f"A command of {len(code.line):,} characters ({code.sha256[:8]})" if is_long else whole


def is_untrusted(problem: Problem) -> bool:
    """Return True for the problem of an `UntrustedCodeError`, in an event or a saved run."""
    return problem.key == _KEY


class TrustedCode:
    """The model code and commands that the user allows to run, by hash and folder. Saved for later sessions.

    Where it cannot be saved, trust lasts as long as this object.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()

    def add(self, code: Foreign) -> None:
        """Trust code or a command that the user has accepted, or code of a file that the user named."""
        self._save_line(_line_of(code))

    def name_command(self, command: Command) -> None:
        """Trust a command that the user typed here, and its folder."""
        self.add(command)
        self.name_path(command.folder)

    def name(self, code: Code) -> None:
        """Trust code that was just read from a path that the user named, and the path itself."""
        self.add(code)
        self._save_line(_trust_line("file", str(code.place)))

    def name_path(self, path: str) -> None:
        """Record that the user named this path here, so it may be looked up on a remote machine."""
        if is_remote(path):
            self._save_line(_trust_line("file", str(Path(path.strip()))))

    def has(self, code: Foreign) -> bool:
        """Return True if the code or command may run."""
        return self._is_known_line(_line_of(code))

    def is_named(self, place: Path) -> bool:
        """Return True if the user has named that exact path here."""
        return self._is_known_line(_trust_line("file", str(place)))

    def may_look(self, path: str | Path) -> bool:
        """Return whether a path may be looked up. A remote path only if the user named it here."""
        # on a machine that trains for another one, all paths come from the user's own
        return "AMMETER_REMOTE" in os.environ or not is_remote(path) or self.is_named(Path(str(path).strip()))

    def reread(self, code: Code) -> Code:
        """Read the current file of stored code. Raises ProblemError, also without permission to look."""
        if not self.may_look(code.place) and (problem := remote_problem(code.place)) is not None:
            raise ProblemError(problem)
        return read_code(code.place)

    def untrusted(self, experiment: Experiment) -> Foreign | None:
        """Return the command or code of an experiment that may not run. None if all of it may."""
        return next((each for each in foreign_parts(experiment) if not self.has(each)), None)

    def check(self, experiment: Experiment) -> None:
        """Check that the experiment's command and code may run. Raises UntrustedCodeError."""
        if (code := self.untrusted(experiment)) is not None:
            raise UntrustedCodeError(code)

    def _is_known_line(self, line: str) -> bool:
        if line not in self._known and line in _saved_lines():
            self._known.add(line)
        return line in self._known

    def _save_line(self, line: str) -> None:
        if self._is_known_line(line):
            return
        self._known.add(line)
        path = trust_path()
        # where the settings cannot be written, the user is asked again another time
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            opener = functools.partial(plain_file, mode=0o600)
            # in one piece: another window may write too
            with open(path, "ab", buffering=0, opener=opener) as file:
                file.write(f"{line}\n".encode())


def foreign_parts(experiment: Experiment) -> tuple[Foreign, ...]:
    """Return the command and the code of an experiment, of which it may have either, both or none."""
    command = experiment.command if experiment.is_script else None
    return tuple(each for each in (command, experiment.own_code) if each is not None)


def _saved_lines() -> frozenset[str]:
    # none of a file that another user owns, or may write
    try:
        with open(trust_path(), "rb", opener=plain_file) as file:
            status = os.fstat(file.fileno())
            if os.name == "posix" and (status.st_uid != os.getuid() or status.st_mode & _WRITABLE_BY_OTHERS):
                return frozenset()
            return frozenset(file.read().decode("ascii", "replace").splitlines())
    except OSError:
        return frozenset()


def _line_of(code: Foreign) -> str:
    if isinstance(code, Code):
        return _trust_line("code", code.sha256, code.folder)
    return _trust_line("command", code.sha256)


def _trust_line(kind: str, *what: str) -> str:
    return json.dumps([*_here(), str(config_folder()), kind, *what])


@functools.cache
def _here() -> tuple[str, str]:
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        machine = ""
    user = str(os.getuid()) if os.name == "posix" else getpass.getuser()
    return machine or socket.gethostname(), user
