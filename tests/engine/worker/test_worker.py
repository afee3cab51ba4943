"""The real worker: its private streams, its jobs, its thread that writes events, and how it ends."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from engine.experiment.experiment import experiment_from
from engine.experiment.own.code import with_code
from engine.protocol import jobs
from engine.protocol.events import (
    CatalogRead,
    Event,
    Finished,
    Heartbeat,
    Log,
    Phase,
    PhaseName,
    Ready,
    Samples,
    Started,
    Summary,
    from_line,
)
from engine.worker.__main__ import EventWriter, _RequestReader
from engine.worker.launcher import Launcher, iterate
from engine.worker.site import COMMAND, WorkerProcess
from tests.engine.conftest import TINY as SETTINGS
from tests.remote import events_of

TINY = experiment_from({**SETTINGS, "steps": 30})
ENDLESS = experiment_from({**TINY.model_dump(), "steps": 100_000_000})


@pytest.fixture(scope="module")
def jobs_of_all_kinds():
    """The events of two light jobs and of a measured one, from one launcher."""
    with Launcher() as launcher:
        order = (jobs.ReadCatalog(), jobs.ReadCatalog(), jobs.Train(experiment=TINY))
        return tuple(events_of(launcher.start(job)) for job in order)


@pytest.mark.slow
def test_a_run_tells_its_story_in_order(jobs_of_all_kinds):
    *_, events = jobs_of_all_kinds
    kinds = [type(event) for event in events]
    assert kinds.index(Ready) < kinds.index(Started) < kinds.index(Samples) < kinds.index(Finished)
    steps = [step for event in events if isinstance(event, Samples) for step in event.step]
    assert steps == list(range(1, 31))
    last = events[-1]
    assert isinstance(last, Finished) and last.summary.steps == 30 and not last.stopped


def test_a_run_pauses_goes_on_beats_and_stops_after_the_step_in_flight(launcher):
    # all of one run: a process for each would take seconds to import torch
    session = launcher.start(jobs.Train(experiment=ENDLESS))
    paused, trained_on, beat = False, False, None
    for event in iterate(session):
        if isinstance(event, Samples) and not paused:
            session.pause()
        if isinstance(event, Phase) and event.name is PhaseName.PAUSED:
            paused = True
            session.resume()
        if paused and isinstance(event, Samples):
            trained_on = True
        if trained_on and isinstance(event, Heartbeat) and event.step > 0:
            beat = event
            session.stop()
    assert paused and beat is not None
    # iterate() ends with the last event
    assert isinstance(event, Finished) and event.stopped and event.summary.paused_seconds > 0
    assert event.summary.steps >= beat.step > 0


def test_light_jobs_share_a_worker_and_a_measured_job_has_its_own(jobs_of_all_kinds):
    first, second, training = jobs_of_all_kinds
    assert isinstance(first[-1], CatalogRead) and second[-1] == first[-1]
    assert isinstance(training[-1], Finished)
    pids = [event.pid for events in jobs_of_all_kinds for event in events if isinstance(event, Ready)]
    # the shared worker says that it is ready once, for both of its jobs
    assert len(pids) == 2 and pids[0] != pids[1]


def test_a_worker_is_out_of_reach_of_a_terminals_ctrl_c_and_ends_with_its_stdin_in_mid_run():
    worker = WorkerProcess()
    assert isinstance(worker.next_item(60.0), Ready)
    if hasattr(os, "getsid"):
        assert os.getpgid(worker.pid) != os.getpgid(0)
        assert os.getsid(worker.pid) == worker.pid
    worker.send(jobs.Train(experiment=ENDLESS))
    while not isinstance(worker.next_item(60.0), Samples):
        pass
    worker._input.close()
    worker._process.wait(timeout=20)
    worker.close()


ASKS_FOR_GARBAGE = """
import gc

def model():
    raise RuntimeError(f"{gc.get_freeze_count() > 100_000}: out of the collector's reach")

