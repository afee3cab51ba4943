"""Slurm, as a machine's relays see it: an allocation is one job of sbatch, on one node of its own.

    python -P -m engine.worker.slurm serve HOME ALLOCATION       what the job runs
    python -P -m engine.worker.slurm give-back HOME ALLOCATION   ends it once nothing in it runs

The job starts a keeper for each worker that asks for one, so that one wait in the queue serves a run and what
follows it. They meet in the folder allocations/ALLOCATION, which the nodes share with the login node:

    lock     held (flock) while somebody decides whether there is a job
    job      its id, as sbatch told it
    served   written by the job, once it runs
    output   what the job wrote
    over     it takes no more workers
    given    nobody will ask for more
    WORKER   a worker that waits for its keeper, named as its folder is

Needs nothing beside the standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.platform != "win32":
    import fcntl

_ANSWER_SECONDS = 25.0
_MOST_ANSWER = 64 * 2**10
_LOOK_SECONDS, _LOOK_AGAIN_SECONDS = 5.0, 10.0
"""Between two questions to Slurm: while a worker waits, and while it runs."""
_SERVE_SECONDS = 0.2
_IDLE_SECONDS = 120.0
_UNSEEN_SECONDS = 60.0
_ENDING_SECONDS = 8.0
_WORKER = re.compile(r"[0-9a-f]{32}")
_FIELDS = ("state", "reason", "start", "node", "limit")
_LIVE = (
    *("", "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"),
    *("STAGE_OUT", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"),
)
"""The states of a job that has not ended; "" is that of one of which Slurm could not be asked."""


class Allocation:
    """The folder of an allocation, and its job."""

    def __init__(self, home: Path, name: str) -> None:
        if not _WORKER.fullmatch(name):
            raise ValueError("this is not the name of an allocation")
        self._home, self.folder = home, home / "allocations" / name

    def ask(self, worker: str, arguments: list[str]) -> None:
        """Has a worker's keeper started in it, in a new job unless there is one. Raises OSError in the words
        of sbatch."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            (self.folder / "given").unlink(missing_ok=True)
            (self.folder / worker).touch()
            if not self._has_job():
                try:
                    self._submit(arguments)
                except OSError:
                    (self.folder / worker).unlink(missing_ok=True)
                    raise

    def withdraw(self, worker: str) -> bool:
        """A worker is not wanted any more: False if its keeper was started. A job that nobody waits for then
        is cancelled."""
        with self._locked():
            try:
                (self.folder / worker).unlink()
            except FileNotFoundError:
                return False
            self._cancel_unused()
        return True

    def give_back(self) -> None:
        """Nobody will ask for more: the job ends once nothing in it runs."""
        if self.folder.exists():
            with self._locked():
                (self.folder / "given").touch()
                self._cancel_unused()

    def waiting(self) -> list[str]:
        """The workers that wait for their keepers."""
        return [name for name in os.listdir(self.folder) if _WORKER.fullmatch(name)]  # noqa: PTH208 - many times

    @property
    def job(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "job").read_text()
        return ""

    def state(self) -> dict[str, str]:
        """What Slurm says of the job: squeue, or scontrol of one that squeue has forgotten, or sacct.

        The state is "GONE" if nobody knows it any more, and "" if nobody could be asked.
        """
        job = self.job
        if not job:
            return {"state": "GONE"}
        status, said = _answer("squeue", "-h", "-t", "all", "-j", job, "-o", "%T|%r|%S|%N|%l")
        if status == 0 and "|" in said:
            return dict(zip(_FIELDS, said.splitlines()[0].split("|"), strict=False))
        is_unknown = status == 0 or "Invalid job id" in said
        status, said = _answer("scontrol", "show", "job", "-o", job)
        known = dict(part.split("=", 1) for part in said.split() if "=" in part)
        if status == 0 and "JobState" in known:
            names = ("JobState", "Reason", "StartTime", "NodeList", "TimeLimit")
            return {field: known.get(name, "") for field, name in zip(_FIELDS, names, strict=True)}
        status, said = _answer(
            "sacct", "-n", "-P", "-X", "-j", job, "-o", "State,Reason,Start,NodeList,Timelimit"
        )
        if status == 0 and "|" in said:
            found = dict(zip(_FIELDS, said.splitlines()[0].split("|"), strict=False))
            # "CANCELLED by 1000"
            return {**found, "state": found["state"].split(" ")[0]}
        return {"state": "GONE" if is_unknown else ""}

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _has_job(self) -> bool:
        return bool(self.job) and not (self.folder / "over").exists() and self.state()["state"] in _LIVE

    def _submit(self, arguments: list[str]) -> None:
        for name in ("over", "served", "job"):
            (self.folder / name).unlink(missing_ok=True)
        serve = (_python(), "-P", "-m", "engine.worker.slurm", "serve", str(self._home), self.folder.name)
        # ours come last, and hold
        ours = ("--parsable", "--exclusive", "--nodes=1", "--no-requeue", "--job-name=ammeter")
        places = (f"--chdir={self._home}", f"--output={self.folder}/output")
        script = f"#!/bin/sh\nexec {shlex.join(serve)}\n"
        status, said = _answer("sbatch", *arguments, *ours, *places, stdin=script)
        job = said.strip().rpartition("\n")[2].partition(";")[0]
        if status or not re.fullmatch(r"\d+", job):
            lines = (line.removeprefix("sbatch: error: ").strip() for line in said.splitlines())
            raise OSError(f"sbatch: {'; '.join(filter(None, lines)) or 'it said nothing'}")
        (self.folder / "job").write_text(job)

    def _cancel_unused(self) -> None:
        if self.job and not self.waiting() and not (self.folder / "served").exists():
            (self.folder / "over").touch()
            _answer("scancel", self.job)


