"""Kill a program (SIGKILL) at random moments: nothing may be lost, done twice, or left running.

    uv run python tests/benchmarks/kills.py sweep|setup|ranks|remote [--kills 50] [--seed 1]

sweep: the program that trains a sweep, whose worker is a stand-in that trains nothing. Each combination must
have its pilot and each repeat once, finished, and no turn that had ended may be repeated.
setup: the program that installs PyTorch, with stand-in wheels of many files. After each kill PyTorch is
absent or complete; once complete it stays so; after a kill in the test step nothing is downloaded again.
ranks: a rank, the worker or the program of a run on two ranks. The run ends with a message or as
interrupted, its samples are kept up to the last moments, and no process is left.
remote: the ssh client, its control connection, the session of sshd, the follower, the keeper, the worker, or
the program of a run on this machine through sshd, with a stand-in worker. Its events must arrive byte by
byte.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from unittest.mock import patch

import psutil
import pytest

from engine.experiment.experiment import experiment_from
from engine.experiment.sweep import Axis, Plan, grid_of
from engine.installation import installed
from engine.installation.installed import (
    State,
    engine_here,
    installations_folder,
    missing_files_problem,
)
from engine.installation.installer import Installer
from engine.installation.request import InstallRequest, Source, StageBegan
from engine.machines.machine import Machine
from engine.machines.remote_site import RemoteSite
from engine.protocol import jobs
from engine.protocol.events import Failed, Finished, Log, Samples, from_line, to_line
from engine.protocol.jobs import RemotePlace
from engine.runner import Runner
from engine.store.record import Status
from engine.store.store import Store
from engine.sweep.order import TurnEnded
from engine.sweep.sweeper import Sweeper
from engine.worker.keeper import CANCELED
from engine.worker.launcher import Launcher, iterate
from engine.worker.supervision import ProcessSession
from tests.remote import RemoteMachine, eventually, remote_machine
from tests.wheel_index import WheelIndex, stand_in_wheel

_MARK = "AMMETER_KILLED"
_LINEAR = {"model": "linear", "dataset": "synthetic-regression", "device": "cpu"}
_SWEEP_WORKER = """
import json, os, sys, time
def say(**event):
    sys.stdout.write(json.dumps(event) + chr(10)); sys.stdout.flush()
say(event="ready", pid=os.getpid(), python="3", torch="0", ammeter="0")
job = json.loads(sys.stdin.readline())
steps = job["experiment"]["steps"]
say(event="started", experiment=job["experiment"], environment=dict(device_name="CPU", device_memory_mib=1.0,
    torch="0", python="3", os="os", ammeter="0"), total_steps=steps, steps_per_epoch=steps, parameters=1,
    loss_name="mean squared error", loss_unit="")
for step in range(1, steps + 1):
    time.sleep(0.001)
    if step % 5 == 0:
        column = [0.001 * step]
        say(event="samples", step=[step], seconds=column, loss=column, samples_per_second=[1000.0 + step],
            learning_rate=column)