def batch(size): ...
"""


@pytest.mark.slow
def test_a_worker_does_not_collect_among_what_it_has_imported(launcher, tmp_path):
    path = tmp_path / "net.py"
    path.write_text(ASKS_FOR_GARBAGE)
    asked = with_code({"model": str(path), "device": "cpu"}, names_model=True, names_dataset=False)
    experiment = experiment_from(asked)
    launcher.trusted_code.add(experiment.own_code)
    *_, last = events_of(launcher.start(jobs.CheckModel(experiment=experiment)))
    assert "True: out of the collector's reach" in last.model_dump_json()


def test_what_a_library_prints_does_not_reach_the_protocol():
    code = textwrap.dedent(
        """
        import os, sys
        from engine.worker.__main__ import EventWriter
        from engine.protocol.events import Heartbeat
        from engine.worker.__main__ import claim_private_streams
        source, target = claim_private_streams()
        print("printed"); sys.stdout.flush()
        os.write(1, b"written to descriptor 1")
        assert sys.stdin.read() == "" and os.read(0, 10) == b""
        assert os.read(source, 10) == b"a job"
        writer = EventWriter(target)
        writer.put(Heartbeat(step=3))
        writer.close()
        """
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], input=b"a job", capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert from_line(done.stdout) == Heartbeat(step=3)
    assert b"printed" in done.stderr and b"written to descriptor 1" in done.stderr


@pytest.mark.slow
def test_a_folder_named_engine_in_the_current_one_is_not_run_and_half_a_request_ends_the_worker(
    tmp_path: Path,
) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "worker.py").write_text("raise SystemExit('the wrong engine')")
    done = subprocess.run(
        COMMAND, cwd=tmp_path, input=b'{"job": "tra', capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["event"] == "ready" and b"invalid request" in done.stderr


@pytest.mark.parametrize("line", [jobs.to_line(jobs.Train(experiment=ENDLESS)), b""])
def test_a_job_whose_sender_has_gone_is_not_run(line):
    source, target = os.pipe()
    os.write(target, line)
    os.close(target)
    reader = _RequestReader()
    reader.read(source)
    assert reader.next_job() is None


def sample(step: int, loss: float = 1.0) -> Samples:
    return Samples(
        step=(step,), seconds=(step / 10,), loss=(loss,), samples_per_second=(64.0,), learning_rate=(0.1,)
    )


@pytest.fixture
def pipe() -> tuple[int, int]:
    return os.pipe()


def test_what_is_put_comes_out_in_order_nan_and_infinity_too(pipe):
    source, target = pipe
    writer = EventWriter(target)
    told = [sample(1), Log(message="between"), sample(2, math.inf), Finished(summary=Summary(steps=2))]
    for event in (*told, sample(3, math.nan)):
        writer.put(event)
    writer.close()
    os.close(target)
    with os.fdopen(source, "rb") as stream:
        *read, last = map(from_line, stream)
    assert read == told
    assert isinstance(last, Samples) and math.isnan(last.loss[0])


def test_a_stalled_reader_costs_no_step_and_few_lines(pipe):
    source, target = pipe
    writer = EventWriter(target, capacity=8)
    # far more than a pipe holds: the thread is stuck in its write while these are put
    for step in range(1, 3_001):
        writer.put(sample(step))
    writer.put(Finished(summary=Summary(steps=3_000)))

    events: list[Event] = []
    with os.fdopen(source, "rb") as stream:
        for line in stream:
            events.append(from_line(line))
            if isinstance(events[-1], Finished):
                break
    writer.close()
    os.close(target)
    steps = [step for event in events if isinstance(event, Samples) for step in event.step]
    assert steps == list(range(1, 3_001))
    assert len(events) < 1_500


def test_a_reader_that_has_gone_does_not_raise(pipe):
    source, target = pipe
    os.close(source)
    writer = EventWriter(target)
    writer.put(sample(1))
    writer.close()
    writer.put(sample(2))
    writer.close()
    os.close(target)
