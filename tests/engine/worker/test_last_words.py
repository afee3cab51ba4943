"""A worker that dies or hangs: the problem names the user's line, and how far the run came is known."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.experiment.own.code import with_code
from engine.experiment.problem import Kind
from engine.protocol.events import (
    Epoch,
    Failed,
    Heartbeat,
    Log,
    PhaseName,
    Samples,
    Skipped,
    Started,
)
from engine.protocol.jobs import Train
from engine.worker.launcher import Launcher, Session
from engine.worker.supervision import Timeouts, TrainingProgress, last_words
from tests.engine.conftest import samples_of, started_of
from tests.remote import events_of

# what a real worker does before its first job, and the user's file as it is executed there
WORKER = """
import faulthandler, json, os, signal, subprocess, sys, threading
faulthandler.enable(all_threads=False)
if hasattr(faulthandler, "register"):
    faulthandler.register(signal.SIGUSR1)
ready = dict(event="ready", pid=os.getpid(), python="3", torch="0", ammeter="0")
sys.stdout.write(json.dumps(ready) + chr(10))
sys.stdout.flush()
code = json.loads(json.loads(sys.stdin.readline())["experiment"]["code"])
path = os.path.join(code["folder"], code["file"])
"""
HERE = "exec(compile(code['text'], path, 'exec'))"
IN_A_THREAD = f"threading.Thread(target=lambda: {HERE}).start(); threading.Event().wait()"
CRASH = "\ndef forward():\n    import ctypes; ctypes.string_at(0)\nforward()\n"
HANG = "\ndef forward():\n    while True: pass\nforward()\n"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="crashes by signal")


@pytest.fixture
def experiment(tmp_path: Path) -> Callable[[str], Experiment]:
    def make(text: str) -> Experiment:
        folder = tmp_path / "my models, größer"
        folder.mkdir(exist_ok=True)
        (folder / "net.py").write_text(text, encoding="utf-8")
        asked = {"model": str(folder / "net.py"), "device": "cpu"}
        return experiment_from(with_code(asked, names_model=True, names_dataset=False))

    return make


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Session]]:
    launchers: list[Launcher] = []

    def launch(experiment: Experiment, body: str = HERE, limits: Timeouts | None = None) -> Session:
        script = tmp_path / "worker.py"
        script.write_text(WORKER + textwrap.dedent(body))
        launchers.append(Launcher(limits=limits, command=(sys.executable, str(script))))
        launchers[-1].trusted_code.add(experiment.own_code)
        return launchers[-1].start(Train(experiment=experiment))

    yield launch
    for launcher in launchers:
        launcher.close()


@pytest.mark.parametrize("body", [HERE, IN_A_THREAD], ids=["main thread", "another thread"])
def test_a_crash_names_the_users_line(start, experiment, body):
    failed = events_of(start(experiment(CRASH), body))[-1]
    assert isinstance(failed, Failed) and failed.problem.kind is Kind.WORKER_DIED
    assert failed.problem.message.startswith("net.py, line 3, in forward: ")
    assert "SIGSEGV" in failed.problem.message
    frames = [line for line in failed.detail.splitlines() if line.startswith("  File")]
    assert frames == ['  File "net.py", line 3, in forward', '  File "net.py", line 4, in <module>']


@pytest.mark.parametrize("body", [HERE, IN_A_THREAD], ids=["main thread", "another thread"])
def test_an_endless_loop_names_the_users_line(start, experiment, body):
    limits = Timeouts(standstill=dict.fromkeys(PhaseName, 1.5), silence=1.5)
    failed = events_of(start(experiment(HANG), body, limits))[-1]
    assert isinstance(failed, Failed) and failed.problem.kind is Kind.HANG
    assert failed.problem.message.startswith("net.py, line 3, in forward: ")
    assert "loop" in failed.problem.remedy


def test_an_exit_that_leaves_no_frames_names_the_file(start, experiment):
    failed = events_of(start(experiment("import os\nos._exit(0)\n")))[-1]
    assert isinstance(failed, Failed)
    assert (
        failed.problem.message
        == "The training process ended mid-run with exit status 0 while running net.py."
    )


def test_of_megabytes_of_prints_only_the_end_is_kept(start, experiment):
    printing = "import sys\nfor _ in range(40):\n    print('x' * 100_000, file=sys.stderr)\n"
    events = events_of(start(experiment(printing + CRASH)))
    failed, logs = events[-1], [event for event in events if isinstance(event, Log)]
    assert isinstance(failed, Failed) and failed.problem.message.startswith("net.py, line 6, in forward: ")
    assert 2**20 <= sum(len(log.message) for log in logs) < 2**21
    assert len(failed.detail) < 2**21


def test_frames_of_libraries_and_prints_are_told_from_the_users(experiment):
    code = experiment("pass\n").own_code
    path = f"{code.folder}/net.py".encode("ascii", "backslashreplace").decode()
    dump = (
        "a line printed\nFatal Python error: Aborted\n\nThread 0x01 (most recent call first):\n"
        f'  File "{path}", line 9 in wait\n\nCurrent thread 0x02 (most recent call first):\n'
        f'  File "/lib/torch/nn.py", line 7 in linear\n  File "{path}", line 5 in forward\n\n'
        "Extension modules: numpy (total: 1)\n"
    )
    words = last_words(dump, code)
    assert words.frame is not None and words.frame.place == "net.py, line 5, in forward"
    assert "a line printed" in words.rest and "torch" not in words.trace and "Extension" not in words.trace


def started(precision: Precision) -> Started:
    return started_of(Experiment(precision=precision), total_steps=8, steps_per_epoch=4)


def sampled(steps: range, loss: float) -> Samples:
    seconds, losses = tuple(map(float, steps)), tuple(loss for _ in steps)
    return samples_of(steps.start, len(steps), seconds=seconds, loss=losses)


def test_it_says_how_far_a_run_came() -> None:
    progress = TrainingProgress()
    progress.note_event(started(Precision.FP16))
    progress.note_event(sampled(range(1, 5), 4.0))
    progress.note_event(Epoch(epoch=1, step=4, seconds=4.0, train_loss=4.0, validation_accuracy=0.5))
    progress.note_event(sampled(range(5, 7), 2.0))
    summary = progress.so_far.summary("stopped")
    assert (summary.steps, summary.epochs, summary.seconds) == (6, 1.5, 6.0)
    assert (summary.final_train_loss, summary.skipped_steps) == (2.0, 0)
    assert summary.best_validation_accuracy == summary.final_validation_accuracy == 0.5
    assert summary.samples_per_second is None and summary.speed_note == "stopped"


def test_steps_that_are_told_after_their_epoch_ended_do_not_count_for_the_next() -> None:
    progress = TrainingProgress()
    progress.note_event(started(Precision.FP32))
    progress.note_event(Epoch(epoch=1, step=4, seconds=4.0, train_loss=4.0))
    progress.note_event(sampled(range(1, 5), 4.0))
    assert progress.so_far.summary("stopped").final_train_loss == 4.0
    progress.note_event(sampled(range(5, 6), 1.0))
    assert progress.so_far.summary("stopped").final_train_loss == 1.0
    assert progress.so_far.summary("stopped").skipped_steps is None


def test_only_a_completed_step_is_progress() -> None:
    progress = TrainingProgress()
    assert progress.note_event(Heartbeat(step=3)) and not progress.note_event(Heartbeat(step=3))
    assert not progress.note_event(Skipped(steps=(1,)))
    assert progress.note_event(sampled(range(4, 5), 1.0)) and progress.step == 4
