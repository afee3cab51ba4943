"""How often `ammeter script` is right: equal commands, and one that sleeps a few percent longer.

    uv run python tests/benchmarks/script_verdicts.py [--pairs 24] [--repeats 10] [--percent 3]

Two commands alternate in fresh processes, `--pairs` times each: first the same script twice, then one whose
steps sleep `--percent` longer. Each of `--comparisons` takes `--repeats` of the pairs at random, in their
order, and of equal commands swaps the two of a pair at random. They share pairs, so their counts are of fewer
independent ones. "Undisturbed" are those whose verdict Ammeter would give: no disturbance disqualified them.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.compare.comparison import compare
from engine.compare.evidence import Evidence, evidence_of
from engine.compare.metrics import SPEED
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.sweep import alternating_turns
from engine.runner import Runner
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


def drawn(pairs: Sequence[Sequence[Evidence]], count: int, *, swaps: bool) -> list[Evidence]:
    """Return the runs of a comparison: `count` of the pairs, in their order, each swapped or not."""
    chosen = []
    for place in sorted(random.sample(range(len(pairs)), count)):
        first, second = pairs[place]
        if swaps and random.random() < 0.5:
            experiments = second.run.experiment, first.run.experiment
            first, second = (
                replace(each, run=replace(each.run, experiment=experiment, label=other.run.label))
                for each, other, experiment in zip((first, second), (second, first), experiments, strict=True)
            )
        chosen += [first, second]
    return chosen


def verdict_on(evidence: Sequence[Evidence], baseline: Experiment) -> tuple[str, bool]:
    """Return whether the second command was faster or slower, and whether that is reliable."""
    first = next(each.run.id for each in evidence if each.run.experiment.command == baseline.command)
    comparison = compare(evidence, first)
    (report,) = (report for report in comparison.reports if not report.is_baseline)
    interval = comparison.cells(report.side.id)[SPEED.name].ratio_interval
    is_reliable = not report.disqualifiers
    if interval is None:
        # one side alone has outliers
        return "no interval", is_reliable
    low, high = interval
    return "faster" if low > 1 else "slower" if high < 1 else "no difference", is_reliable


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=24, help="runs of each command")
    parser.add_argument("--repeats", type=int, default=10, help="of each command in one comparison")
    parser.add_argument("--percent", type=float, default=3.0, help="by which one command sleeps longer")
    parser.add_argument("--comparisons", type=int, default=200)
    options = parser.parse_args()
    random.seed(0)
    print(f"{'second command':<18}{'comparisons':>12}  {'of these':<12}verdicts")
    with tempfile.TemporaryDirectory() as name, Store(Path(name) / "runs.sqlite") as store:
        for percent in (0.0, options.percent):
            sides = experiments(Path(name), (0.0, percent))
            # the worker of a script only follows it, so that a thread measures the same
            with Launcher(Target.THREAD) as launcher:
                ids = run_all(store, launcher, sides, options.pairs)
            evidence = evidence_of(store, [store.run(each) for each in ids])
            pairs = [
                sorted(evidence[at : at + 2], key=lambda each: each.run.label)
                for at in range(0, len(evidence), 2)
            ]
            verdicts = [
                verdict_on(drawn(pairs, options.repeats, swaps=not percent), sides[0][1])
                for _ in range(options.comparisons)
            ]
            name_of = f"{percent:g}% longer" if percent else "the same"
            for group, is_counted in (("all", (True, False)), ("undisturbed", (True,))):
                found = Counter(verdict for verdict, is_reliable in verdicts if is_reliable in is_counted)
                words = ", ".join(f"{count} {verdict}" for verdict, count in found.most_common())
                print(f"{name_of:<18}{found.total():>12}  {group:<12}{words}", flush=True)


if __name__ == "__main__":
    main()
