"""The site of a remote machine: its workers have keepers there, and its files have paths there."""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from pathlib import Path

from engine.experiment.paths import part_path
from engine.experiment.problem import ProblemError, request_error
from engine.machines.machine import Machine
from engine.machines.remote_worker import JobRequest, Opening, RemoteHeader, RemoteWorker
from engine.machines.slurm import job_state
from engine.machines.ssh import SshConnection, inspect_machine, program_words
from engine.protocol import jobs
from engine.protocol.jobs import RemotePlace
from engine.worker.launcher import Launcher
from engine.worker.site import Site, Worker
from engine.worker.supervision import Timeouts

_ANSWER_SECONDS, _GIVE_BACK_SECONDS = 30.0, 10.0
_FETCH_SECONDS = 3_600.0
_MOST_FETCHED_BYTES = 512 * 2**20
_GZIP = b"\x1f\x8b"


class RemoteSite(Site):
    """Starts workers and accesses their files on a remote machine, over ssh.

    A worker ends once it had no connection for `patience` seconds. Its first number is for a worker without a
    job, its second for one with a job.
    """

    def __init__(self, machine: Machine, patience: tuple[float, float] = (60.0, 600.0)) -> None:
        self.name = machine.name
        # it is a Linux for which there are builds of torch, which have no other C library
        self.is_glibc = True
        # a spare would keep a node from others
        self.keeps_spare, self.has_nodes = machine.slurm is None, machine.slurm is not None
        self._allocation: JobRequest | None = None
        self._last: RemoteHeader | None = None
        self._node = ""
        self._line = SshConnection(machine)
        self._patience = patience
        self._home = machine.home

    def worker(self, command: tuple[str, ...], environment: dict[str, str]) -> Worker:
        """Return a new worker. `command` is ignored, because the machine's own program has another."""
        slurm = self._line.machine.slurm
        if slurm is not None and (self._allocation is None or self._is_job_over()):
            pinned = (f"--nodelist={self._node}",) if self._node else ()
            self._allocation = JobRequest(uuid.uuid4().hex, (*slurm.arguments, *pinned))
        opening = Opening(environment, self._patience, self._allocation)
        return self._connected_worker(RemoteWorker(self._line, uuid.uuid4().hex, opening=opening))

    def reconnect(self, place: RemotePlace, job: jobs.Job) -> Worker:
        if not re.fullmatch(r"[0-9a-f]{32}", place.worker):
            raise request_error(f"'{place.worker}' is not a worker of {self.name}.", "Start the run again.")
        worker = RemoteWorker(self._line, place.worker, opening=None, at=place.events_at, first=job)
        # in case the program that started it was killed before it could ask for that
        worker.keep()
        return self._connected_worker(worker)

    def _connected_worker(self, worker: RemoteWorker) -> Worker:
        if worker.header is not None:
            self._last, self._home = worker.header, worker.header.home
        return worker

    def _is_job_over(self) -> bool:
        """Return whether Slurm has ended the job of the last worker."""
        last = self._last
        if last is None or not last.slurm_job:
            return False
        state = job_state(self._line, last.slurm_job, last.home, last.allocation)
        return state is not None and (state.is_over or state.state == "COMPLETING")

    @property
    def engine(self) -> object:
        return self._line.machine.program

    def require_engine(self) -> None:
        """No-op: only the machine knows whether PyTorch is installed. A worker reports if it is not."""

    def checkpoints(self, folder: Path) -> str:
        return f"{self._remote_folder}/home/checkpoints/{folder.name}"

    def trace(self, path: Path) -> str:
        return f"{self._remote_folder}/home/traces/{path.name}"

    def fetch(self, path: Path) -> None:
        # not the whole path, which may have characters that a shell reads
        there = f"{self._line.machine.folder}/home/traces/{path.name}"
        part = part_path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
                self._line.save(("cat", there), file, most_bytes=_MOST_FETCHED_BYTES, seconds=_FETCH_SECONDS)
            with part.open("rb") as file:
                if file.read(len(_GZIP)) != _GZIP:
                    raise self._line.problem("it sent something other than a trace")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        self._line.ask(("rm", "-f", there), seconds=_ANSWER_SECONDS)

    def begin_block(self, node: str = "") -> None:
        self.close()
        self._node = node

    def close(self) -> None:
        given, self._allocation, self._last = self._allocation, None, None
        if given is not None:
            words = program_words(self._line.machine.folder, "give-back", given.name)
            # it ends by itself too, some time later
            with suppress(ProblemError):
                self._line.ask(words, seconds=_GIVE_BACK_SECONDS)

    @property
    def _remote_folder(self) -> str:
        """Ammeter's folder there, as an absolute path."""
        self._home = self._home or inspect_machine(self._line, self._line.machine).home
        return self._home


def launcher_on(machine: Machine, limits: Timeouts | None = None) -> Launcher:
    """Return a launcher whose workers run on that machine."""
    return Launcher(limits=limits, site=RemoteSite(machine))
