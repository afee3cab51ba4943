"""Slurm, as a machine's relays see it. An allocation is a job on its own node (`serve`). In it each worker
that asks gets a keeper, so one wait in the queue serves a run and the runs after it.

    python -P -m engine.worker.slurm serve|give-back HOME ALLOCATION

Relays and the job communicate in the folder allocations/ALLOCATION, which login node and nodes share:

    lock     held (flock) while a relay decides whether there is a job
    job      its id. `output` is its output, and `served` exists once it runs
    WORKER   a worker that waits for its keeper, with the name of its folder
    given    no more workers will come (`give-back`): the job ends once nothing in it runs
    over     the job takes no more workers

It needs only the standard library.
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
"""Seconds between two queries to Slurm: while a worker waits, and while it runs."""
_SERVE_SECONDS = 0.2
_IDLE_SECONDS = 120.0
_ENDING_SECONDS = 8.0
_WORKER = re.compile(r"[0-9a-f]{32}")
_FIELDS = ("state", "reason", "start", "node", "limit")
_OVER = {
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
    *("REVOKED", "TIMEOUT", "GONE"),
}
"""The states of a job that has ended."""


class Allocation:
    """A Slurm job in which workers of a cluster run, so that one wait in the queue serves several runs.

    Login node and job communicate through its folder.
    """

    def __init__(self, home: Path, name: str) -> None:
        if not _WORKER.fullmatch(name):
            raise ValueError("this is not the name of an allocation")
        self.home, self.folder = home, home / "allocations" / name

    def ask(self, worker: str, arguments: list[str]) -> None:
        """Start a worker's keeper in the job, which is submitted if needed. Raises OSError from sbatch."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            (self.folder / "given").unlink(missing_ok=True)
            if not self._has_job():
                self._submit(arguments)
            (self.folder / worker).touch()

    def withdraw(self, worker: str) -> bool:
        """Withdraw a waiting worker. Return False if its keeper was started. A job without waiting workers is
        then cancelled."""
        with self._locked():
            try:
                (self.folder / worker).unlink()
            except FileNotFoundError:
                return False
            self._cancel_unused()
        return True

    def end(self) -> None:
        """Accept no more workers in the job, unless one waits."""
        with self._locked():
            if not self.waiting():
                (self.folder / "over").touch()

    def give_back(self) -> None:
        """End the Slurm job once no worker runs in it."""
        with self._locked():
            (self.folder / "given").touch()
            self._cancel_unused()

    def waiting(self) -> list[str]:
        """Return the waiting workers."""
        return [name for name in os.listdir(self.folder) if _WORKER.fullmatch(name)]  # noqa: PTH208 - many times

    @property
    def job(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "job").read_text()
        return ""

    def state(self) -> dict[str, str]:
        """Return the job's state by squeue or sacct: "GONE" if unknown, "" if neither answered."""
        if not (job := self.job):
            return {"state": "GONE"}
        status, said = _answer("squeue", "-h", "-t", "all", "-j", job, "-o", "%T|%r|%S|%N|%l")
        is_unknown = "Invalid job id" in said or not (status or said)
        if status or is_unknown:
            fields = "State,Reason,Start,NodeList,Timelimit"
            status, said = _answer("sacct", "-n", "-P", "-X", "-j", job, "-o", fields)
        if status or "|" not in said:
            return {"state": "GONE" if is_unknown else ""}
        found = dict(zip(_FIELDS, said.splitlines()[0].split("|"), strict=False))
        # "CANCELLED by 1000"
        return {**found, "state": found["state"].split(" ")[0]}

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _has_job(self) -> bool:
        is_over = not self.job or (self.folder / "over").exists()
        return not is_over and self.state()["state"] not in {*_OVER, "COMPLETING"}

    def _submit(self, arguments: list[str]) -> None:
        for name in ("over", "served", "job"):
            (self.folder / name).unlink(missing_ok=True)
        serve = (_python(), "-P", "-m", "engine.worker.slurm", "serve", str(self.home), self.folder.name)
        # ours come last, and hold
        ours = ("--parsable", "--exclusive", "--nodes=1", "--no-requeue", "--job-name=ammeter")
        places = (f"--chdir={self.home}", f"--output={self.folder}/output")
        script = f"#!/bin/sh\nexec {shlex.join(serve)}\n"
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


