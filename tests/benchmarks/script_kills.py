"""Kill what takes part in `ammeter script` (SIGKILL) in each phase, at random moments.

    uv run python tests/benchmarks/script_kills.py [--kills 100] [--seed 1] [--phase ending]

The program, the worker, the script, or a rank of a script under torchrun is killed: before torch is imported,
before the first step, in the warm-up, while measuring, or while the script ends. Every second 20 kills are
under torchrun. Then no process of the command is left, all steps but those of the last moments are saved, and
the run is marked as failed or interrupted. One that was complete may be finished.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import psutil

from engine.store.record import Status
from engine.store.store import Store

CLONE = Path(__file__).parents[2]
VICTIMS = ("program", "worker", "script", "rank")
PHASES = ("before torch", "before steps", "warm-up", "measuring", "ending")
_MARK = "AMMETER_KILLED"
_WARMUP, _STEPS = 100, 150
_GONE_SECONDS = 6.0  # the guard waits for three
_END_SECONDS = 25.0  # that a script may take to end
_LATE_SECONDS = 0.3  # of a busy machine
# the observer writes five times a second, and the store is written four times a second
_UNSAVED_SECONDS = dict.fromkeys(VICTIMS, 0.2 + _LATE_SECONDS) | {"program": 0.45 + _LATE_SECONDS}
_SCRIPT = f"""
import os, signal, struct, sys, time
rank = os.environ.get("RANK", "0")
phase = os.open(f"phase.{{rank}}", os.O_WRONLY | os.O_CREAT)
ends = os.open(f"ends.{{rank}}", os.O_WRONLY | os.O_CREAT)
def tell(name):
    os.pwrite(phase, name.ljust(20).encode(), 0)
tell("before torch")
time.sleep(0.5)
import torch
tell("before steps")
time.sleep(0.5)
torch.set_num_threads(1)
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
try:
    for step in range(1_000_000):
        tell("warm-up" if step < {_WARMUP} else "measuring")
        model(torch.randn(4, 8)).square().mean().backward()
        time.sleep(0.01)
        optimizer.step()
        os.write(ends, struct.pack("d", time.monotonic()))
except KeyboardInterrupt:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tell("ending")
    time.sleep(1.5)
"""


@dataclass(frozen=True)
class Outcome:
    """What was left of a killed run: `failures` are words, `lost` seconds of steps, `gone` after seconds."""

    status: str
    gone: float
    lost: float
    failures: tuple[str, ...]


def _processes(mark: str) -> Iterator[tuple[str, psutil.Process]]:
    """Yield the processes with the mark, and what each is."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            environment = process.environ()
            if environment.get(_MARK) != mark or process.status() == psutil.STATUS_ZOMBIE:
                continue
            words = process.cmdline()
            if "train.py" in words:
                yield "rank" if "RANK" in environment else "script", process
            elif "engine.worker" in words and any(
                "train.py" in each.cmdline() for each in process.children()
            ):
                yield "worker", process
            elif words[-1:] == ["engine.worker"] or "engine.worker.guard" in words:
                yield "other", process
            else:
                yield "program", process


def _runs_script(worker: psutil.Process) -> bool:
    return any("train.py" in each.cmdline() for each in worker.children())


def _wait_for_phase(folder: Path, name: str, program: subprocess.Popen[str]) -> None:
    # of the ranks the first
    while program.poll() is None:
        with suppress(OSError):
            if (folder / "phase.0").read_text().strip() == name:
                return
        time.sleep(0.005)


