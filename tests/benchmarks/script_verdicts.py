"""How often `ammeter script` is right: equal commands, and one that sleeps a few percent longer.

    uv run python tests/benchmarks/script_verdicts.py [--runs 30] [--repeats 10] [--percent 3]

Two commands alternate in fresh processes, `--runs` times each: first the same script twice, then one whose
steps sleep `--percent` longer. Every `--repeats` runs in a row are compared as one comparison. These overlap,
so their counts are of fewer independent ones. "Unreliable" is a comparison that a disturbance disqualified.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from engine.compare.comparison import compare
from engine.compare.evidence import evidence_of
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.sweep import alternating_turns
from engine.runner import Runner
from engine.store.record import RunRecord
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target

_SCRIPT = """
import sys, time
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data, large = torch.randn(32, 64), torch.randn(256, 256)
while True:
    model(data).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    for _ in range(4):
        large @ large
    # most of a step is exact, so that a difference of a few percent is what was asked for
    time.sleep(0.01 * (1 + float(sys.argv[1]) / 100))
"""
_STEPS, _WARMUP = 120, 20


def experiments(folder: Path, percents: Sequence[float]) -> list[tuple[str, Experiment]]:
    """Return a command for each percentage, named by its place: equal commands would be one side."""
    (folder / "train.py").write_text(_SCRIPT)
    sides = []
    for place, percent in enumerate(percents):
        line = f"SIDE={place} '{sys.executable}' train.py {percent}"
        settings = {
            "command": {"line": line, "folder": str(folder)},
            "steps": _STEPS + _WARMUP,
            "measure": {"warmup_steps": _WARMUP},
        }
        sides.append((str(place), experiment_from(settings)))
    return sides


def run_all(
    store: Store, launcher: Launcher, sides: Sequence[tuple[str, Experiment]], count: int
) -> list[str]:
    """Run each side `count` times, alternating, and return the ids of the runs in order."""
    for _, experiment in sides:
        launcher.trusted_code.name_command(experiment.command)
    comparison, runner, ids = store.add_comparison("verdicts"), Runner(store, launcher), []
    for turn in alternating_turns(sides, count):
        run = store.add(turn.experiment, comparison=comparison, label=turn.label)
        for _ in runner.run(run.id):
            pass
        ids.append(run.id)
    return ids


def verdict_on(store: Store, runs: Sequence[RunRecord]) -> str:
    """Return the verdict on the second command: "faster", "slower", "no difference" or "unreliable"."""
    comparison = compare(evidence_of(store, runs), runs[0].id)
    (report,) = (report for report in comparison.reports if not report.is_baseline)
    interval = report.verdict.speedup_ci
    if report.disqualifiers or interval is None:
        return "unreliable"
    low, high = interval
    return "faster" if low > 1 else "slower" if high < 1 else "no difference"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=30, help="of each command")
    parser.add_argument("--repeats", type=int, default=10, help="of each command in one comparison")
    parser.add_argument("--percent", type=float, default=3.0, help="by which one command sleeps longer")
    options = parser.parse_args()
    print(f"{'second command':<22}{'comparisons':>12}  verdicts")
    with tempfile.TemporaryDirectory() as name, Store(Path(name) / "runs.sqlite") as store:
        for percent in (0.0, options.percent):
            with Launcher(Target.PROCESS) as launcher:
                ids = run_all(store, launcher, experiments(Path(name), (0.0, percent)), options.runs)
            runs, width = [store.run(each) for each in ids], 2 * options.repeats
            windows = [runs[start : start + width] for start in range(0, len(runs) - width + 1, 2)]
            found = Counter(verdict_on(store, window) for window in windows)
            words = ", ".join(f"{count} {verdict}" for verdict, count in found.most_common())
            what = f"{percent:g}% longer" if percent else "the same"
            print(f"{what:<22}{len(windows):>12}  {words}", flush=True)


if __name__ == "__main__":
    main()
