"""Several processes share the store; one that is killed loses at most what it had not committed."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.paths import checkpoint_path, part_path
from engine.experiment.problem import ProblemError
from engine.protocol.events import Epoch, Skipped
from engine.store import checkpoints
from engine.store.record import RUN, Status, Work
from engine.store.store import Store

ROOT = Path(__file__).parents[3]

RECORDER = """
import sys, threading
from pathlib import Path
from engine.protocol.events import Samples
from engine.experiment.experiment import Experiment
from engine.store.store import Store

store = Store(Path(sys.argv[1]))
run = store.add(Experiment())
waiting = store.add(Experiment(), name="waiting")
store.begin(run.id)
pause = threading.Event()
for step in range(1, 100_000, 5):
    steps = tuple(range(step, step + 5))
    column = tuple(float(one) for one in steps)
    store.record(run.id, [Samples(
        step=steps, seconds=column, loss=column, samples_per_second=column, learning_rate=column)])
    print(run.id, waiting.id, steps[-1], flush=True)
    pause.wait(0.02)
"""

ADDER = """
import sys
from pathlib import Path
from engine.experiment.experiment import Experiment
from engine.store.store import Store

with Store(Path(sys.argv[1])) as store:
    for _ in range(20):
        store.add(Experiment())
"""


def start(script: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_a_killed_process_loses_nothing_that_it_committed(path: Path) -> None:
    with start(RECORDER, path) as process:
        assert process.stdout is not None
        for _ in range(5):
            run_id, waiting_id, committed = process.stdout.readline().split()
        with Store(path) as store:
            assert store.recover() == (), "its process lives"
            with pytest.raises(ProblemError, match="another instance of Ammeter"):
                store.delete([run_id])
            (problem,) = store.waiting.claim([Work(waiting_id, RUN, "")]).values()
            assert (
                problem is not None
                and "another instance of Ammeter" in problem.message
                and store.waiting.claimable() == ()
            )
        process.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    with Store(path) as store:
        assert store.recover() == (run_id,)
        run, steps = store.run(run_id), store.samples(run_id)["step"]
        assert run.status is Status.INTERRUPTED and run.ended is not None
        assert list(steps) == list(range(1, len(steps) + 1)) and len(steps) >= int(committed)
        assert run.summary is not None and run.summary.steps == len(steps)
        assert run.summary.seconds == float(len(steps))
        assert run.summary.final_train_loss == pytest.approx(sum(steps) / len(steps))
        assert run.summary.samples_per_second is None and run.summary.speed_note
        assert store.recover() == ()

        (waiting,) = store.waiting.claimable()
        assert waiting.key == waiting_id and store.waiting.claim([waiting]) == {waiting: None}
        assert store.waiting.claimable() == (waiting,)
        store.begin(waiting_id)
        assert store.waiting.claimable() == ()


def test_what_a_kill_left_half_written_is_swept_once_its_process_is_gone(path: Path) -> None:
    def part(run_id: str) -> Path:
        folder = checkpoints.folder_of(path, run_id)
        folder.mkdir(parents=True, exist_ok=True)
        left = part_path(checkpoint_path(folder, "last"))
        left.write_bytes(b"half a checkpoint")
        return left

    with start(RECORDER, path) as process:
        assert process.stdout is not None
        run_id = process.stdout.readline().split()[0]
        left, of_another_store = part(run_id), part("0123456789ab")
        whole = left.with_name("last.pt")
        whole.write_bytes(b"a checkpoint")
        with Store(path) as store:
            store.recover()
        assert left.exists(), "its process lives, and may be writing it"
        process.kill()
    with Store(path) as store:
        store.recover()
    assert not left.exists()
    assert whole.exists() and of_another_store.exists()


@pytest.mark.slow
def test_several_processes_open_a_new_store_and_write_at_once(path: Path) -> None:
    processes = [start(ADDER, path) for _ in range(3)]
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0, 0, 0]
    with Store(path) as store:
        assert [run.number for run in store.runs()] == list(range(60, 0, -1))


def test_an_interrupted_run_tells_all_that_can_be_said(path, started, batch):
    with Store(path) as store:
        run = store.add(Experiment())
        store.begin(run.id)
        experiment = Experiment(precision=Precision.FP16)
        store.record(run.id, [started(experiment), batch(1, 60, grad_scale=(1_024.0,) * 60)])
        store.record(run.id, [Skipped(steps=(1, 2)), Skipped(steps=(9,))])
        for epoch, accuracy in enumerate((0.5, 0.75, 0.7), 1):
            store.record(
                run.id,
                [
                    Epoch(
                        epoch=epoch,
                        step=50,
                        seconds=1.0,
                        train_loss=0.1,
                        validation_loss=0.2,
                        validation_accuracy=accuracy,
                    )
                ],
            )
        summary = store.summary_so_far(run.id)
    assert (summary.steps, summary.epochs, summary.skipped_steps) == (60, 1.2, 3)
    assert (summary.best_validation_accuracy, summary.final_validation_accuracy) == (0.75, 0.7)
    assert (summary.best_epoch, summary.first_nan_step) == (2, None)
    assert summary.final_grad_scale == 1_024.0


def test_an_interrupted_run_tells_since_when_its_loss_was_no_number(path, batch):
    with Store(path) as store:
        run = store.add(Experiment())
        store.record(run.id, [batch(1, 2), batch(3, 3, loss=(0.5, math.nan, math.nan))])
        assert store.summary_so_far(run.id).first_nan_step == 4


VISITOR = """
import sys
from pathlib import Path
from engine.store.store import Store
with Store(Path(sys.argv[1])) as store:
    print(len(store.runs()), flush=True)
"""


@pytest.mark.slow
def test_a_visit_by_another_program_takes_nothing_from_one_that_has_the_store_open_twice(path: Path) -> None:
    # the window and its engine's thread have a connection each; a command line comes and goes beside them
    with Store(path) as window, Store(path) as engine:
        window.add(Experiment())
        for seen in (1, 2, 3):
            visitor = start(VISITOR, path)
            assert visitor.communicate()[0].split() == [str(seen)]
            assert path.with_name(path.name + "-wal").exists()
            engine.add(Experiment())
        assert len(window.runs()) == 4
    with Store(path) as after:
        assert [run.number for run in after.runs()] == [4, 3, 2, 1]
