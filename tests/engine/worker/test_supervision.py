"""A worker may end in any way: the run then fails with a plain sentence, and the next run just works.

The workers here are real processes that misbehave on purpose.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
import types
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, ProblemError
from engine.protocol.events import Event, Failed, Finished, Heartbeat, Log, Phase, PhaseName, Started
from engine.protocol.jobs import Train
from engine.worker.launcher import Launcher, Session, iterate
from engine.worker.process import End, WorkerProcess
from engine.worker.supervision import Limits, ProcessSession, _Watch

USUAL = Limits()

PRELUDE = """
import json, os, signal, subprocess, sys, time
def say(**event):
    sys.stdout.write(json.dumps(event) + chr(10)); sys.stdout.flush()
def started():
    experiment = json.loads(sys.stdin.readline())["experiment"]
    machine = dict(device_name="CPU", device_memory_mib=1.0, torch="0", python="3", os="os", ammeter="0")
    say(event="started", experiment=experiment, environment=machine, total_steps=9, steps_per_epoch=9,
        parameters=1, loss_name="cross-entropy", loss_unit="nats")
say(event="ready", pid=os.getpid(), python="3", torch="0", ammeter="0")
"""


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[object]:
    launchers: list[Launcher] = []

    def start(body: str, limits: Limits = USUAL) -> Session:
        script = tmp_path / f"worker_{len(launchers)}.py"
        script.write_text(PRELUDE + textwrap.dedent(body))
        launcher = Launcher(limits=limits, command=(sys.executable, str(script)))
        launchers.append(launcher)
        return launcher.start(Train(experiment=Experiment()))

    yield start
    for launcher in launchers:
        launcher.close()


def events_of(session: Session) -> list[Event]:
    return [event for event in iterate(session) if event is not None]


def events_until(session: Session, kind: type[Event]) -> list[Event]:
    """The events up to the first of a kind."""
    seen: list[Event] = []
    for event in iterate(session):
        if event is not None:
            seen.append(event)
        if isinstance(event, kind):
            return seen
    raise AssertionError(f"it ended without {kind.__name__}: {seen}")


def failure_of(session: Session) -> Failed:
    last = events_of(session)[-1]
    assert isinstance(last, Failed)
    return last


def has_ended(pid: int, timeout_seconds: float = 60.0) -> bool:
    """Whether the process goes away in time; an orphan may stay a zombie where nobody reaps it."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
    return False


def test_an_exit_is_told_with_its_status_and_the_end_of_stderr(launch):
    failed = failure_of(launch("started(); sys.stderr.write('the last words\\n'); sys.exit(3)"))
    assert failed.problem.kind is Kind.WORKER_DIED
    assert "exit status 3" in failed.problem.message
    assert "the last words" in failed.detail


def test_a_signal_is_told_by_name(launch):
    failed = failure_of(launch("started(); os.kill(os.getpid(), signal.SIGKILL)"))
    assert "SIGKILL" in failed.problem.message
    assert "smaller batch" in failed.problem.remedy


@pytest.mark.parametrize(
    "line",
    ["hello", '{"event": "no such"}', '{"event": "heartbeat"}', '{"event": "heartbeat", "step": "x"}', "[]"],
)
def test_garbage_on_stdout_ends_the_run(launch, line):
    failed = failure_of(launch(f"started(); print({line!r}, flush=True); time.sleep(60)"))
    assert failed.problem.kind is Kind.PROTOCOL
    assert line[:20] in failed.problem.message


def test_silence_past_the_heartbeat_ends_the_run(launch):
    failed = failure_of(launch("started(); time.sleep(600)", Limits(silence=1.2)))
    assert failed.problem.kind is Kind.HANG
    assert "silent" in failed.problem.message


def test_a_standstill_behind_a_living_heartbeat_ends_the_run(launch):
    limits = Limits(standstill={**USUAL.standstill, PhaseName.MEASURING: 0.5})
    body = """
    started()
    say(event="heartbeat", step=7)
    say(event="phase", name="measuring")
    while True:
        say(event="heartbeat", step=7)
        time.sleep(0.05)
    """
    failed = failure_of(launch(body, limits))
    assert failed.problem.kind is Kind.HANG
    assert "after step 7" in failed.problem.message


def test_a_worker_that_never_gets_ready_is_given_up(launch, tmp_path):
    script = tmp_path / "mute.py"
    script.write_text("import time; time.sleep(60)")
    with Launcher(limits=Limits(ready=0.4), command=(sys.executable, str(script))) as launcher:
        assert "not ready" in failure_of(launcher.start(Train(experiment=Experiment()))).problem.message


def test_stop_asks_first(launch):
    session = launch("""
    started()
    assert json.loads(sys.stdin.readline()) == {"job": "stop"}
    say(event="finished", summary={"steps": 5}, stopped=True)
    """)
    events_until(session, Started)
    session.stop()
    last = events_of(session)[-1]
    assert isinstance(last, Finished) and last.stopped and last.summary.steps == 5


