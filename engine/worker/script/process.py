"""The processes of a command: started in a group of their own, ended together, and their output."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.experiment.command import Command
from engine.experiment.problem import ProblemError, request_problem
from engine.experiment.value import shortened
from engine.lazy_imports import psutil
from engine.worker.guard import MARK, kill_marked
from engine.worker.script.places import environment_of, folder_of, look_up, place_of

_IS_WINDOWS = sys.platform == "win32"
_LOOK_SECONDS = 0.02
_TAIL_BYTES = 8_192  # a message holds 10,000 characters
_HELD_SECONDS = 60.0  # less than until a script without output is ended
_KILL_SECONDS = 5.0  # a killed process may hang in a driver


class ScriptProcess:
    """A command in a process group of its own, with the observer, an empty stdin, and its output in a file.

    `folder` is a private folder for the observer's files and the output. Raises ProblemError if the folder,
    environment or program of the command is missing, or the program cannot be started.
    """

    def __init__(self, command: Command, folder: Path) -> None:
        found = look_up(place_of((command,), command.folder, command.venv))
        if found.all_problems:
            raise ProblemError(*found.all_problems)
        # its children may leave its group, but not its mark, which starts with that of this process
        self._mark = f"{os.environ.get(MARK, str(os.getpid()))}/script"
        environment = environment_of(command, folder, os.environ) | {MARK: self._mark}
        log = folder / "output"
        words: str | list[str] = command.line if command.shell else list(command.words)
        if not command.shell:
            # the program of the environment comes first, also where the system looks in its own PATH
            words = [shutil.which(words[0], path=environment.get("PATH")) or words[0], *words[1:]]
        try:
            with log.open("wb") as output:
                self._process = subprocess.Popen(
                    words,
                    cwd=folder_of(command),
                    env=environment,
                    shell=command.shell,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=not _IS_WINDOWS,
                    creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
                )
        except OSError as error:
            message = f"“{shortened(command.words[0])}” cannot be started: {error.strerror}."
            is_python = command.words[0].endswith(".py")
            remedy = "Start it with python." if is_python else "Correct the command or its folder."
            raise ProblemError(request_problem(message, remedy, key="command.line")) from None
        self._reads, self._held_since = log.open("rb"), time.monotonic()

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal. None while the command runs."""
        return self._process.poll()

    def output(self) -> str:
        """Return the lines printed since the last call. Of many only the last, after a line "[…]".

        An unfinished line is held back until it is long, or has been held back for long.
        """
        start, end = self._reads.tell(), self._reads.seek(0, os.SEEK_END)
        self._reads.seek(max(start, end - _TAIL_BYTES))
        new = self._reads.read()
        rest, now = len(new.rpartition(b"\n")[2]), time.monotonic()
        if rest < len(new) or not rest:
            self._held_since = now
        # one that does not end is a progress bar's
        is_held = rest < _TAIL_BYTES and now - self._held_since < _HELD_SECONDS
        if is_held and self.status is None:
            self._reads.seek(-rest, os.SEEK_CUR)
            new = new[: len(new) - rest]
        else:
            self._held_since = now
        gap = "[…]\n" if end - start > _TAIL_BYTES else ""
        return gap + new.removesuffix(b"\n").decode(errors="replace")

    def tail(self) -> str:
        """Return the last lines of all output, after which `output` returns none of them."""
        self._reads.seek(max(0, self._reads.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return self._reads.read().decode(errors="replace")

    def end(self, patience_seconds: float, is_urgent: Callable[[], bool] = lambda: False) -> None:
        """End the command as Ctrl+C does. After `patience_seconds` terminate, then kill its processes.

        Once it `is_urgent`, kill them at once.
        """
        interrupt = getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT)
        for number, seconds in ((interrupt, patience_seconds), (signal.SIGTERM, patience_seconds / 4)):
            if self.status is None:
                self._send(number)
            deadline = time.monotonic() + seconds
            while self.status is None and time.monotonic() < deadline and not is_urgent():
                time.sleep(_LOOK_SECONDS)
        self._kill()

    def close(self) -> None:
        """Kill every process of the command that is left, and end the reading of its output."""
        self._kill()
        self._reads.close()

    def _kill(self) -> None:
        for child in self._children():
            with suppress(psutil.Error):
                child.kill()
        self._send(getattr(signal, "SIGKILL", signal.SIGTERM))
        # one that has just been forked, or still releases its memory on the GPU
        until = time.monotonic() + _KILL_SECONDS
        while sys.platform == "linux" and kill_marked(self._mark) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_SECONDS)

    def _send(self, number: int) -> None:
        with suppress(OSError):
            if _IS_WINDOWS:
                self._process.send_signal(number)
            else:
                os.killpg(self._process.pid, number)

    def _children(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.Error:
            return []
