"""Workers forked from a process that has imported torch, which takes seconds in each of hundreds.

A forked worker runs the same module as `python -P -m engine.worker`, in a session, an environment and a
folder of its own. One with another allocator is forked from a server that has it; one that needs other
libraries or a card is started as the program starts it. A script that trains is forked so, too.

    python -P tests/forked_workers.py DESCRIPTOR    # the server: serves until the socket is closed
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from engine.installation.installed import TRIED_PACKAGES

_MESSAGE_BYTES = 2**20
_ALLOCATOR = "MALLOC_"
_READ_AT_IMPORT = ("LD_", "OMP_", "MKL_", "KMP_", "CUDA_", "PYTHON", "TORCH")
"""How the variables begin that an interpreter and its libraries read when they are loaded."""


class ForkServer:
    """`start` takes the place of `engine.worker.site._started`; `real` starts what cannot be forked."""

    def __init__(self, real: Callable[[tuple[str, ...], dict[str, str]], subprocess.Popen[bytes]]) -> None:
        self._real = real
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._allocator: dict[str, str] = {}
        self._others: dict[str, ForkServer] = {}

    @property
    def pids(self) -> frozenset[int]:
        own = () if self._server is None else (self._server.pid,)
        return frozenset(own).union(*(other.pids for other in self._others.values()))

    def start(self, command: tuple[str, ...], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        from engine.worker.site import COMMAND

        if command != COMMAND or not _is_as_here(environment):
            return self._real(command, environment)
        allocator = {name: value for name, value in environment.items() if name.startswith(_ALLOCATOR)}
        if not allocator:
            return self._fork(command, environment)
        other = self._others.setdefault(json.dumps(allocator, sort_keys=True), ForkServer(self._real))
        other._allocator = allocator
        return other._fork(command, environment)

    def start_script(self, path: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        """Runs a script as `python PATH` does, but that it finds torch and Ammeter imported."""
        assert _is_as_here(environment)
        return self._fork((sys.executable, str(path)), environment, str(path))

    def _fork(
        self, command: tuple[str, ...], environment: dict[str, str], script: str | None = None
    ) -> subprocess.Popen[bytes]:
        (their_input, our_input), (our_output, their_output), (our_error, their_error) = (
            os.pipe() for _ in range(3)
        )
        theirs = (their_input, their_output, their_error)
        request = {"do": "fork", "folder": str(Path.cwd()), "environment": environment, "script": script}
        pid = self.ask(request, theirs)
        for descriptor in theirs:
            os.close(descriptor)
        streams = [open(our_input, "wb"), open(our_output, "rb"), open(our_error, "rb")]  # noqa: PTH123, SIM115
        return _Forked(self, pid, command, *streams)

    def ask(self, request: Mapping[str, Any], descriptors: tuple[int, ...] = ()) -> Any:
        """The server's answer to a request."""
        with self._lock:
            server = self._socket or self._begin()
            socket.send_fds(server, [json.dumps(request).encode()], descriptors)
            return json.loads(server.recv(_MESSAGE_BYTES))

    def close(self) -> None:
        """Ends the server; its workers end with their stdin."""
        for other in self._others.values():
            other.close()
        if self._socket is not None and self._server is not None:
            self._socket.close()
            self._server.wait()

    def _begin(self) -> socket.socket:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-P", __file__, str(theirs.fileno())]
        with theirs:
            self._server = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                cwd="/",
                env={**os.environ, **self._allocator},
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._socket


class _Forked(subprocess.Popen[bytes]):
    """A process that the server waits for."""

    def __init__(
        self,
        server: ForkServer,
        pid: int,
        args: object,
        stdin: IO[bytes],
        stdout: IO[bytes],
        stderr: IO[bytes],
    ) -> None:
        # not the base's, which starts a process
        self._server, self.pid, self.args = server, pid, args
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.returncode: int | None = None
        # what `communicate` asks for
        self._communication_started, self._input, self.text_mode = False, None, False
        self._ended = os.pidfd_open(pid)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._ended)

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], 0)[0]:
            self.returncode = self._server.ask({"do": "wait", "pid": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and not select.select([self._ended], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(self.args), timeout or 0.0)
        status = self.poll()
        assert status is not None
        return status

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)


def can_fork_workers() -> bool:
    """Whether this system can pass descriptors to a server, and wait for what it forks."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open") and not Path("/dev/nvidiactl").exists()


def _is_as_here(environment: Mapping[str, str]) -> bool:
    def read(all_of_them: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in all_of_them.items() if name.startswith(_READ_AT_IMPORT)}

    from engine.worker.keeper import worker_environment

    has_own_engine = Path(environment.get("AMMETER_ENGINE", "")).is_dir() or TRIED_PACKAGES in environment
    # the server runs with -P, which a worker's PYTHONSAFEPATH asks for
    here = {**worker_environment({}), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return not has_own_engine and read(environment) in (read(os.environ), read(here))


def _serve(requests: socket.socket) -> None:
    import torchvision  # noqa: F401

    import engine.worker.perform  # noqa: F401 - what a worker imports first, with torch
    from engine.training.doctor import read_catalog
    from engine.training.models.libraries import import_library

    # each run looks for its model in it
    read_catalog()
    if find_spec("transformers"):
        # two seconds in each worker that trains a language model
        import_library("transformers.models.llama.modeling_llama")
    # collecting would write to pages that all workers share
    gc.collect()
    gc.freeze()
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, _MESSAGE_BYTES, 3)
        if not message:
            return
        request = json.loads(message)
        if request["do"] == "wait":
            _, status = os.waitpid(request["pid"], 0)
            answer = os.waitstatus_to_exitcode(status)
        elif (answer := os.fork()) == 0:
            requests.close()
            _work(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        requests.send(json.dumps(answer).encode())


def _work(request: Mapping[str, Any], descriptors: list[int]) -> None:
    status = 1
    try:
        os.setsid()
        for place, descriptor in enumerate(descriptors):
            os.dup2(descriptor, place)
            os.close(descriptor)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv = [request["script"] or "worker"]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if request["script"]:
            sys.path.insert(0, str(Path(request["script"]).parent))
            runpy.run_path(request["script"], run_name="__main__")
        else:
            runpy.run_module("engine.worker", run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:  # noqa: BLE001 - as an interpreter ends
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
