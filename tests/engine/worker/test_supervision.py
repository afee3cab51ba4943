"""A worker may end in any way: the run then fails with a plain sentence, and the next run just works.

The workers here are real processes that misbehave on purpose.
"""

from __future__ import annotations

import shutil
import sys
import types
from collections.abc import Callable

import psutil
import pytest

from engine.experiment.experiment import Experiment, changed
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.events import Event, Failed, Finished, Heartbeat, Log, Phase, PhaseName, Started
from engine.protocol.jobs import Train
from engine.worker.launcher import Launcher, Session, iterate
from engine.worker.site import WorkerExited, WorkerProcess
from engine.worker.supervision import ProcessSession, Timeouts, Watchdog
from tests.remote import events_of, eventually, has_ended

USUAL = Timeouts()

Launch = Callable[..., Session]


@pytest.fixture
def launch(scripted: Callable[..., Launcher]) -> Launch:
    """Starts a worker that does what a script says, on the job of a usual experiment."""
    return lambda body, limits=USUAL: scripted(body, limits).start(Train(experiment=Experiment()))


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


@pytest.mark.parametrize(
    ("ending", "said", "detail", "remedy"),
    [
        ("sys.stderr.write('the last words\\n'); sys.exit(3)", "exit status 3", "the last words", ""),
        ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL", "", "smaller batch"),
    ],
)
def test_an_end_is_told_with_its_status_and_the_end_of_stderr(launch, ending, said, detail, remedy):
    failed = failure_of(launch(f"started(); {ending}"))
    assert failed.problem.kind is Kind.WORKER_DIED and said in failed.problem.message
    assert detail in failed.detail and remedy in failed.problem.remedy
    # and the next run just works
    last = events_of(launch("started(); finished(1, False)"))[-1]
    assert isinstance(last, Finished) and not last.stopped


STANDSTILL = """
    started()
    say(event="heartbeat", step=7)
    say(event="phase", name="measuring")
    while True:
        say(event="heartbeat", step=7)
        time.sleep(0.05)
"""


@pytest.mark.parametrize(
    ("body", "limits", "said"),
    [
        ("started(); time.sleep(600)", Timeouts(silence=1.2), "silent"),
        (STANDSTILL, Timeouts(standstill={**USUAL.standstill, PhaseName.MEASURING: 0.5}), "after step 7"),
    ],
    ids=["silence", "a standstill behind a living heartbeat"],
)
def test_a_worker_that_gets_nowhere_is_ended(launch, body, limits, said):
    failed = failure_of(launch(body, limits))
    assert failed.problem.kind is Kind.HANG and said in failed.problem.message


def test_a_worker_that_never_gets_ready_is_given_up(launch, tmp_path):
    script = tmp_path / "mute.py"
    script.write_text("import time; time.sleep(60)")
    with Launcher(limits=Timeouts(ready=0.4), command=(sys.executable, str(script))) as launcher:
        assert "not ready" in failure_of(launcher.start(Train(experiment=Experiment()))).problem.message


@pytest.mark.parametrize("kind", [Started, Phase], ids=["a run", "a profile, which ends its files"])
def test_stop_asks_first(launch, kind):
    session = launch(f"""
    {"started()" if kind is Started else "say(event='phase', name='profiling')"}
    assert json.loads(sys.stdin.readline()) == {{"job": "stop"}}
    say(event="finished", summary={{"steps": 5}}, stopped=True)
    """)
    events_until(session, kind)
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
    session = launch(body, Timeouts(stop=0.3, terminate=0.3))
    child_pid = int(events_until(session, Log)[-1].message)
    session.stop()
    last = events_of(session)[-1]
    assert isinstance(last, Finished) and last.stopped
    assert (last.summary.steps, last.summary.seconds, last.summary.final_train_loss) == (2, 1.0, 2.5)
    assert last.summary.epochs == pytest.approx(2 / 10)
    assert last.summary.samples_per_second is None and last.summary.speed_note
    eventually(lambda: has_ended(child_pid))


def test_a_stop_before_training_began_does_not_wait(launch):
    session = launch("time.sleep(600)", Timeouts(stop=3_600.0))
    session.stop()
    last = events_of(session)[-1]
    assert isinstance(last, Finished) and last.stopped
    assert last.summary.speed_note == "Stopped before training began."


