"""Plants 1 to 3 modules that overflow in FP16 among 10 to 150, and searches for the fewest FP32 modules.

    python tests/benchmarks/planted_fp32_modules.py [--modules 10 40 150] [--seeds 3]

The models are trained on the CPU. A planted module squares 3,000 times its input and divides again: exact in
FP32, infinite in FP16. A search is exact if it names just the planted ones.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from engine.experiment.experiment import experiment_from
from engine.experiment.own.code import with_code
from engine.protocol import jobs
from engine.protocol.jobs import Control
from engine.protocol.numerics.numerics import Fp32Modules
from engine.training.doctor import read_catalog
from engine.training.numerics.bench import open_bench
from engine.training.numerics.fp32_modules import find_fp32_modules
from engine.training.runs.prepare import RunPlan

MODEL = """
import torch
from torch import nn


class Planted(nn.Module):
    def forward(self, x):
        return torch.sqrt((x * 3000).square() / 9e6 + 1e-6)


class Block(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.act = act

    def forward(self, x):
        return x + 0.1 * self.act(self.linear(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(8, 16)
        acts = [Planted() if place in {planted} else nn.Tanh() for place in range({blocks})]
        self.blocks = nn.Sequential(*map(Block, acts))
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)))


def batch(size):
    x = torch.randn(size, 8)
    return x, x.sum(1, keepdim=True)


def loss(outputs, targets):
    return nn.functional.mse_loss(outputs.float(), targets)
"""


def planted(folder: Path, blocks: int, places: Sequence[int], steps: int) -> Fp32Modules:
    """The search's result on a model with planted modules in these blocks."""
    (folder / "net.py").write_text(MODEL.format(planted=set(places), blocks=blocks), encoding="utf-8")
    settings = {
        "model": f"{folder}/net.py:Net",
        "dataset": "own",
        "precision": "fp16",
        "device": "cpu",
        "batch_size": 16,
        "steps": steps,
    }
    experiment = experiment_from(with_code(settings, names_model=True, names_dataset=True))
    opening = open_bench(RunPlan(experiment, read_catalog()), Control())
    while True:
        try:
            next(opening)
        except StopIteration as end:
            bench = end.value
            break
    with closing(bench):
        search = find_fp32_modules(bench, jobs.StudyNumerics(experiment=experiment, parts=("islands",)))
        while True:
            try:
                next(search)
            except StopIteration as end:
                result: Fp32Modules = end.value
                return result


def main() -> None:
    """Prints a row for each search."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modules", type=int, nargs="+", default=[10, 40, 150])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    asked = parser.parse_args()
    titles = ("modules", "planted", "found", "exact", "minimal", "runs", "k log2 n")
    print("{:>7} {:>7}  {:<44} {:<6} {:<8} {:>4} {:>8}".format(*titles))
    for modules in asked.modules:
        blocks = max(1, round((modules - 2) / 3))
        for count in (1, 2, 3):
            for seed in range(asked.seeds):
                places = sorted(random.Random(seed).sample(range(blocks), min(count, blocks)))
                with tempfile.TemporaryDirectory() as folder:
                    found = planted(Path(folder), blocks, places, asked.steps)
                names = {f"blocks.{place}.act" for place in places}
                located = set(found.modules or ())
                candidates = 2 + 3 * blocks
                row = (
                    f"{candidates:>7} {len(places):>7}  {', '.join(sorted(located)):<44} "
                    f"{'yes' if located == names else 'NO':<6} {'yes' if found.is_minimal else 'NO':<8} "
                    f"{len(found.trials):>4} {len(places) * math.log2(candidates):>8.1f}"
                )
                print(row, flush=True)


if __name__ == "__main__":
    main()
