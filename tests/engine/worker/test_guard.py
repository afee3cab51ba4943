"""Nothing of a program that was killed is left, whatever state it was in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.engine.worker.test_keeper import begun
from tests.remote import RemoteMachine, eventually, has_ended

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a guard reads /proc")

# as the user's code may, the worker starts a process in a session of its own
WORKER = """
import json, os, signal, subprocess, sys
loop = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\\nwhile True: signal.pause()"
child = subprocess.Popen([sys.executable, "-c", loop], start_new_session=True)
print(json.dumps([os.getpid(), child.pid]), flush=True)
{state}
"""
PROGRAM = """
import sys, time
from engine.worker.site import WorkerProcess
worker = WorkerProcess((sys.executable, "-c", sys.argv[1]))
print(worker.next_item(60).shown, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "state",
    [
        "os.kill(os.getpid(), signal.SIGSTOP)",
        # no signal of Python's and no other thread gets its turn
        "import ctypes; ctypes.PyDLL(None).sleep(600)",
    ],
)
def test_a_killed_program_leaves_neither_a_hung_worker_nor_what_that_started(state: str) -> None:
    command = [sys.executable, "-P", "-c", PROGRAM, WORKER.format(state=state)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        pids = json.loads(program.stdout.readline())
        program.kill()
        eventually(lambda: all(map(has_ended, pids)), 30)


@pytest.mark.slow
def test_a_killed_keeper_leaves_no_stopped_worker(near: RemoteMachine) -> None:
    line = begun(near, lines=1_000_000)
    pids = near.kept(near.folders()[0])
    os.kill(pids["worker"], signal.SIGSTOP)
    near.kill_keepers()
    eventually(lambda: has_ended(pids["worker"]), 30)
    assert line.until("gone")["gone"] == "gone"
    line.forget()
