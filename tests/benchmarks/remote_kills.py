"""Kills what a run on another machine hangs on, at random moments: its events must come whole all the same.

    uv run python tests/benchmarks/remote_kills.py [--kills 70] [--seed 1] [--real]

The machine is this one, through an sshd of its own on the loopback. A kill (SIGKILL) meets the ssh client,
its control connection, the session of sshd, the relay, the keeper, the worker, or the program, after which
another takes the run up. `--real` trains; without it a stand-in speaks in the worker's place, which is
quicker. What came is compared with the file there byte by byte, and nothing may be left running there.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.machines.machine import Machine
from engine.machines.remote_site import RemoteSite
from engine.protocol import jobs
from engine.protocol.events import Failed, Finished, Log, from_line, to_line
from engine.protocol.jobs import RemotePlace
from engine.worker.launcher import Launcher, iterate
from engine.worker.supervision import ProcessSession
from tests.remote import RemoteMachine, eventually, remote_machine

VICTIMS = ("line", "control connection", "session", "relay", "keeper", "worker", "program")
_TALK = {"TALK": "[300, 0.01]"}
_PATIENCE_SECONDS = 10.0
_JOB = jobs.Train(
    experiment=Experiment.model_validate(
        {
            "model": "linear",
            "dataset": "synthetic-regression",
            "device": "cpu",
            "steps": 3_000,
            "epochs": None,
        }
    )
)


def read(machine: Machine, path: Path) -> None:
    """The program: notes each event with the place after it, in one write."""
    notes = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    site = RemoteSite(machine, (_PATIENCE_SECONDS, 600.0))
    with path.open("ab", buffering=0) as file, Launcher(environment=_TALK, site=site) as launcher:

        def note(place: RemotePlace, said: str = "", sentence: str = "") -> None:
            value = {"at": (place.events_at, place.errors_at), "said": said, "ended": sentence}
            file.write(json.dumps({"worker": place.worker, **value}).encode() + b"\n")

        if notes:
            session = launcher.reconnect(
                RemotePlace(machine.name, notes[-1]["worker"], *notes[-1]["at"]), _JOB
            )
        else:
            started = launcher.start(_JOB, keep=note)
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


def killed(victim: str, machine: RemoteMachine, program: subprocess.Popen[bytes]) -> bool:
    """Kills the victim, if it is there by now."""
    kills = {
        "line": lambda: machine.kill_line(program.pid),
        "control connection": machine.kill_master,
        "session": machine.kill_sessions,
        "relay": machine.kill_relays,
        "keeper": machine.kill_keepers,
        "worker": machine.kill_workers,
        "program": lambda: [program.kill()],
    }
    return bool(kills[victim]())


def kill_once(machine: RemoteMachine, path: Path, victim: str, after: float, *, is_real: bool) -> str:
    """What became of one run, in a few words."""
    command = [sys.executable, __file__, "--read", str(path), "--machine", machine.machine.model_dump_json()]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, stderr=subprocess.PIPE)

    program = start()
    time.sleep(after)
    while program.poll() is None and not killed(victim, machine, program):
        time.sleep(0.02)
    _, errors = program.communicate(timeout=180)
    notes = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if victim == "program" and notes and not notes[-1]["ended"]:
        program = start()
        _, errors = program.communicate(timeout=180)
        notes = [json.loads(line) for line in path.read_text().splitlines()]
    if not notes:
        return f"not begun: {errors.decode().splitlines()[-1] if errors else 'killed before'}"
    if not notes[-1]["ended"]:
        return f"NO END: {errors.decode()[-300:]}"
    return judged(machine, notes, is_real=is_real)


def judged(machine: RemoteMachine, notes: list[dict[str, str]], *, is_real: bool) -> str:
    data = (machine.home / "workers" / notes[0]["worker"] / "events").read_bytes()
    # a worker that was killed may have left half a line
    lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
    # a stand-in leaves out what has not been set
    written = [line if is_real else to_line(from_line(line)) for line in lines]
    there = b"".join(line for line in written if b'"event":"log"' not in line[:20])
    here = "".join(note["said"] for note in notes).encode()
    if here != there:
        return f"DIFFERS: {len(here)} bytes here, {len(there)} there, {notes[-1]['ended']}"
    return f"equal: {notes[-1]['ended']}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=70)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--window", type=float, help="seconds from the start in which they come")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--machine", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read is not None:
        read(Machine.model_validate_json(options.machine), options.read)
        return
    drawn, found = random.Random(options.seed), Counter[tuple[str, str]]()
    window = options.window or (15.0 if options.real else 5.0)
    with pytest.MonkeyPatch.context() as patch, remote_machine(patch) as machine:
        if not options.real:
            machine.talk()
        for number in range(options.kills):
            victim = VICTIMS[number % len(VICTIMS)]
            after = drawn.uniform(0.0, window)
            became = kill_once(machine, machine.home / f"{number}.notes", victim, after, is_real=options.real)
            found[victim, became] += 1
            if became.split(":")[0].isupper():
                print(f"{victim} after {after:.1f} s: {became}", flush=True)
            for left in left_behind(machine):
                print(f"{victim} after {after:.1f} s: LEFT {left}", flush=True)
        for (victim, became), count in sorted(found.items()):
            print(f"{victim:20} {became:90} {count:4}")


def left_behind(machine: RemoteMachine) -> list[str]:
    """What still runs there, or was not removed, once all was forgotten."""
    for _ in range(2):
        with Launcher(site=RemoteSite(machine.machine)) as launcher:
            for folder in machine.folders():
                with closing(launcher.reconnect(RemotePlace("far", folder.name), _JOB)) as session:
                    for _ in iterate(session):
                        pass
        # a program that was killed before it had its worker kept leaves it to its keeper's patience
        with suppress(AssertionError):
            eventually(lambda: not machine.running(), 3 * _PATIENCE_SECONDS)
    return [*(f"pid {pid}" for pid in machine.running()), *(path.name for path in machine.folders())]


if __name__ == "__main__":
    main()