@pytest.mark.parametrize("deaf", ["pass", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
def test_stop_terminates_and_then_kills_the_whole_tree(launch, deaf):
    body = f"""
    {deaf}
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    started()
    say(event="samples", step=[1, 2], seconds=[0.5, 1.0], loss=[3.0, 2.0], samples_per_second=[1, 2],
        learning_rate=[1, 1])
    say(event="log", message=str(child.pid))
    while True:
        say(event="heartbeat", step=1)
        time.sleep(0.05)
    """
    session = launch(body, Limits(stop=0.3, terminate=0.3))
    child_pid = int(events_until(session, Log)[-1].message)
    session.stop()
    last = events_of(session)[-1]
    assert isinstance(last, Finished) and last.stopped
    assert (last.summary.steps, last.summary.seconds, last.summary.final_train_loss) == (2, 1.0, 2.5)
    assert last.summary.epochs == pytest.approx(2 / 9)
    assert last.summary.samples_per_second is None and last.summary.speed_note
    assert has_ended(child_pid)


def test_a_stop_before_training_began_does_not_wait(launch):
    session = launch("time.sleep(600)", Limits(stop=3_600.0))
    session.stop()
    last = events_of(session)[-1]
    assert isinstance(last, Finished) and last.stopped
    assert last.summary.speed_note == "Stopped before training began."


def test_a_profile_may_end_its_files_before_it_stops(launch):
    session = launch("""
    sys.stdin.readline()
    say(event="phase", name="profiling")
    assert json.loads(sys.stdin.readline()) == {"job": "stop"}
    say(event="finished", summary={"steps": 5}, stopped=True)
    """)
    events_until(session, Phase)
    session.stop()
    last = events_of(session)[-1]
    assert isinstance(last, Finished) and last.summary.steps == 5


def test_a_dead_worker_takes_its_orphans_along(launch):
    session = launch("""
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = subprocess.Popen(sleeper, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started()
    say(event="log", message=str(child.pid))
    os._exit(1)
    """)
    events = events_of(session)
    child_pid = int(next(event.message for event in events if event.event == "log"))
    assert isinstance(events[-1], Failed) and events[-1].problem.kind is Kind.WORKER_DIED
    assert has_ended(child_pid)


def test_closing_a_session_ends_its_worker(launch):
    session = launch("started(); time.sleep(600)")
    assert isinstance(session, ProcessSession)
    events_until(session, Started)
    session.close()
    assert session.is_over and session.next_event(0.0) is None
    assert not psutil.pid_exists(session._worker.pid)


def test_after_a_failure_the_next_run_just_works(launch):
    failure_of(launch("started(); sys.exit(9)"))
    last = events_of(launch('started(); say(event="finished", summary={"steps": 1})'))[-1]
    assert isinstance(last, Finished) and not last.stopped


def test_a_program_that_was_suspended_does_not_call_its_worker_silent(monkeypatch):
    clock = types.SimpleNamespace(now=1_000.0)
    monkeypatch.setattr("engine.worker.supervision.time", types.SimpleNamespace(monotonic=lambda: clock.now))
    watch = _Watch(Limits(silence=60.0))
    watch.note_event(Heartbeat(step=1))
    clock.now += 3_600.0
    watch.note_look()
    assert watch.overdue() is None
    for _ in range(70):
        clock.now += 1.0
        watch.note_look()
    problem = watch.overdue()
    assert problem is not None and "silent" in problem.message


@pytest.mark.skipif(sys.platform == "win32", reason="sessions are POSIX")
def test_a_process_that_left_the_tree_does_not_hold_up_the_end(launch):
    session = launch("""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.close(1)
        if os.fork() == 0:
            os.write(write, str(os.getpid()).encode())
            time.sleep(600)
        os._exit(0)
    os.wait()
    started()
    say(event="log", message=os.read(read, 20).decode())
    os._exit(1)
    """)
    events = events_of(session)
    runaway = int(next(event.message for event in events if event.event == "log"))
    psutil.Process(runaway).kill()
    assert isinstance(events[-1], Failed) and events[-1].problem.kind is Kind.WORKER_DIED


@pytest.fixture
def patient(monkeypatch):
    """The end of stdout waits for that of stderr, however late the system runs the thread that reads it."""
    monkeypatch.setattr("engine.worker.process._LAST_WORDS_SECONDS", 60.0)


@pytest.mark.usefixtures("patient")
def test_of_a_progress_bar_the_last_state_is_told(launch):
    events = events_of(launch("started(); sys.stderr.write('10 %\\r99 %\\r100 %\\n'); sys.exit(3)"))
    assert [event.message for event in events if isinstance(event, Log)] == ["100 %"]


@pytest.mark.usefixtures("patient")
def test_what_a_dying_worker_wrote_last_comes_before_its_end(launch):
    events = events_of(launch("started(); sys.stderr.write('no\\n' * 1900 + 'last\\n'); os._exit(3)"))
    assert [event.message for event in events if isinstance(event, Log)][-1:] == ["last"]
    assert isinstance(events[-1], Failed)


def test_a_worker_that_cannot_be_started_is_told_in_words(tmp_path):
    with pytest.raises(ProblemError) as raised:
        WorkerProcess((str(tmp_path / "no such program"),))
    assert raised.value.problem.kind is Kind.WORKER_DIED
    assert "could not be started" in raised.value.problem.message
    with Launcher(command=(str(tmp_path / "no such program"),)) as launcher:
        launcher.prepare()
        assert not launcher.idle_worker_pids


@pytest.mark.skipif(shutil.which("true") is None, reason="needs a program that ends at once")
def test_a_program_that_ends_at_once_is_noticed_at_once() -> None:
    for _ in range(20):
        worker = WorkerProcess(("true",))
        assert isinstance(worker.next_item(30), End)
        assert worker.close() == 0