class JobWatch:
    """The state of a worker's job, asked for in a thread of its own, since Slurm may take its time."""

    def __init__(self, allocation: Allocation, folder: Path) -> None:
        self.allocation, self._folder = allocation, folder
        self.state: dict[str, str] = {"state": ""}
        self._told: dict[str, str] = {}
        self._is_kept = (folder / "keeper.json").exists()
        threading.Thread(target=self._look, name="job", daemon=True).start()

    @property
    def is_over(self) -> bool:
        """True once the job has ended, or is of no use."""
        return self.state["state"] not in _LIVE

    def news(self) -> dict[str, Any] | None:
        """What is to be told of a worker that waits: each change, and at last that it is "KEPT"."""
        if self._is_kept:
            return None
        known = self.state
        with contextlib.suppress(FileNotFoundError):
            kept = json.loads((self._folder / "keeper.json").read_text())
            self._is_kept, known = True, {"state": "KEPT", "node": kept["node"]}
        if known == self._told or not known["state"]:
            return None
        self._told = known
        return {**known, "starts_in": _seconds_until(known.get("start", ""))}

    def ending(self) -> dict[str, Any]:
        """How the job has ended, once Slurm has made up its mind: it may notice later than we do."""
        deadline = time.monotonic() + _ENDING_SECONDS
        while not self.is_over and time.monotonic() < deadline:
            self.state = self.allocation.state()
            time.sleep(0.5)
        output = ""
        with contextlib.suppress(OSError):
            output = (self.allocation.folder / "output").read_bytes()[-_MOST_ANSWER:].decode(errors="replace")
        last = output.strip().rpartition("\n")[2]
        return {**self.state, "output": last[:300]}

    def _look(self) -> None:
        unseen_since = None
        while True:
            self.state = self.allocation.state()
            is_kept = (self._folder / "keeper.json").exists()
            is_unseen = self.state["state"] == "RUNNING" and not is_kept
            unseen_since = (unseen_since or time.monotonic()) if is_unseen else None
            if unseen_since is not None and time.monotonic() - unseen_since > _UNSEEN_SECONDS:
                # it writes its files where nobody here can see them
                self.state = {**self.state, "state": "UNSEEN"}
                return
            if self.is_over:
                return
            time.sleep(_LOOK_AGAIN_SECONDS if is_kept else _LOOK_SECONDS)


def job_of(home: Path, folder: Path) -> JobWatch | None:
    """The job of a worker that waits for Slurm, or runs in it; None for any other."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        asked = json.loads((folder / "opened.json").read_text()).get("allocation")
        return None if asked is None else JobWatch(Allocation(home, asked["name"]), folder)
    return None


def serve(home: Path, name: str) -> None:
    """Starts the keepers of the workers that ask for them; returns after a while without any."""
    allocation = Allocation(home, name)
    (allocation.folder / "served").touch()
    keepers: list[subprocess.Popen[bytes]] = []
    idle_since = time.monotonic()
    while True:
        for worker in allocation.waiting():
            # whoever removes it has it: it may be withdrawn at the same time
            with contextlib.suppress(FileNotFoundError):
                (allocation.folder / worker).unlink()
                keepers.append(start_keeper(home, home / "workers" / worker))
        keepers = [keeper for keeper in keepers if keeper.poll() is None]
        if keepers:
            idle_since = time.monotonic()
        elif (allocation.folder / "given").exists() or time.monotonic() - idle_since > _IDLE_SECONDS:
            with allocation._locked():
                if not allocation.waiting():
                    (allocation.folder / "over").touch()
                    return
        time.sleep(_SERVE_SECONDS)


def start_keeper(home: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Starts the keeper of a worker's folder. None of its streams is ours: ssh would wait for them."""
    with (folder / "keeper.log").open("ab") as log:
        return subprocess.Popen(
            (_python(), "-P", "-m", "engine.worker.keeper", str(folder)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            cwd=home,
        )


def _python() -> str:
    """The interpreter in the folder of its own program: `current` may lead to another one before long."""
    python = Path(sys.executable)
    return str(python.parent.resolve() / python.name)


def _answer(*words: str, stdin: str = "") -> tuple[int, str]:
    """The status of one of Slurm's programs, and what it said."""
    environment = {**os.environ, "SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            words,
            input=stdin.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_ANSWER_SECONDS,
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        return 127, f"{words[0]} is not there"
    except subprocess.TimeoutExpired:
        return 124, f"{words[0]} did not answer"
    return done.returncode, done.stdout[:_MOST_ANSWER].decode(errors="replace")


def _seconds_until(moment: str) -> float | None:
    # told as a duration: the clocks of two machines are not compared
    with contextlib.suppress(ValueError, OverflowError):
        return max(0.0, time.mktime(time.strptime(moment, "%Y-%m-%dT%H:%M:%S")) - time.time())
    return None


def main() -> int:
    verb, home, name = sys.argv[1:]
    os.umask(0o077)
    if verb == "serve":
        serve(Path(home), name)
    else:
        Allocation(Path(home).resolve(), name).give_back()
    return 0


if __name__ == "__main__":
    sys.exit(main())