say(event="finished", summary=dict(steps=steps, seconds=0.02, step_ms=1.0, samples_per_second=1000.0))
"""


def start(name: str, *arguments: object, mark: str = "") -> subprocess.Popen[str]:
    """Start the program `name` in a process of its own."""
    command = [sys.executable, __file__, name, "--program", *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env={**os.environ, _MARK: mark}, **streams)


def train_sweep(path: str, sweep_id: str) -> None:
    print("started", flush=True)
    with Store(Path(path)) as store, Launcher(command=(sys.executable, "-c", _SWEEP_WORKER)) as launcher:
        store.recover()
        with Path(path).with_suffix(".turns").open("a", encoding="utf-8") as ended:
            for event in Sweeper(store, launcher).run(sweep_id):
                if isinstance(event, TurnEnded):
                    turn = event.turn
                    print(sweep_id, turn.kind, turn.cell, turn.repeat, file=ended, flush=True)


def kill_sweeps(kills: int, moments: random.Random) -> bool:
    """Train sweeps of 50 combinations, twice each; return whether all was there once."""
    base = {"dataset": "synthetic", "samples": 64, "device": "cpu", "steps": 20}
    rates = tuple(0.001 * number for number in range(1, 26))
    axes = [Axis(key="precision", values=("fp32", "bf16")), Axis(key="optimizer.learning_rate", values=rates)]
    killed, sweep_id = 0, ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ammeter.sqlite")
        while True:
            with Store(path) as store:
                if not sweep_id or store.sweeps.find(sweep_id).ended is not None:
                    if killed >= kills:
                        break
                    plan = Plan(repeats=2)
                    sweep_id = store.sweeps.add("Kills", grid_of(base, axes), plan, device_name="CPU")
            process = start("sweep", path, sweep_id)
            assert process.stdout is not None
            process.stdout.readline()
            try:
                errors = process.communicate(timeout=moments.uniform(0.0, 1.0) if killed < kills else None)[1]
                assert process.returncode == 0, errors
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                killed += 1
        turns = path.with_suffix(".turns").read_text(encoding="utf-8").splitlines()
        repeated = len(turns) - len(set(turns))
        missing = twice = 0
        with Store(path) as store:
            for cell in (cell for sweep in store.sweeps.newest() for cell in sweep.cells):
                done = Counter(run.repeat for run in cell.runs if run.status is Status.FINISHED)
                missing += sum(repeat not in done for repeat in (1, 2)) + (cell.pilot is None)
                twice += done.total() - len(done)
            strange = sum(run.status is not Status.FINISHED or not run.sweep for run in store.runs())
    print(f"{killed} kills, {len(set(turns)):,} turns: missing {missing}, twice {twice}, repeated {repeated}")
    print(f"runs that did not finish or are of no sweep: {strange}")
    return not (missing or twice or repeated or strange)


def install(folder: str, mirror: str) -> None:
    with patch.object(installed, "has_own_torch", return_value=False):
        installer = Installer(Path(folder), lambda packages: time.sleep(0.3))
        for event in installer.install(InstallRequest(source=Source(mirror=mirror))):
            if isinstance(event, StageBegan):
                print(event.stage.value, flush=True)


def kill_setups(kills: int, moments: random.Random) -> bool:
    """Install and kill; an installation that ends before its kill is followed by an update."""
    stages: Counter[str] = Counter()
    stage = ""
    unsound = again = 0
    was_ready = False

    def attempt(folder: Path, index: WheelIndex, seconds: float | None) -> str:
        process = start("setup", folder, index.simple)
        try:
            printed, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            printed, errors = process.communicate()
        if process.returncode > 0:
            raise SystemExit(f"The installation failed: {errors}")
        return (printed.split() or ["starting"])[-1] if process.returncode else "at its end"

    def is_sound(folder: Path) -> bool:
        state = engine_here(folder).state
        if state is State.ABSENT:
            return not was_ready
        return state is State.READY and missing_files_problem(folder) is None

    with (
        patch.object(installed, "has_own_torch", return_value=False),
        tempfile.TemporaryDirectory() as scratch,
    ):
        folder = Path(scratch, "engine")
        content = {f"torch/part{number}.bin": moments.randbytes(40_000) for number in range(400)}
        stand_in_wheel(Path(scratch, "wheels"), "torch", "2.15.0", {"torch/__init__.py": "", **content})
        stand_in_wheel(Path(scratch, "wheels"), "torchvision", "0.30.0", requires=["torch"])
        with WheelIndex(Path(scratch, "wheels")) as index:
            began = time.monotonic()
            attempt(Path(scratch, "first"), index, None)
            seconds = time.monotonic() - began
            while sum(count for stage, count in stages.items() if stage != "at its end") < kills:
                before, index.requests = stage, []
                stage = attempt(folder, index, moments.uniform(0.0, seconds))
                stages[stage] += 1
                again += len(index.fetched()) if before == "trying" else 0
                unsound += not is_sound(folder)
                was_ready |= engine_here(folder).state is State.READY
            attempt(folder, index, None)
        was_ready = True
        is_whole = is_sound(folder) and len(list(installations_folder(folder).iterdir())) == 1
    print(", ".join(f"{stage} {count}" for stage, count in stages.most_common()))
    print(f"neither complete nor absent {unsound}, packages downloaded again {again}, at last {is_whole}")
    return not unsound and not again and is_whole


def train_ranks(path: str, seed: str) -> None:
    """Train, and print which steps the store has been given."""
    settings = {**_LINEAR, "devices": 2, "seed": int(seed), "samples": 1_000, "batch_size": 4}
    print("started", flush=True)
    with Store(Path(path)) as store, Launcher() as launcher:
        run = store.add(experiment_from({**settings, "steps": 100_000}))
        for event in Runner(store, launcher).run(run.id):
            if isinstance(event, Samples):
                print(event.step[-1], time.monotonic(), flush=True)


def kill_ranks(kills: int, moments: random.Random) -> bool:
    def processes(program: psutil.Process) -> dict[str, psutil.Process]:
        """Return what has started so far, by role."""
        found = {"program": program}
        with suppress(psutil.Error):
            for worker in (child for child in program.children() if "engine.worker" in child.cmdline()):
                found["worker"] = worker
                ranks = [child for child in worker.children() if "engine.worker" in child.cmdline()]
                found |= {f"rank {number}": rank for number, rank in enumerate(ranks)}
        return found

    def left_running(mark: str) -> list[int]:
        """Return the marked processes that have not ended within half a minute."""
        left, deadline = [0], time.monotonic() + 30.0
        while left and time.monotonic() < deadline:
            time.sleep(0.1)
            left = []
            for process in psutil.process_iter():
                with suppress(psutil.Error):
                    if process.environ().get(_MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                        left.append(process.pid)
        return left

    def kill_once(path: Path, number: int, victim: str, after: float) -> str:
        mark = f"{os.getpid()}-{number}"
        program = start("ranks", path, number, mark=mark)
        assert program.stdout is not None
        program.stdout.readline()
        began, process = time.monotonic(), psutil.Process(program.pid)
        while time.monotonic() - began < after or victim not in (running := processes(process)):
            time.sleep(0.02)
        with suppress(psutil.Error):
            running[victim].kill()
        killed = time.monotonic()
        told = [line.split() for line in program.communicate()[0].splitlines()]
        # the store is written four times a second, and a busy machine may be late
        due = [int(step) for step, moment in told if victim != "program" or float(moment) < killed - 0.5]
        if left := left_running(mark):
            return f"LEFT RUNNING: {left}"
        with Store(path) as store:
            store.recover()
            (run,) = store.runs()
            kept = len(store.samples(run.id)["step"]) if told else 0
        if due and kept < due[-1]:
            return f"SAMPLES LOST: {due[-1]} sent, {kept} kept"
        if victim == "program":
            return "interrupted" if run.status is Status.INTERRUPTED else f"STATUS: {run.status}"
        return "a message" if run.problem is not None and run.problem.message else f"NO MESSAGE: {run.status}"

    with tempfile.TemporaryDirectory() as folder:
        victims = ("rank 0", "rank 1", "worker", "program")
        return _kill_in_turn(
            victims,
            kills,
            moments,
            9.0,
            lambda number, *rest: kill_once(Path(folder, f"{number}.sqlite"), number, *rest),
        )


def _kill_in_turn(
    victims: tuple[str, ...],
    kills: int,
    moments: random.Random,
    window: float,
    kill_once: Callable[[int, str, float], str],
) -> bool:
    """Kill each victim in turn within `window` seconds; print the results, failures in capitals."""
    found: Counter[tuple[str, str]] = Counter()
    for number in range(kills):
        victim, after = victims[number % len(victims)], moments.uniform(0.0, window)
        found[victim, became := kill_once(number, victim, after)] += 1
        if became.split(":")[0].isupper():
            print(f"{victim} after {after:.1f} s: {became}", flush=True)
    for (victim, became), count in sorted(found.items()):
        print(f"{victim:20} {became:90} {count:4}")
    return not any(became.split(":")[0].isupper() for _, became in found)


def read_remote(machine: str, file: str) -> None:
    """Note each event with the place after it, in one write."""
    path, job = Path(file), _remote_job()
    notes = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    site = RemoteSite(Machine.model_validate_json(machine), (10.0, 600.0))
    talk = {"TALK": "[300, 0.01]"}
    with path.open("ab", buffering=0) as out, Launcher(environment=talk, site=site) as launcher:

        def note(place: RemotePlace, said: str = "", sentence: str = "") -> None:
            value = {"at": place.events_at, "said": said, "ended": sentence}
            out.write(json.dumps({"worker": place.worker, **value}).encode() + b"\n")

        if notes:
            session = launcher.reconnect(RemotePlace("far", notes[-1]["worker"], notes[-1]["at"]), job)
        else:
            started = launcher.start(job, keep=note)
            assert isinstance(started, ProcessSession)
            session = started
        for event in iterate(session):
            place = session.place
            assert place is not None
            if isinstance(event, Failed):
                note(place, sentence=event.problem.message)
            elif event is not None and not isinstance(event, Log):
                ended = "finished" if isinstance(event, Finished) else ""
                note(place, to_line(event).decode(), ended)
        session.leave()


def _remote_job() -> jobs.Train:
    return jobs.Train(experiment=experiment_from({**_LINEAR, "steps": 3_000, "epochs": None}))


def kill_remotes(kills: int, moments: random.Random) -> bool:
    def kill_once(machine: RemoteMachine, number: int, victim: str, after: float) -> str:
        path = machine.home / f"{number}.notes"
        arguments = (machine.machine.model_dump_json(), path)
        program = start("remote", *arguments)
        kills: Mapping[str, Callable[[], object]] = {
            "connection": lambda: machine.kill_line(program.pid),
            "control connection": machine.kill_master,
            "session": machine.kill_sessions,
            "follower": machine.kill_followers,
            "keeper": machine.kill_keepers,
            "worker": machine.kill_workers,
            "program": lambda: [program.kill()],
        }
        if after > 1.0:
            # most come once it trains
            eventually(lambda: path.exists() or program.poll() is not None)
            after -= 1.0
        time.sleep(after)
        while program.poll() is None and not kills[victim]():
            time.sleep(0.02)
        errors = program.communicate(timeout=180)[1]
        notes = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        if victim == "program" and notes and not notes[-1]["ended"]:
            errors = start("remote", *arguments).communicate(timeout=180)[1]
            notes = [json.loads(line) for line in path.read_text().splitlines()]
        if not notes:
            return "not started"
        if not notes[-1]["ended"]:
            return f"NO END: {errors[-300:]}"
        data = (machine.home / "workers" / notes[0]["worker"] / "events").read_bytes()
        # a worker that was killed may have left half a line
        whole = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
        lines = [line for line in whole if not line.endswith(CANCELED)]
        there = [line for line in map(to_line, map(from_line, lines)) if b'"event":"log"' not in line[:20]]
        if "".join(note["said"] for note in notes).encode() != b"".join(there):
            return f"DIFFERS: {notes[-1]['ended']}"
        left = left_behind(machine)
        return f"LEFT: {left}" if left else f"equal: {notes[-1]['ended']}"

    def left_behind(machine: RemoteMachine) -> list[str]:
        """Return what still runs there, or was not removed, after all was forgotten."""
        for _ in range(2):
            with Launcher(site=RemoteSite(machine.machine)) as launcher:
                for folder in machine.folders():
                    place = RemotePlace("far", folder.name)
                    with closing(launcher.reconnect(place, _remote_job())) as session:
                        for _ in iterate(session):
                            pass
            # a program that was killed before it had its worker kept leaves it to its keeper's patience
            with suppress(AssertionError):
                eventually(lambda: not machine.running(), 30.0)
        return [*(f"pid {pid}" for pid in machine.running()), *(path.name for path in machine.folders())]

    victims = ("connection", "control connection", "session", "follower", "keeper", "worker", "program")
    with pytest.MonkeyPatch.context() as monkeypatch, remote_machine(monkeypatch) as machine:
        machine.talk()
        return _kill_in_turn(victims, kills, moments, 4.0, lambda *arguments: kill_once(machine, *arguments))


_PROGRAMS = {"sweep": train_sweep, "setup": install, "ranks": train_ranks, "remote": read_remote}
_KILLS = {"sweep": kill_sweeps, "setup": kill_setups, "ranks": kill_ranks, "remote": kill_remotes}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=_KILLS)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        _PROGRAMS[options.name](*options.program)
        return
    began = time.monotonic()
    is_good = _KILLS[options.name](options.kills, random.Random(options.seed))
    print(f"{time.monotonic() - began:.0f} s; as aimed for: {'yes' if is_good else 'NO'}")
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
