"""A script becomes a run: its events, its end, and the sentences on what went wrong."""

from __future__ import annotations

import itertools
import json
import math
import signal
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pynvml
import pytest

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.problem import Kind
from engine.protocol.events import Event, Failed, Finished, Log, Samples, Skipped, Started, Summary
from engine.protocol.jobs import Control, Train
from engine.protocol.summary import Energy
from engine.training.measuring import sensors
from engine.training.measuring.sensors import SensorGauge
from engine.worker.launcher import Launcher, iterate
from engine.worker.script import run as running
from engine.worker.script.process import ScriptProcess
from engine.worker.script.run import run_script

TRAIN = """
import sys, torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
words = sys.argv[1:]
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=4.0, enabled="scaled" in words)
count = next((int(word) for word in words if word.isdecimal()), 10**9)
for step in range(count):
    inputs, targets = torch.randn(6, 8), torch.randint(3, (6,))
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled="amp" in words):
        loss = nn.functional.cross_entropy(model(inputs), targets)
    if "scaled" in words and step == 12:
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step < 25:
        print(f"loss {loss.item()!r}", flush=True)
"""
PROGRAM = f"'{sys.executable}'"


def experiment(folder: Path, line: str, **command: object) -> Experiment:
    (folder / "train.py").write_text(TRAIN)
    return experiment_from(
        {
            "command": {"line": line, "folder": str(folder), **command},
            "steps": 20,
            "measure": {"warmup_steps": 5, "block_steps": 3},
        }
    )


def events_of(folder: Path, line: str, **command: object) -> list[Event]:
    return list(run_script(experiment(folder, line, **command), Control()))


OBSERVER = """
import glob, os, shutil
for path in glob.glob("*.jsonl"):
    shutil.copy(path, os.environ["AMMETER_OBSERVER_FOLDER"])
"""