@pytest.mark.parametrize("is_rank", [False, True])
def test_a_dead_worker_takes_its_orphans_along(launch, is_rank):
    # a rank has a session and a mark of its own, and a stopped one does not see that its stdin has closed
    session = launch(f"""
    sleeper = [sys.executable, "-c", "import os, time; os.kill(os.getpid(), {19 * is_rank}); time.sleep(600)"]
    mark = os.environ["AMMETER_WORKER"] + "{"/1" * is_rank}"
    how = dict(start_new_session={is_rank}, env=dict(os.environ, AMMETER_WORKER=mark))
    child = subprocess.Popen(sleeper, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)
    started()
    say(event="log", message=str(child.pid))
    os._exit(1)
    """)
    events = events_of(session)
    child_pid = int(next(event.message for event in events if event.event == "log"))
    assert isinstance(events[-1], Failed) and events[-1].problem.kind is Kind.WORKER_DIED
    eventually(lambda: has_ended(child_pid))


def test_closing_a_session_ends_its_worker(launch):
    session = launch("started(); time.sleep(600)")
    assert isinstance(session, ProcessSession)
    events_until(session, Started)
    session.close()
    assert session.is_over and session.next_event(0.0) is None
    assert not psutil.pid_exists(session._worker.pid)


def test_a_program_that_was_suspended_does_not_call_its_worker_silent(monkeypatch):
    clock = types.SimpleNamespace(now=1_000.0)
    monkeypatch.setattr("engine.worker.supervision.time", types.SimpleNamespace(monotonic=lambda: clock.now))
    watch = Watchdog(Timeouts(silence=60.0))
    watch.note_event(Heartbeat(step=1))
    clock.now += 3_600.0
    watch.note_supervised()
    assert watch.overdue() is None
    for _ in range(70):
        clock.now += 1.0
        watch.note_supervised()
    problem = watch.overdue()
    assert problem is not None and "silent" in problem.message


def test_a_script_may_validate_for_long_and_print_for_longer(monkeypatch):
    clock = types.SimpleNamespace(now=100.0)
    monkeypatch.setattr("engine.worker.supervision.time", types.SimpleNamespace(monotonic=lambda: clock.now))
    watch = Watchdog(USUAL, is_script=True)
    watch.note_event(Phase(name=PhaseName.MEASURING))
    watch.note_event(Heartbeat(step=7))

    def wait(seconds: int, event: Event) -> Problem | None:
        for _ in range(seconds):
            clock.now += 1.0
            watch.note_supervised()
            watch.note_event(event)
        return watch.overdue()

    assert wait(3_000, Heartbeat(step=7)) is None
    assert wait(10_000, Log(level="stderr", message="batch 1")) is None
    problem = wait(3_601, Heartbeat(step=7))
    assert problem is not None and problem.kind is Kind.HANG and "driver" not in problem.remedy
    assert problem.message == (
        "The script printed nothing and made no step for 3,600 seconds after step 7. It was ended."
    )


def test_a_script_s_job_is_watched_as_a_script(scripted):
    limits = Timeouts(standstill={**USUAL.standstill, PhaseName.BUILDING: 0.5})
    launcher, job = scripted(STANDSTILL, limits), changed(Experiment(), {"command.line": "python train.py"})
    launcher.trusted_code.name_command(job.command)
    assert "The script" in failure_of(launcher.start(Train(experiment=job))).problem.message


@pytest.mark.slow
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
    monkeypatch.setattr("engine.worker.site._LAST_WORDS_SECONDS", 60.0)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("written", "last"),
    [("'10%\\r99%\\r100%\\n'", "100%"), ("'no\\n' * 1900 + 'last\\n'", "last")],
    ids=["a progress bar", "many lines"],
)
def test_what_a_dying_worker_wrote_last_comes_before_its_end(launch, written, last):
    events = events_of(launch(f"started(); sys.stderr.write({written}); sys.stderr.flush(); os._exit(3)"))
    assert [event.message for event in events if isinstance(event, Log)][-1:] == [last]
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
        assert isinstance(worker.next_item(30), WorkerExited)
        assert worker.close() == 0
