"""Ctrl+C while the program still loads its own modules ends it quietly, with the one JSON object if asked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.__main__ import quiet_interrupt
from engine.experiment.problem import Problem

ROOT = Path(__file__).parents[3]
# the interrupt comes when the first large module is looked for, so nothing large is loaded
INTERRUPTED_IN = """
import runpy, signal, sys

# a shell lets what it starts in the background ignore it
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupting:
    def find_spec(self, name, *_):
        if name == {at!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""


def interrupted(module: str, at: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = INTERRUPTED_IN.format(module=module, at=at)
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send to oneself")
@pytest.mark.parametrize(
    ("module", "at"), [("engine", "engine.cli"), ("gui", "engine.cli"), ("gui", "engine.doctor.display")]
)
def test_it_exits_130_without_a_traceback(module: str, at: str) -> None:
    verb = () if at == "engine.doctor.display" else ("results", "--json")
    done = interrupted(module, at, *verb)
    assert (done.returncode, done.stderr) == (130, "")
    if verb:
        error = json.loads(done.stdout)["error"]
        assert error["message"] == "Interrupted." and set(error) == set(Problem.model_fields)
    else:
        assert done.stdout == ""


def test_what_ctrl_c_means_afterwards_is_what_it_meant_before_or_what_was_chosen_within() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with quiet_interrupt():
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with quiet_interrupt():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        with quiet_interrupt():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