def telling(folder: Path, count: int, begin: dict[str, object], code: str = "", **columns: object) -> str:
    """Write a script that says all it has to say at once, and goes on with `code`; return its command.

    It needs no torch, whose import takes seconds. Each of `count` steps takes 0.1 s, those of `compiled` 5 s.
    """
    steps, compiled = list(range(1, count + 1)), columns.get("compiled", ())
    assert isinstance(compiled, list | tuple)
    seconds = list(itertools.accumulate(5.0 if step in compiled else 0.1 for step in steps))
    same = {"kind": "steps", "step": steps, "seconds": seconds, "learning_rate": [0.1] * count}
    first = {"kind": "begin", "pid": 1, "python": "3.12.1", "torch": "2.10.0", "device": "cpu", **begin}
    lines = [first, {**same, "loss": [1.0] * count, **columns}]
    (folder / "1.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (folder / "tell.py").write_text(OBSERVER + code)
    return f"{PROGRAM} -S tell.py"


T = TypeVar("T", bound=Event)


def of_kind(events: list[Event], kind: type[T]) -> Iterator[T]:
    return (event for event in events if isinstance(event, kind))


@pytest.mark.slow
def test_a_script_is_a_run_with_its_own_losses_and_what_was_seen(tmp_path: Path) -> None:
    events = events_of(tmp_path, f"{PROGRAM} train.py amp scaled")
    (started,) = of_kind(events, Started)
    assert started.experiment.precision is Precision.BF16 and started.experiment.batch_size == 6
    assert started.experiment.device == "cpu" and started.total_steps == 20
    assert started.environment.python == ".".join(map(str, sys.version_info[:3]))
    batches = list(of_kind(events, Samples))
    assert list(itertools.chain(*(batch.step for batch in batches))) == list(range(1, 21))
    printed = "".join(event.message for event in of_kind(events, Log)).split("loss ")[1:21]
    losses = itertools.chain(*(batch.loss for batch in batches))
    assert [repr(loss) for loss in losses] == [text.split()[0] for text in printed]
    assert list(of_kind(events, Skipped)) == [Skipped(steps=(13,), own=(13,))]
    assert batches[-1].grad_scale is not None and batches[-1].grad_scale[-1] == 2.0
    finished = events[-1]
    assert isinstance(finished, Finished) and not finished.stopped
    summary = finished.summary
    assert summary.steps == 20 and summary.skipped_steps == 1 and summary.first_nan_step is None
    assert summary.samples_per_second is not None and summary.peak_resident_mib is not None
    seen = summary.observed
    assert seen is not None and seen.has_scaler and seen.layers == {"bfloat16": 1.0}
    assert seen.autocast == "bfloat16" and seen.optimizer == "SGD" and seen.parameters == {"float32": 195}


def test_one_may_run_to_its_end(tmp_path: Path) -> None:
    waits = "import time\nwhile not os.path.exists('seen'): time.sleep(0.01)\nopen('ended', 'w').close()"
    line = telling(tmp_path, 40, {}, waits)
    for event in run_script(experiment(tmp_path, line, whole=True), Control()):
        if isinstance(event, Samples):
            (tmp_path / "seen").touch()
    assert isinstance(event, Finished) and event.summary.steps == 40 and not event.stopped
    assert (tmp_path / "ended").exists()


def test_a_request_to_pause_is_answered_once(tmp_path: Path) -> None:
    control = Control()
    control.pause_requested.set()
    events = list(run_script(experiment(tmp_path, telling(tmp_path, 20, {})), control))
    warnings = [
        log.message for log in of_kind(events, Log) if log.level == "warning" and "pause" in log.message
    ]
    assert warnings == ["A script cannot be paused. It continues."]
    assert isinstance(events[-1], Finished)


def test_a_stop_ends_the_script_and_keeps_its_steps(tmp_path: Path) -> None:
    control, events = Control(), []
    endless = telling(tmp_path, 10, {}, "import time\nwhile True: time.sleep(1)")
    for event in run_script(experiment(tmp_path, endless, whole=True), control):
        events.append(event)
        if isinstance(event, Samples):
            control.stop_requested.set()
    finished = events[-1]
    assert isinstance(finished, Finished) and finished.stopped and finished.summary.steps > 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_program_in_the_background_interrupts_its_script_too(tmp_path: Path) -> None:
    tried = experiment(tmp_path, f"{PROGRAM} train.py")
    code = f"try:\n{textwrap.indent(TRAIN, ' ')}\nexcept KeyboardInterrupt: open('interrupted', 'w')"
    (tmp_path / "train.py").write_text(code)
    # as a shell does for a command that ends with &
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # in a worker that is started, not forked from one of the tests'
        with Launcher(environment={"PYTHONHASHSEED": "1"}) as launcher:
            launcher.trusted_code.name_command(tried.command)
            with closing(launcher.start(Train(experiment=tried))) as session:
                *_, finished = filter(None, iterate(session))
    finally:
        signal.signal(signal.SIGINT, before)
    assert isinstance(finished, Finished) and (tmp_path / "interrupted").exists()


@pytest.mark.parametrize(
    ("count", "error", "kind", "message"),
    [
        (
            14,
            "RuntimeError('no more data')",
            Kind.WORKER_DIED,
            "ended with exit status 1 after 14 steps: RuntimeError: no more data",
        ),
        (2, "MemoryError", Kind.OUT_OF_MEMORY, "ran out of memory."),
    ],
)
def test_one_that_fails_says_so_with_its_last_lines(
    tmp_path: Path, count: int, error: str, kind: Kind, message: str
) -> None:
    *_, failed = events_of(tmp_path, telling(tmp_path, count, {}, f"raise {error}"))
    assert isinstance(failed, Failed) and failed.problem.kind is kind
    assert failed.problem.message == f"The script {message}" and "Traceback" in failed.detail
    assert failed.summary is not None and failed.summary.steps == count


def test_one_that_ends_early_has_no_speed_and_says_why(tmp_path: Path) -> None:
    summary = observed(tmp_path, 8, {})
    assert summary.samples_per_second is None
    assert summary.speed_note == (
        "The run had 8 steps. At least 20 are needed to measure throughput (5 to warm up, 5 blocks of 3)."
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("true", "The script ended without an optimizer step that Ammeter could see."),
        (f"{PROGRAM} -c 'print(1)'", "The script ended without an optimizer step that Ammeter could see."),
        (f"{PROGRAM} -c 'exit(3)'", "The script ended with exit status 3 before its first step."),
        (f"{PROGRAM} missing.py", "The script ended with exit status 2 before its first step: "),
    ],
)
def test_one_that_never_trains_is_told(tmp_path: Path, line: str, message: str) -> None:
    *_, failed = events_of(tmp_path, line)
    assert isinstance(failed, Failed) and failed.problem.message.startswith(message)


