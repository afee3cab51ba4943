"""A machine may say anything: what comes over the line ends in a sentence, and nothing of it is obeyed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, ProblemError
from engine.machines import remote_worker
from engine.machines.machine import Machine
from engine.machines.remote_site import RemoteSite
from engine.machines.ssh import Channel, SshConnection
from engine.protocol import jobs
from engine.protocol.events import Event, Failed, Log
from engine.protocol.jobs import RemotePlace
from engine.worker.launcher import Launcher, iterate
from engine.worker.supervision import ProcessSession
from tests.remote import eventually, put_first

JOB = jobs.Train(experiment=Experiment(device="cpu"))
MACHINE = Machine(name="bad", host="bad", folder="/there", home="/there")
GREET = """
def own(**line):
    print("ammeter", NONCE, json.dumps(line))
def greet(**more):
    own(**{"protocol": 3, "taken": 0, "has_job": True, "home": "/there", **more})
"""


@pytest.fixture
def says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Launcher]]:
    """Puts a program in place of ssh that runs the given lines of Python; `greet()` is a good header."""
    # it never ends by itself, nor says that it has ended what it was asked to end
    monkeypatch.setattr(remote_worker, "_REAP_SECONDS", 0.1)
    monkeypatch.setattr(remote_worker, "_FORGET_SECONDS", 0.1)
    for close in (remote_worker.RemoteWorker.close, Channel.close):
        monkeypatch.setattr(close, "__defaults__", (0.1,))

    def put(script: str) -> Launcher:
        head = f"#!{sys.executable}\nimport json, sys, time\nNONCE = sys.argv[-1].split()[-1]\n"
        put_first(tmp_path / "bin", f"{head}{GREET}\n{script}\n", monkeypatch)
        return Launcher(site=RemoteSite(MACHINE))

    yield put
    # with these times still
    ours = {"remote-worker", "remote-forgotten"}
    eventually(lambda: ours.isdisjoint(thread.name for thread in threading.enumerate()))


def refusal(launcher: Launcher) -> str:
    with pytest.raises(ProblemError) as error:
        launcher.start(JOB)
    return error.value.problem.message


def taken_up(launcher: Launcher) -> list[Event]:
    with launcher, closing(launcher.reconnect(RemotePlace("bad", "0" * 32), JOB)) as session:
        assert isinstance(session, ProcessSession)
        return [event for event in iterate(session) if event is not None]


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (
            "sys.exit('\\x1b]0;title\\x07ssh: connect to host bad port 22: Connection refused')",
            "No connection to bad: \ufffd]0;title\ufffdssh: connect to host bad port 22: Connection refused.",
        ),
        (
            "print('Welcome \\x1b[2J')",
            "No connection to bad: it only answered 'Welcome \ufffd[2J'.",
        ),
        ("print('ammeter 00 {}')", "No connection to bad: it only answered 'ammeter 00 {}'."),
        ("greet(protocol=1)", "bad has a different version of Ammeter."),
        (
            "sys.stderr.write('No such command: follow'); sys.exit(2)",
            "bad has a different version of Ammeter.",
        ),
        (
            "greet(home='/there\\x1b[2J')",
            "No connection to bad: its answer is not from Ammeter.",
        ),
        ("greet(taken=-1)", "No connection to bad: its answer is not from Ammeter."),
        (
            "sys.stderr.write('sh: 1: exec: /there/program/current/bin/python: not found\\n'); sys.exit(127)",
            "Ammeter is not installed on bad: sh: 1: exec: /there/program/current/bin/python: not found.",
        ),
        ("while True: print('Welcome ' * 1_000)", "No connection to bad: it only answered 'Welcome Welcome"),
        (
            "while True: sys.stdout.write('Welcome ' * 1_000)",
            "No connection to bad: it only answered 'Welcome Welcome",
        ),
    ],
)
def test_one_that_does_not_answer_well_is_refused_before_a_job_begins(
    says, script: str, sentence: str
) -> None:
    assert refusal(says(script)).startswith(sentence)


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ('print(\'{"event": "exec"}\')', '{"event": "exec"}'),
        ("print('?what')", "?what"),
        ("own(status='rm')", '{"status": "rm"}'),
        ("own(gone='\\x1b[2J')", '{"gone": "\\u001b[2J"}'),
        ("while True: sys.stdout.write('o' * 100_000)", "o" * 30),
        ("while True: print('!' * 1_000)", "!" * 30),
    ],
)
def test_what_is_no_event_ends_the_job_in_a_sentence(
    says: Callable[[str], Launcher], script: str, shown: str
) -> None:
    *_, last = taken_up(says(f"greet()\n{script}\nsys.stdout.flush()\nsys.stdin.read()"))
    assert isinstance(last, Failed) and last.problem.kind is Kind.PROTOCOL
    assert shown in last.problem.message and "\x1b" not in last.problem.message


def test_an_end_that_is_told_twice_and_words_after_it_are_not_heard(says: Callable[[str], Launcher]) -> None:
    script = "greet(); own(status=3); own(status=4); print('{}'); print('?')"
    (last,) = taken_up(says(f"{script}\nsys.stdout.flush()\nsys.stdin.read()"))
    assert isinstance(last, Failed) and "exit status 3" in last.problem.message


def test_escape_sequences_on_stderr_reach_no_terminal(says: Callable[[str], Launcher]) -> None:
    told = "dict(event='log', level='stderr', message='\\x1b]0;title\\x07 \\x1b[2J')"
    script = f"greet()\nprint(json.dumps({told}))\nown(status=1)"
    first, last = taken_up(says(f"{script}\nsys.stdout.flush()\nsys.stdin.read()"))
    assert isinstance(first, Log) and isinstance(last, Failed)
    assert "\x1b" not in first.message + last.detail and "title" in first.message


def test_an_answer_that_is_too_long_or_late_is_given_up(says: Callable[[str], Launcher]) -> None:
    says("while True: sys.stdout.write('y' * 100_000)")
    with pytest.raises(ProblemError, match="sent more data than expected"):
        SshConnection(MACHINE).ask(("cat", "/there/catalog"), seconds=60)
    says("time.sleep(60)")
    with pytest.raises(ProblemError, match="did not answer within 0 seconds"):
        SshConnection(MACHINE).ask(("cat", "/there/catalog"), seconds=0.3)


def test_a_trace_that_is_none_is_not_kept(says: Callable[[str], Launcher], tmp_path: Path) -> None:
    path = tmp_path / "traces" / "1.json.gz"
    with pytest.raises(ProblemError, match="something other than a trace"):
        says("print('#!/bin/sh')").site.fetch(path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("word", ["a b", "$(reboot)", "a;b", "'", "", "a\nb", "`a`", "*", "é"])
def test_nothing_that_a_shell_reads_otherwise_is_passed_to_one(word: str) -> None:
    with pytest.raises(ValueError, match="not to be passed to a shell"):
        SshConnection(MACHINE).command(("cat", word))


@pytest.mark.parametrize("worker", ["../../etc", "", "0" * 31, "G" * 32])
def test_a_worker_whose_name_is_none_is_not_looked_for(says: Callable[[str], Launcher], worker: str) -> None:
    launcher = says("greet()")
    with pytest.raises(ProblemError, match="is not a worker of bad"):
        launcher.reconnect(RemotePlace("bad", worker), JOB)
