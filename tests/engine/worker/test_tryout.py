"""An engine on trial: what keeps it from training is said in a sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.experiment.problem import Kind, ProblemError
from engine.worker.launcher import try_out

ANSWERS = """
import json, os, sys
def say(**event):
    sys.stdout.write(json.dumps(event) + chr(10)); sys.stdout.flush()
say(event="ready", pid=os.getpid(), python="3", torch="2", ammeter="0")
sys.stdin.readline()
status = "ok" if os.environ["AMMETER_ENGINE_PACKAGES"] == "good" else "problem"
say(event="examined", checks=[dict(name="A step under BF16 AMP", status=status, detail="its loss was nan")])
sys.stdin.read()
"""


def command(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def refusal(code: str) -> str:
    with pytest.raises(ProblemError) as refused:
        try_out(Path("bad"), command(code))
    assert refused.value.problem.kind is Kind.NO_ENGINE
    return refused.value.problem.message


def test_packages_that_train_are_accepted() -> None:
    try_out(Path("good"), command(ANSWERS))


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (ANSWERS, "A step under BF16 AMP: its loss was nan."),
        ("raise ImportError('libcudart.so.13: cannot open it')", "libcudart.so.13: cannot open it."),
        ("import os; os.kill(os.getpid(), 4)", "The training process ended mid-run by signal 4 (SIGILL)."),
    ],
)
def test_why_packages_do_not_train_is_told(code: str, why: str) -> None:
    assert refusal(code).endswith(f"does not train here: {why}")