FOLDER_IS_GONE = "import os, shutil; shutil.rmtree(os.environ['AMMETER_OBSERVER_FOLDER'])"
ONCE_SEEN = f"""
    if step == 9:
        import os, shutil, time
        while not os.path.exists("seen"): time.sleep(0.01)
        {FOLDER_IS_GONE}
"""
FILE_IS_TAKEN = "import os; os.mkdir(f'{os.environ[\"AMMETER_OBSERVER_FOLDER\"]}/{os.getpid()}.jsonl')"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "message", "was_seen"),
    [
        (f"{FOLDER_IS_GONE}\nwhile True: pass", "The observer cannot write to ", False),
        (
            TRAIN.replace("\n    if step <", f"{ONCE_SEEN}    if step <"),
            "The observer cannot write to ",
            True,
        ),
        (f"{FILE_IS_TAKEN}\n{TRAIN}", "The observer failed: IsADirectoryError: ", False),
    ],
    ids=["before it trains", "as it trains", "a file"],
)
def test_an_observer_that_cannot_write_fails_the_run_with_the_reason(
    tmp_path: Path, code: str, message: str, was_seen: bool
) -> None:
    tried = experiment(tmp_path, f"{PROGRAM} train.py 40")
    (tmp_path / "train.py").write_text(code)
    for event in run_script(tried, Control()):
        if isinstance(event, Started):
            (tmp_path / "seen").touch()
    assert isinstance(event, Failed) and event.problem.message.startswith(message)
    assert (event.summary is not None) is was_seen


