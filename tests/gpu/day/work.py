"""The context of a step: its time and folder, the command line, and its reports."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from day.figures import FIGURES
from engine.cli.app import main
from engine.worker.launcher import Launcher, Target

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[3]
AMMETER = (sys.executable, "-P", "-m", "engine")
_LEAST_SECONDS = 10.0


class StepError(Exception):
    """A step cannot continue; the text says why."""


@dataclass(frozen=True)
class Answer:
    """An answer of the command line: exit status, JSON object, and the end of stderr."""

    status: int
    told: dict[str, Any]
    stderr: str


@dataclass
class Work:
    """The work of the step `name`, which ends by itself before `seconds` are over.

    Files that are to come back go into `folder`. In a rehearsal the same is done on the CPU, in small.
    """

    name: str
    folder: Path
    told: Path
    seconds: float
    is_rehearsal: bool
    began: float = field(default_factory=time.monotonic)

    @property
    def device(self) -> str:
        return "cpu" if self.is_rehearsal else "cuda:0"

    @property
    def half(self) -> str:
        """The precision of the arms in mixed precision; a CPU trains FP16 slowly."""
        return "bf16" if self.is_rehearsal else "fp16"

    def small(self, whole: T, in_small: T) -> T:
        """What a rehearsal has in place of the whole."""
        return in_small if self.is_rehearsal else whole

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.seconds - (time.monotonic() - self.began)

    def has_time(self, seconds: float, what: str) -> bool:
        """Return whether so many seconds are left for it; says what is left out."""
        if self.is_rehearsal or self.left >= seconds:
            return True
        print(f"left out, no time left: {what}", flush=True)
        return False

    def report(self, key: str, value: float, detail: str = "") -> None:
        """Report a value of this step. It is kept even if the step does not end."""
        figure = FIGURES[key]
        assert figure.step == self.name, f"{key} is a figure of {figure.step}"
        verdict = "rehearsed" if self.is_rehearsal else "met" if figure.is_met(value) else "MISSED"
        print(f"-> {figure.title}: {figure.text(value)} {detail} ({verdict}: {figure.aim})", flush=True)
        with self.told.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "value": float(value), "detail": detail}) + "\n")

    def run(
        self, *command: str | Path, seconds: float, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command, for no longer than is left. Raises StepError where it takes longer."""
        room = max(_LEAST_SECONDS, min(seconds, self.left - _LEAST_SECONDS))
        words = [str(word) for word in command]
        whole = {**os.environ, **(environment or {})}
        try:
            return subprocess.run(
                words, capture_output=True, text=True, timeout=room, cwd=ROOT, env=whole, check=False
            )
        except subprocess.TimeoutExpired:
            raise StepError(f"ended after {room:.0f} s: {' '.join(words)}") from None

    def ammeter(self, *arguments: str, seconds: float = 150) -> Answer:
        """Run a verb of the command line with --json. Raises StepError where it takes longer.

        A rehearsal runs it in this process: each would import torch anew.
        """
        if self.is_rehearsal:
            out, err = io.StringIO(), io.StringIO()
            with redirect_stdout(out), redirect_stderr(err):
                status = main([*arguments, "--json"])
            return Answer(status, json_in(out.getvalue()), err.getvalue().strip()[-400:])
        done = self.run(*AMMETER, *arguments, "--json", seconds=seconds)
        return Answer(done.returncode, json_in(done.stdout), done.stderr.strip()[-400:])

    @contextmanager
    def launcher(self) -> Iterator[Launcher]:
        """Start workers; a rehearsal does their jobs in this process, since each would import torch anew."""
        with Launcher(self.small(Target.PROCESS, Target.THREAD)) as launcher:
            yield launcher


def json_in(text: str) -> dict[str, Any]:
    """Return the object that was printed; empty where there is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def settings(**values: object) -> list[str]:
    """Settings as options of the command line; `__` stands for a dot."""
    pairs = (f"{key.replace('__', '.')}={value}" for key, value in values.items())
    return [word for pair in pairs for word in ("--set", pair)]
