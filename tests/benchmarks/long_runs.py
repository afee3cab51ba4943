"""How much memory each process takes after how many steps, and how long a comparison of two such runs takes.

Run it with `python tests/benchmarks/long_runs.py [steps ...]`, 100,000 and 3,000,000 by default; it prints a
table. The steps are made up and come as a worker sends them: some thousand a second, twenty times a second.
"Command line" records and ends a run, "window" also shows it while it grows, "worker" adds up its steps, and
"compared" opens the comparison of two. Each has a process of its own; its memory is the most that was seen.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import psutil

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.value import BYTES_PER_MIB
from engine.protocol.events import Environment, Event, Finished, Samples, Started, Summary
from engine.store.recorder import COMMIT_SECONDS, Recorder
from engine.store.store import Store

_BATCH = 265
_REFRESHED = 20
_PER_SECOND = 5_300
_PARTS = ("command line", "worker", "window", "compared")


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in _PARTS:
        _measure(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("steps", nargs="*", type=int, default=[100_000, 3_000_000])
    sizes = parser.parse_args().steps
    print(f"{'steps':>12}   {'process':<14}{'MiB':>8}{'seconds':>10}")
    for steps in sizes:
        with tempfile.TemporaryDirectory() as folder:
            for part in _PARTS:
                script = [sys.executable, __file__, part, str(steps), folder]
                told = subprocess.run(script, check=True, capture_output=True, text=True).stdout
                mib, seconds = told.split()[-2:]
                print(f"{steps:>12,}   {part:<14}{float(mib):>8,.0f}{float(seconds):>10.2f}", flush=True)


def _measure(part: str, steps: int, folder: Path) -> None:
    """Prints the most memory of this process, and seconds: of the run's end, or until all is shown."""
    parts: dict[str, Callable[[int, Path, Memory], float]] = dict(
        zip(_PARTS, (_record, _add_up, _show, _compare), strict=True)
    )
    memory = Memory()
    seconds = parts[part](steps, folder / "ammeter.sqlite", memory)
    memory.look()
    print(memory.most / BYTES_PER_MIB, seconds)


class Memory:
    """The most memory of this process, of all looks."""

    def __init__(self) -> None:
        self.most = 0

    def look(self) -> None:
        self.most = max(self.most, psutil.Process().memory_info().rss)


def _batches(steps: int) -> Iterator[Samples]:
    generator = np.random.default_rng(0)
    for first in range(1, steps + 1, _BATCH):
        step = np.arange(first, min(first + _BATCH, steps + 1))
        columns = {
            "step": step,
            "seconds": step / _PER_SECOND,
            "loss": 1 + 4 * np.exp(-8 * step / steps) + generator.normal(0, 0.1, len(step)),
            "samples_per_second": 64 * _PER_SECOND * generator.uniform(0.9, 1.1, len(step)),
            **{name: np.ones(len(step)) for name in ("learning_rate", "resident_mib", "data_wait_ms")},
        }
        yield Samples.model_validate({name: tuple(column.tolist()) for name, column in columns.items()})


def _run_of(
    store: Store, precision: Precision, steps: int, memory: Memory, take: Callable[[Event], object]
) -> float:
    """Records a run as it would train, and hands on its events; the seconds that its end took."""
    run = store.add(Experiment(precision=precision, device="cpu", steps=steps))
    store.begin(run.id)
    machine = Environment(
        device_name="a CPU", device_memory_mib=1, torch="2", python="3", os="Linux", ammeter="0"
    )
    begun = Started(
        experiment=run.experiment, environment=machine, total_steps=steps, steps_per_epoch=steps,
        parameters=1, loss_name="cross-entropy", loss_unit="nats",
    )  # fmt: skip
    summary = Summary(steps=steps, samples_per_second=64.0 * _PER_SECOND, seconds=steps / _PER_SECOND)
    now = [0.0]
    with closing(Recorder(store, run.id, resumes=False, clock=lambda: now[0])) as recorder:
        take(begun)
        recorder.take([begun])
        for number, batch in enumerate(_batches(steps)):
            now[0] += COMMIT_SECONDS / 4
            recorder.take([batch])
            take(batch)
            if number % 100 == 0:
                memory.look()
        began = time.perf_counter()
        recorder.take([Finished(summary=summary)])
        return time.perf_counter() - began


def _record(steps: int, path: Path, memory: Memory) -> float:
    with Store(path) as store:
        return max(_run_of(store, precision, steps, memory, lambda _: None) for precision in ("fp32", "bf16"))


def _add_up(steps: int, path: Path, memory: Memory) -> float:
    from engine.training.measuring.speed import Tally
    from engine.training.measuring.telemetry import Rows

    tally = Tally(Experiment().measure)
    for first in range(1, steps + 1, _BATCH):
        step = np.arange(first, min(first + _BATCH, steps + 1))
        times = np.full(len(step), 1 / _PER_SECOND)
        tally.add(Rows(step, np.full(len(step), 64), times, times, times, times, {"loss": times}), 10)
    began = time.perf_counter()
    assert tally.speed().samples_per_second
    return time.perf_counter() - began


def _show(steps: int, path: Path, memory: Memory) -> float:
    from PySide6.QtWidgets import QApplication

    from gui.train.panel import LivePanel, LiveRun
    from gui.window.app import make_application

    application = make_application([])
    panel, live = LivePanel(), LiveRun.queued("run", Experiment(device="cpu"))
    panel.resize(1_120, 660)
    panel.show()
    panel.set_runs([live])
    taken = [0]

    def take(event: Event) -> None:
        live.add(event)
        taken[0] += 1
        if taken[0] % _REFRESHED == 0:
            panel.refresh()
            QApplication.processEvents()

    with Store(path.with_name("shown.sqlite")) as store:
        seconds = _run_of(store, Precision.FP32, steps, memory, take)
    panel.close()
    application.quit()
    return seconds


def _compare(steps: int, path: Path, memory: Memory) -> float:
    sys.path.insert(0, str(Path(__file__).parent))
    from compare import measure

    from gui.window.app import make_application

    application = make_application([])
    with Store(path) as store:
        # once before, for what is imported at the first one
        (_, _), (opened, _) = measure(store, 1), measure(store, 1)
    application.quit()
    return opened


if __name__ == "__main__":
    main()