def kill_once(folder: Path, number: int, victim: str, phase: str, after: float) -> Outcome:
    """Run a script, kill the victim `after` seconds of a phase, and return what was left."""
    (folder / "train.py").write_text(_SCRIPT)
    mark = f"{os.getpid()}-{number}"
    own = {f"AMMETER_{name}": str(folder / name.lower()) for name in ("HOME", "DATA", "ENGINE")}
    own |= {_MARK: mark, "PYTHONPATH": str(CLONE), "XDG_CONFIG_HOME": str(folder / "config")}
    has_ranks = victim == "rank" or number // 20 % 2 == 1
    torchrun = "-m torch.distributed.run --standalone --nproc-per-node 2 " * has_ranks
    line = f"'{sys.executable}' {torchrun}train.py"
    measured = ("--steps", str(_STEPS), "--warmup", str(_WARMUP), "--folder", str(folder))
    program = subprocess.Popen(
        [sys.executable, "-P", "-m", "engine", "script", line, *measured],
        env=os.environ | own,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    _wait_for_phase(folder, phase, program)
    time.sleep(after)
    victims = [process for role, process in _processes(mark) if role == victim]
    with suppress(psutil.Error, IndexError):
        random.Random(number).choice(victims).kill()
    killed, gone = time.monotonic(), 0.0
    limit = _GONE_SECONDS + (_END_SECONDS if phase == "ending" else 0.0)
    while any(role in ("script", "rank") for role, _ in _processes(mark)):
        gone = time.monotonic() - killed
        if gone > limit:
            break
    errors = program.communicate(timeout=120)[1]
    until = time.monotonic() + _GONE_SECONDS
    while (left := [(role, each.pid) for role, each in _processes(mark)]) and time.monotonic() < until:
        time.sleep(0.05)
    failures = [] if victims else [f"no {victim} to kill: {errors[-200:]}"]
    failures += [f"left running after {gone:.1f} s"] if gone > limit else []
    failures += [f"left running: {left}"] if left else []
    with patch.dict(os.environ, own), Store() as store:
        store.recover()
        (run,) = store.runs()
        kept = len(store.samples(run.id).get("step", ()))
    data = (folder / "ends.0").read_bytes() if (folder / "ends.0").exists() else b""
    ends = memoryview(data[: len(data) // 8 * 8]).cast("d")
    is_short = len(ends) > kept and kept < _WARMUP + _STEPS
    lost = max(0.0, killed - ends[kept]) if is_short else 0.0
    # the observer says nothing before the third step
    if len(ends) > 3 and lost > _UNSAVED_SECONDS[victim]:
        failures.append(f"{lost:.2f} s of {len(ends)} steps lost, {kept} kept")
    ended = Status.INTERRUPTED if victim == "program" else Status.FAILED
    if run.status is not ended and not (run.status is Status.FINISHED and phase == "ending"):
        failures.append(f"status {run.status}")
    if run.status is Status.FAILED and not (run.problem and run.problem.message):
        failures.append("no message")
    return Outcome(run.status.value, gone, lost, tuple(failures))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--phase", action="append", choices=PHASES, help="repeatable; all by default")
    options = parser.parse_args()
    phases = options.phase or PHASES
    moments, outcomes = random.Random(options.seed), defaultdict[tuple[str, str], list[Outcome]](list)
    for number in range(options.kills):
        victim, phase = VICTIMS[number % 4], phases[number // 4 % len(phases)]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            outcome = kill_once(Path(folder), number, victim, phase, moments.uniform(0.0, 0.4))
        outcomes[victim, phase].append(outcome)
        for failure in outcome.failures:
            print(f"FAILED: {victim}, {phase}: {failure}", flush=True)
    print(f"{'killed':<9}{'phase':<14}{'kills':>5}{'gone after':>12}{'steps lost':>12}  the run is")
    for (victim, phase), found in sorted(outcomes.items(), key=lambda each: VICTIMS.index(each[0][0])):
        gone, lost = max(each.gone for each in found), max(each.lost for each in found)
        words = ", ".join(sorted({each.status for each in found}))
        print(f"{victim:<9}{phase:<14}{len(found):>5}{gone:>10.1f} s{lost:>10.2f} s  {words}")
    failed = sum(bool(each.failures) for found in outcomes.values() for each in found)
    print(f"{options.kills - failed} of {options.kills} kills as aimed for")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
