"""Cost of observing a script: its step time with the observer relative to without it, and its losses.

    uv run python tests/benchmarks/observer.py [--milliseconds 2 --milliseconds 50] [--pairs 10] [--seconds 5]

A pair is the same script twice, each in a process of its own, with and without the observer, in alternating
order. A step trains a small model on the CPU and multiplies as many matrices as fill its milliseconds. Times
are those of the CPU, which other programs change less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from side_by_side import median_interval

OBSERVER = Path(__file__).parents[2] / "engine" / "worker" / "script" / "observer"
_WARM_STEPS = 20
_SCRIPT = f"""
import json, sys, time
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
milliseconds, seconds = float(sys.argv[1]), float(sys.argv[2])
model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(8)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data, large = torch.randn(32, 64), torch.randn(128, 128)
losses, repeats = [], 0

def step():
    loss = model(data).square().mean()
    optimizer.zero_grad()
    loss.backward()
    for _ in range(repeats):
        large @ large
    optimizer.step()
    losses.append(loss)

def timed(count):
    began = time.process_time()
    for _ in range(count):
        step()
    return (time.process_time() - began) / count * 1e3

timed({_WARM_STEPS})
bare, repeats = timed(50), 10
each = (timed(50) - bare) / 10
repeats = int(sys.argv[3]) or max(1, round((milliseconds - bare) / each))
found = timed(int(seconds * 1e3 / milliseconds))
print(json.dumps({{"ms": found, "repeats": repeats, "losses": [float(loss).hex() for loss in losses]}}))
"""


def measure(milliseconds: float, seconds: float, *, is_observed: bool, repeats: int = 0) -> dict[str, object]:
    """Return the CPU time of a step in ms, the products that fill it and the losses of a process."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with tempfile.TemporaryDirectory() as folder:
        if is_observed:
            environment |= {"PYTHONPATH": str(OBSERVER), "AMMETER_OBSERVER_FOLDER": folder}
        words = [sys.executable, "-c", _SCRIPT, str(milliseconds), str(seconds), str(repeats)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        assert len(list(Path(folder).glob("*.jsonl"))) == is_observed
    value: dict[str, object] = json.loads(done.stdout)
    return value


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--milliseconds", type=float, action="append", help="of a step; repeatable")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each process, after its warm-up")
    options = parser.parse_args()
    print(f"{'a step of':<12}{'observed / not':>16}{'95% interval':>20}  losses")
    for milliseconds in options.milliseconds or (2.0, 50.0):
        repeats = int(str(measure(milliseconds, 0.5, is_observed=False)["repeats"]))
        ratios, are_equal = [], True
        for pair in range(options.pairs):
            sides = {
                is_observed: measure(milliseconds, options.seconds, is_observed=is_observed, repeats=repeats)
                for is_observed in ((True, False), (False, True))[pair % 2]
            }
            ratios.append(float(str(sides[True]["ms"])) / float(str(sides[False]["ms"])))
            are_equal = are_equal and sides[True]["losses"] == sides[False]["losses"]
        middle, low, high = median_interval(np.array(ratios).tolist())
        words = "equal" if are_equal else "DIFFERENT"
        print(
            f"{milliseconds:>6.0f} ms   {middle:>16.4f}{f'{low:.4f} to {high:.4f}':>20}  {words}", flush=True
        )


if __name__ == "__main__":
    main()
