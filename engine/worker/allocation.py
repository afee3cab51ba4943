"""An allocation of a cluster: a Slurm job on its own node, in which each worker that asks gets a keeper.

So one wait in the queue serves a run and the runs after it. Login node and job communicate in the folder
allocations/NAME, which they share:

    lock     held (flock) while one of them decides whether there is a job
    job      its id. `output` is its output, and `served` exists once it runs
    WORKER   a worker that waits for its keeper, with the name of its folder
    given    no more workers will come (`give_back`): the job ends once nothing in it runs
    over     the job takes no more workers

The job's state is asked from the other end of the connection. It needs only the standard library.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from engine.worker.keeper import program_words, start_keeper

if sys.platform != "win32":
    import fcntl

_ANSWER_SECONDS = 25.0
_MOST_ANSWER = 64 * 2**10
_SERVE_SECONDS = 0.2
_IDLE_SECONDS = 120.0
NAME = re.compile(r"[0-9a-f]{32}")
"""The name of a worker or of an allocation."""


class Allocation:
    """A Slurm job in which workers of a cluster run."""

    def __init__(self, home: Path, name: str) -> None:
        if not NAME.fullmatch(name):
            raise ValueError("this is not the name of an allocation")
        self.home, self.folder = home, home / "allocations" / name

    @property
    def job(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "job").read_text()
        return ""

    def ask(self, worker: str, arguments: list[str]) -> None:
        """Start a worker's keeper in the job, which is submitted if needed. Raises OSError from sbatch."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            (self.folder / "given").unlink(missing_ok=True)
            if not self.job or (self.folder / "over").exists():
                self._submit(arguments)
            (self.folder / worker).touch()

    def withdraw(self, worker: str) -> None:
        """Withdraw a worker, if it still waits. A job that nobody waits for is then canceled."""
        if self.folder.exists():
            with self._locked():
                (self.folder / worker).unlink(missing_ok=True)
                self._cancel_unused()

    def give_back(self) -> None:
        """End the Slurm job once no worker runs in it."""
        with self._locked():
            (self.folder / "given").touch()
            self._cancel_unused()

    def serve(self) -> None:
        """Start, in the job, the keepers of the workers that ask. Return after some time without any."""
        (self.folder / "served").touch()
        keepers: list[subprocess.Popen[bytes]] = []
        idle_since = time.monotonic()
        while not (self.folder / "over").exists():
            for worker in self.waiting():
                # whoever removes it has it: it may be withdrawn at the same time
                with contextlib.suppress(FileNotFoundError):
                    (self.folder / worker).unlink()
                    keepers.append(start_keeper(self.home, self.home / "workers" / worker))
            keepers = [keeper for keeper in keepers if keeper.poll() is None]
            if keepers:
                idle_since = time.monotonic()
            elif (self.folder / "given").exists() or time.monotonic() - idle_since > _IDLE_SECONDS:
                with self._locked():
                    if not self.waiting():
                        (self.folder / "over").touch()
            time.sleep(_SERVE_SECONDS)

    def waiting(self) -> list[str]:
        """Return the waiting workers."""
        return [name for name in os.listdir(self.folder) if NAME.fullmatch(name)]  # noqa: PTH208 - many times

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _submit(self, arguments: list[str]) -> None:
        for name in ("over", "served", "job"):
            (self.folder / name).unlink(missing_ok=True)
        # ours come last, and hold
        ours = ("--parsable", "--exclusive", "--nodes=1", "--no-requeue", "--job-name=ammeter")
        places = (f"--chdir={self.home}", f"--output={self.folder}/output")
        script = f"#!/bin/sh\nexec {shlex.join(program_words(self.home, 'serve', self.folder.name))}\n"
        status, said = _answer("sbatch", *arguments, *ours, *places, stdin=script)
        job = said.strip().rpartition("\n")[2].partition(";")[0]
        if status or not re.fullmatch(r"\d+", job):
            lines = (line.removeprefix("sbatch: error: ").strip() for line in said.splitlines())
            raise OSError(f"sbatch: {', '.join(filter(None, lines)) or 'no message'}")
        (self.folder / "job").write_text(job)

    def _cancel_unused(self) -> None:
        if self.job and not self.waiting() and not (self.folder / "served").exists():
            (self.folder / "over").touch()
            _answer("scancel", self.job)


def _answer(*words: str, stdin: str = "") -> tuple[int, str]:
    """Return the status and the output of one of Slurm's programs."""
    try:
        done = subprocess.run(
            words,
            input=stdin.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"},
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 127, f"{words[0]} did not answer"
    return done.returncode, done.stdout[:_MOST_ANSWER].decode(errors="replace")
