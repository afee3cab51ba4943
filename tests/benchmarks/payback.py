"""The payback of compiling as told after 60 steps, next to the step at which long runs really overtook.

    uv run python tests/benchmarks/payback.py [--cases 5] [--most-seconds 90]

Each case is a model of element-wise operations on the CPU. A plain and a compiled run of 60 steps tell the
payback, with an empty and with a filled cache of the compiler. Then a plain and a compiled run of 1.5 times
as many steps show it. Every run is a process of its own. Its times are those of the CPU, with the compiler's
processes, which other programs change less.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

import numpy as np

from engine.compare.comparison import compare
from engine.compare.evidence import evidence_of
from engine.compare.metrics import SPEED
from engine.compare.payback import paybacks
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import read_code
from engine.protocol.jobs import Control
from engine.store.record import RunRecord
from engine.store.store import Store

_TOLD_AFTER, _AIM, _STORE = 60, 0.15, "runs.sqlite"
_SIZES = ((2, 256, 8_192), (4, 64, 16_384), (3, 128, 8_192), (3, 256, 6_144), (2, 128, 16_384))
"""Blocks, width and batch size of each case."""

_MODEL = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones({width})), nn.Parameter(torch.zeros({width}))

    def forward(self, inputs):
        moved = torch.relu(inputs * self.scale + self.shift) - 0.1 * inputs
        gate = torch.clamp(moved, -3, 3) + 0.01 * moved.square()
        return 0.5 * (inputs + gate).abs() - 0.1 * moved

def model():
    return nn.Sequential(*(Block() for _ in range({blocks})), nn.Linear({width}, 1))

def batch(size):
    inputs = torch.randn(size, {width})
    return inputs, inputs.sum(1, keepdim=True)
"""


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it has waited for."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def train_into(store: Store, experiment: Experiment) -> str:
    """Train here, with CPU time in place of the clock's. Save all events, and return the run's id."""
    from engine.training.runs.loop import train

    time.perf_counter = cpu_seconds
    run_id = store.add(experiment).id
    store.begin(run_id)
    store.record(run_id, [*train(experiment, Control())])
    return run_id


class Case:
    """A model, and its runs in a store."""

    def __init__(self, store: Store, folder: Path, blocks: int, width: int, batch_size: int) -> None:
        self._store, self._folder, self._caches = store, folder, count()
        self._file = folder / f"net_{blocks}_{width}.py"
        self._file.write_text(_MODEL.format(blocks=blocks, width=width), encoding="utf-8")
        self._batch_size = batch_size

    def new_cache(self) -> Path:
        return self._folder / f"{self._file.stem}_{next(self._caches)}"

    def trained(self, steps: int, cache: Path | None = None) -> RunRecord:
        """Train that many steps, compiled with this folder as cache, or plain. Return the saved run."""
        settings = {
            "model": str(self._file),
            "code": read_code(self._file).to_json(),
            "dataset": "own",
            "device": "cpu",
            "batch_size": self._batch_size,
            "steps": steps,
            "step": {"recipe": "plain" if cache is None else "compile"},
        }
        experiment = experiment_from(settings).to_json()
        # compiling in this process alone, whose time is counted
        caches = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **(caches if cache else {})}
        words = [sys.executable, __file__, "--train", experiment, "--store", str(self._folder / _STORE)]
        done = subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        return self._store.run(done.stdout.strip())

    def told(self, plain: RunRecord, compiled: RunRecord) -> tuple[float, float, bool | None]:
        """Return the step of the payback, the ratio of speeds, and whether all graphs were in the cache."""
        found = compare(evidence_of(self._store, [plain, compiled]), plain.id)
        ratio = found.cells(compiled.id)[SPEED.name].ratio
        if ratio is None:
            raise SystemExit(f"A run has no speed: {found.report(compiled.id).text}")
        (payback,) = paybacks(found.report(compiled.id).side, found.baseline, ratio, None)
        return payback.steps, ratio, payback.is_cached

    def overtaken(self, plain: RunRecord, compiled: RunRecord) -> float:
        """Return the first step at which the compiled run had taken no more time than the plain one."""
        late, base = (np.asarray(self._store.samples(run.id)["seconds"]) for run in (compiled, plain))
        both = min(len(late), len(base))
        steps = np.flatnonzero(late[:both] <= base[:both])
        return float(steps[0] + 1) if len(steps) else math.inf


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=len(_SIZES))
    parser.add_argument("--most-seconds", type=float, default=90.0, help="of a long plain run")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train is not None:
        with Store(options.store) as store:
            print(train_into(store, Experiment.from_json(options.train)))
        return
    print(f"{'case':<28}{'cache':>8}{'ratio':>8}{'told':>9}{'really':>9}{'off by':>9}")
    good = total = 0
    with tempfile.TemporaryDirectory() as name, Store(Path(name) / _STORE) as store:
        for blocks, width, batch_size in _SIZES[: options.cases]:
            case = Case(store, Path(name), blocks, width, batch_size)
            filled, plain, long_plain = case.new_cache(), case.trained(_TOLD_AFTER), None
            for fresh in (True, False):
                steps, ratio, is_cached = case.told(plain, case.trained(_TOLD_AFTER, filled))
                title = f"{blocks} of width {width}, {batch_size:,}"
                lead = f"{title:<28}{'filled' if is_cached else 'empty':>8}{ratio:>8.2f}{steps:>9,.0f}"
                step_ms = plain.summary.step_ms if plain.summary else None
                if math.isinf(steps) or 1.5e-3 * steps * (step_ms or 0.0) > options.most_seconds:
                    print(f"{lead}  too long to see", flush=True)
                    continue
                long = max(2 * _TOLD_AFTER, int(1.5 * steps))
                # the payback with a filled cache comes earlier in the same run
                long_plain = long_plain or case.trained(long)
                really = case.overtaken(long_plain, case.trained(long, case.new_cache() if fresh else filled))
                off = steps / really - 1
                good, total = good + (abs(off) <= _AIM), total + 1
                print(f"{lead}{really:>9,.0f}{off:>9.0%}", flush=True)
    print(f"within {_AIM:.0%}: {good} of {total}")


if __name__ == "__main__":
    main()
