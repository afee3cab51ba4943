"""Two ranks on the CPU, by gloo: their losses beside one process's, their throughput beside a loop by hand.

    uv run python tests/benchmarks/ranks.py [--rounds 6] [--steps 150] [--seconds 900]

Losses: 2 ranks and one process at the same global batch, the largest relative difference of a step.
Throughput: the engine over DistributedDataParallel as in PyTorch's tutorial, under torchrun, with the same
model, batches and threads, alternating. Aims: losses within 1e-5 in FP32 and within rounding in 16 bits; a
ratio of 0.98.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from side_by_side import print_heading, print_ratio, turns, within
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from engine.experiment.experiment import experiment_from, layered
from engine.experiment.own.code import read_code
from engine.protocol import jobs
from engine.protocol.events import Finished, Samples
from engine.worker.perform import perform

AIM = 0.98
RANKS, BATCH, WARMUP, BLOCK = 2, 32, 20, 10
NET = """
import torch
from torch import nn

def model():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 16 * 16, 256), nn.ReLU(), nn.Linear(256, 10),
    )

def batch(size):
    return torch.randn(size, 3, 32, 32), torch.randint(10, (size,))
"""
KINDS: dict[str, dict[str, Any]] = {
    "linear": {"model": "linear", "dataset": "synthetic-regression", "samples": 800, "steps": 50},
    "language": {
        "model": "causal-lm-tiny",
        "dataset": "python-source",
        "sequence_length": 32,
        "samples": 480,
        "steps": 30,
    },
}
VARIETIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulation 2": {"step": {"gradient_accumulation": 2}, "steps": 15},
    "clipping": {"step": {"clip_norm": 0.5}},
}


def trained(settings: dict[str, Any]) -> tuple[list[float], Finished]:
    """Return the losses of a run, and its end."""
    losses: list[float] = []
    last = None
    for last in perform(jobs.Train(experiment=experiment_from(settings)), jobs.Control()):
        if isinstance(last, Samples):
            losses += last.loss
    assert isinstance(last, Finished), last
    return losses, last


def compare_losses() -> None:
    print(f"{'losses of 2 ranks beside one process':44} {'largest difference':>20}")
    for kind, base in KINDS.items():
        for variety, settings in VARIETIES.items():
            for precision in ("fp32", "bf16", "fp16"):
                # a scale that overflows nowhere: a rank's own half of the batch may overflow a step earlier
                shared = {"precision": precision, "device": "cpu", "scaler": {"init_scale": 64.0}}
                one = layered(base, settings, shared, {"batch_size": 16})
                alone, _ = trained(one)
                both, _ = trained(layered(one, {"batch_size": 8, "devices": RANKS}))
                worst = max(abs(a - b) / abs(a) for a, b in zip(alone, both, strict=True))
                print(f"{f'{kind}, {variety}, {precision}':44} {worst:20.1e}", flush=True)


def engine_speed(file: Path, steps: int) -> float:
    """Return the samples per second of both ranks."""
    settings = {"model": str(file), "code": read_code(file).to_json(), "dataset": "own", "samples": 10**6}
    rest = {"device": "cpu", "devices": RANKS, "batch_size": BATCH, "steps": steps}
    measure = {"warmup_steps": WARMUP, "block_steps": BLOCK}
    _, finished = trained({**settings, **rest, "measure": measure})
    assert finished.summary.samples_per_second is not None
    return finished.summary.samples_per_second


def by_hand(file: Path, steps: int) -> None:
    """Train as one rank; the first prints the samples per second of both."""
    distributed.init_process_group("gloo")
    names: dict[str, Any] = {}
    exec(file.read_text(encoding="utf-8"), names)
    torch.manual_seed(0)
    model = DistributedDataParallel(names["model"](), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    loss_function, batches = nn.CrossEntropyLoss(), [names["batch"](BATCH) for _ in range(4)]
    ends = []
    for step in range(steps):
        inputs, targets = batches[step % 4]
        optimizer.zero_grad()
        loss_function(model(inputs), targets).backward()
        optimizer.step()
        ends.append(time.perf_counter())
    measured = ends[WARMUP - 1 :: BLOCK]
    seconds = statistics.median(later - earlier for earlier, later in itertools.pairwise(measured))
    if distributed.get_rank() == 0:
        print(RANKS * BATCH * BLOCK / seconds)
    distributed.destroy_process_group()


def launched(file: Path, steps: int) -> float:
    """Run `by_hand` under torchrun; return the samples per second."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    options = ["--by-hand", str(file), "--steps", str(steps)]
    threads = {"OMP_NUM_THREADS": str(max(1, torch.get_num_threads() // RANKS)), "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        [sys.executable, *torchrun, __file__, *options],
        env={**os.environ, **threads},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seconds", type=float, help="no round begins after so many")
    parser.add_argument("--by-hand", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.by_hand is not None:
        by_hand(options.by_hand, options.steps)
        return
    print_heading(torch.device("cpu"))
    compare_losses()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "net.py"
        file.write_text(NET, encoding="utf-8")
        arms = {"engine": engine_speed, "by hand": launched}
        found: dict[str, list[list[float]]] = {name: [] for name in arms}
        for number in within(range(options.rounds), options.seconds):
            for name in turns(arms, number):
                found[name].append([arms[name](file, options.steps)])
    print_ratio("speed of 2 ranks: engine / by hand", found["engine"], found["by hand"], AIM)


if __name__ == "__main__":
    main()