PRINTING = f"""
import itertools, time
try:
    for line in itertools.count():
        print("line", line, flush=True)
        if line == 50:
            {OBSERVER.strip().replace(chr(10), chr(10) + "            ")}
        time.sleep(0.001)
except KeyboardInterrupt:
    print("saved")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_output_comes_in_few_pieces_and_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_PRINTED_SECONDS", 1e9)
    line = telling(tmp_path, 20, {})
    (tmp_path / "tell.py").write_text(PRINTING)
    events = events_of(tmp_path, line)
    first, last = (event.message for event in of_kind(events, Log) if event.level == "stderr")
    assert first.startswith("line 0") and last.endswith("\nsaved")
    joined = f"{first}\n{last}".splitlines()[:-1]
    assert joined == [f"line {number}" for number in range(len(joined))]


def observed(folder: Path, count: int, begin: dict[str, object], **columns: object) -> Summary:
    """Return the summary of a script that says all it has to say at once."""
    *_, finished = events_of(folder, telling(folder, count, begin, **columns))
    assert isinstance(finished, Finished), finished
    return finished.summary


@pytest.mark.parametrize(
    ("compiled", "steps"),
    [
        ([1, 2], 20),
        ([1, 10], 26),  # what is compiled in mid-run warms up for one step
        ([20], 36),
        ([1, 22], 20),  # after the last measured step
        (list(range(10, 400, 10)), 116),  # from five times the steps on, compiling is what it does
    ],
)
def test_compiling_is_warm_up_and_the_run_ends_all_the_same(
    tmp_path: Path, compiled: list[int], steps: int
) -> None:
    summary = observed(tmp_path, 400, {"batch_size": 4}, samples=[4] * 400, compiled=compiled)
    assert summary.steps == steps
    assert summary.samples_per_second == pytest.approx(40.0) and summary.step_ms == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("begin", "samples", "speed"),
    [
        ({"batch_size": 4}, [4] * 20, 40.0),
        ({"batch_size": 4, "world_size": 2}, [4] * 20, 80.0),
        ({"batch_size": 4}, [4, 0, 0, 4] * 5, 40.0),
        ({"batch_size": 4}, None, 40.0),
        # of an unknown batch, steps are counted
        ({}, [0] * 20, 10.0),
        ({"world_size": 2}, None, 10.0),
    ],
)
def test_a_step_whose_samples_were_not_seen_has_those_of_a_batch(
    tmp_path: Path, begin: dict[str, object], samples: list[int] | None, speed: float
) -> None:
    summary = observed(tmp_path, 20, begin, samples=samples)
    assert summary.samples_per_second == pytest.approx(speed)


def test_the_peak_is_that_of_the_process_with_the_highest(tmp_path: Path) -> None:
    begin = {"kind": "begin", "pid": 2, "rank": 1, "python": "3", "torch": "2", "device": "cpu"}
    steps = {"kind": "steps", "step": [1], "seconds": [0.1], "loss": [1.0], "learning_rate": [0.1]}
    lines = (begin, {**steps, "peak_resident_mib": 900.0})
    (tmp_path / "2.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    summary = observed(tmp_path, 20, {"world_size": 2}, peak_resident_mib=800.0)
    assert summary.peak_resident_mib == 900.0


@dataclass
class Meter:
    """A meter that has measured these joules."""

    joules: float

    def count(self, is_on: bool) -> None: ...

    def close(self) -> None: ...

    def over(self, steps: int, samples: int, seconds: float) -> Energy:
        return Energy(source="nvml", joules=self.joules, seconds=seconds, steps=steps, samples=samples)


@pytest.mark.parametrize(
    ("begin", "joules"),
    [
        ({"device": "cuda:0", "device_uuid": "b-2"}, 20.0),
        # as an older torch, which has no UUID, or one that NVML does not know
        ({"device": "cuda:0"}, None),
        ({"device": "cuda:0", "device_uuid": "c-3"}, None),
        ({"device": "cpu"}, 5.0),
        ({"device": "cuda:0", "device_uuid": "b-2", "world_size": 2}, None),
    ],
)
def test_sensors_and_energy_are_those_of_the_gpu_that_the_script_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: dict[str, object], joules: float | None
) -> None:
    asked: list[object] = []

    def gauge(device: object) -> SensorGauge:
        asked.append(device)
        return SensorGauge()

    meters = {"cpu": Meter(5.0), "a-1": Meter(10.0), "b-2": Meter(20.0)}
    monkeypatch.setattr(running, "energy_meters", lambda: meters)
    monkeypatch.setattr(running, "sensor_gauge", gauge)
    energy = observed(tmp_path, 20, begin).energy
    assert asked == [begin.get("device_uuid", "")]
    assert (None if energy is None else energy.joules) == joules


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_what_a_script_does_after_its_steps_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[object] = []

    class Instrument(SensorGauge):
        def count(self, is_on: bool) -> None:
            happened.append(is_on)

        def share(self) -> float:
            return 0.0

        def over(self, *measured: float) -> None: ...

    def end(process: ScriptProcess, *how: Any) -> None:
        happened.append("end")
        ended(process, *how)

    ended = ScriptProcess.end
    monkeypatch.setattr(running, "energy_meters", lambda: {"cpu": Instrument()})
    monkeypatch.setattr(running, "sensor_gauge", lambda device: Instrument())
    monkeypatch.setattr(running, "OtherPrograms", Instrument)
    monkeypatch.setattr(ScriptProcess, "end", end)
    *_, finished = events_of(tmp_path, telling(tmp_path, 20, {}, "while True: pass"))
    assert isinstance(finished, Finished)
    assert happened == [True] * 3 + [False] * 3 + ["end"]


def test_a_gpu_that_only_the_script_can_use_fails_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(uuid: str) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    monkeypatch.setattr(sensors, "start_nvml", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", unknown)
    assert observed(tmp_path, 20, {"device": "cuda:5", "device_uuid": "b-2"}).power_watts is None


def test_losses_that_are_not_finite_end_no_run(tmp_path: Path) -> None:
    losses = [1.0] * 11 + ["NaN", "Infinity", "-Infinity"] * 3
    summary = observed(tmp_path, 20, {"batch_size": 4}, loss=losses)
    assert summary.first_nan_step == 12 and summary.samples_per_second == pytest.approx(40.0)
    assert summary.final_train_loss is not None and not math.isfinite(summary.final_train_loss)


@pytest.mark.slow
def test_ranks_are_one_run_with_the_figures_of_each(tmp_path: Path) -> None:
    code = TRAIN.replace("optimizer =", "torch.distributed.init_process_group('gloo')\noptimizer =", 1)
    # as with DistributedDataParallel, no rank is ahead of another
    code = code.replace("    inputs, targets =", "    torch.distributed.barrier()\n    inputs, targets =")
    (tmp_path / "ranks.py").write_text(code)
    run = f"{PROGRAM} -m torch.distributed.run --standalone --nproc-per-node 2 ranks.py"
    events = events_of(tmp_path, run)
    finished = events[-1]
    assert isinstance(finished, Finished)
    summary = finished.summary
    assert summary.observed is not None and summary.observed.processes == 2
    assert [rank.device for rank in summary.ranks] == ["cpu, rank 0", "cpu, rank 1"]
    assert summary.samples_per_second is not None and summary.steps == 20