class JobWatch:
    """Watches the state of the Slurm job that a worker waits for, in a thread because Slurm may be slow."""

    def __init__(self, allocation: Allocation, folder: Path) -> None:
        self.allocation, self._kept = allocation, folder / "keeper.json"
        self.state: dict[str, str] = {"state": ""}
        self._told: dict[str, str] = {}
        self._is_kept = self._kept.exists()
        threading.Thread(target=self._look, name="job", daemon=True).start()

    @property
    def is_over(self) -> bool:
        """True once the job has ended."""
        return self.state["state"] in _OVER

    def news(self) -> dict[str, Any] | None:
        """Return the new state of a waiting worker's job, finally "KEPT"."""
        if self._is_kept:
            return None
        known = self.state
        with contextlib.suppress(FileNotFoundError):
            node = json.loads(self._kept.read_text())["node"]
            self._is_kept, known = True, {"state": "KEPT", "node": node}
        if known == self._told or not known["state"]:
            return None
        self._told = known
        return {**known, "starts_in": _seconds_until(known.get("start", ""))}

    def ending(self) -> dict[str, str]:
        """Return how the Slurm job has ended, once Slurm reports it, which may be late."""
        deadline = time.monotonic() + _ENDING_SECONDS
        while not self.is_over and time.monotonic() < deadline:
            self.state = self.allocation.state()
            time.sleep(0.5)
        said = b""
        with contextlib.suppress(OSError):
            said = (self.allocation.folder / "output").read_bytes()[-_MOST_ANSWER:].rstrip()
        return {**self.state, "output": said.rpartition(b"\n")[2].decode(errors="replace")[:300]}

    def _look(self) -> None:
        while not self.is_over:
            self.state = self.allocation.state()
            time.sleep(_LOOK_AGAIN_SECONDS if self._is_kept else _LOOK_SECONDS)


def job_of(home: Path, folder: Path) -> JobWatch | None:
    """Return the Slurm job that a worker waits for or runs in. None for a worker without one."""
    with contextlib.suppress(FileNotFoundError):
        if asked := json.loads((folder / "opened.json").read_text()).get("allocation"):
            return JobWatch(Allocation(home, asked["name"]), folder)
    return None


def serve(allocation: Allocation) -> None:
    """Start the keepers of the workers that ask. Return after some time without any."""
    (allocation.folder / "served").touch()
    keepers: list[subprocess.Popen[bytes]] = []
    idle_since = time.monotonic()
    while not (allocation.folder / "over").exists():
        for worker in allocation.waiting():
            # whoever removes it has it: it may be withdrawn at the same time
            with contextlib.suppress(FileNotFoundError):
                (allocation.folder / worker).unlink()
                keepers.append(start_keeper(allocation.home, allocation.home / "workers" / worker))
        keepers = [keeper for keeper in keepers if keeper.poll() is None]
        if keepers:
            idle_since = time.monotonic()
        elif (allocation.folder / "given").exists() or time.monotonic() - idle_since > _IDLE_SECONDS:
            allocation.end()
        time.sleep(_SERVE_SECONDS)


def start_keeper(home: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start the keeper of a worker's folder, without our streams, for which ssh would wait."""
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
    """Return the interpreter in its program's own folder, because `current` may change."""
    python = Path(sys.executable)
    return str(python.parent.resolve() / python.name)


def _answer(*words: str, stdin: str = "") -> tuple[int, str]:
    """Return the status and the output of one of Slurm's programs."""
    own, pipes = {"SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"}, (subprocess.PIPE, subprocess.STDOUT)
    how: dict[str, Any] = dict(zip(("stdout", "stderr"), pipes, strict=True), env={**os.environ, **own})
    try:
        done = subprocess.run(words, input=stdin.encode(), timeout=_ANSWER_SECONDS, check=False, **how)
    except (OSError, subprocess.TimeoutExpired):
        return 127, f"{words[0]} did not answer"
    return done.returncode, done.stdout[:_MOST_ANSWER].decode(errors="replace")


def _seconds_until(moment: str) -> float | None:
    # told as a duration: the clocks of two machines are not compared
    with contextlib.suppress(ValueError, OverflowError):
        return max(0.0, time.mktime(time.strptime(moment, "%Y-%m-%dT%H:%M:%S")) - time.time())
    return None


def main() -> int:
    """Run the command in `sys.argv[1]`, `serve` or `give-back`, and return the exit status."""
    verb, home, name = sys.argv[1:]
    os.umask(0o077)
    allocation = Allocation(Path(home).resolve(), name)
    serve(allocation) if verb == "serve" else allocation.give_back()
    return 0


if __name__ == "__main__":
    sys.exit(main())
