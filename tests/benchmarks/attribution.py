"""How many floating-point operations of a forward and backward pass the precision map attributes.

    uv run python tests/benchmarks/attribution.py [--model resnet18] [--device cpu] [--precision bf16]
        [--quick]

The aim is at least 99% of them, in both directions. The loss counts as attributed, and has a column of its
own. "Right" holds the map against what is known for certain: of the layers that computed with weights of
their own in forward, the share whose backward computed there too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from engine.experiment.experiment import Experiment, experiment_from
from engine.protocol import jobs
from engine.protocol.events import PartMeasured
from engine.protocol.jobs import Control
from engine.protocol.numerics.nonfinite import ELSEWHERE, LOSS, Direction, Operation, PrecisionMap
from engine.training.numerics.parts import study_numerics

MODELS = ("resnet18", "vit_b_16", "convnext_tiny", "causal-lm-tiny")
_MOVES = {"aten.detach", "aten.t", "aten.view", "aten.transpose", "aten.permute", "aten._to_copy"}


def experiment_of(model: str, device: str, precision: str, quick: bool) -> Experiment:
    is_text = model.startswith("causal-lm")
    settings = {
        "model": model,
        "dataset": "synthetic-tokens" if is_text else "synthetic",
        "image_size": None if is_text else 32 if quick else 64,
        "sequence_length": 16 if quick else 64,
        "batch_size": 2,
        "samples": 4,
        "steps": 1,
    }
    return experiment_from({**settings, "device": device, "precision": precision})


def mapped(experiment: Experiment) -> PrecisionMap:
    job = jobs.StudyNumerics(experiment=experiment, parts=("map",))
    for event in study_numerics(job, Control()):
        if isinstance(event, PartMeasured) and isinstance(event.result, PrecisionMap):
            return event.result
    raise AssertionError("numerics that nobody stops gives its parts")


def floating(rows: Iterable[Operation], direction: Direction) -> list[Operation]:
    return [
        row
        for row in rows
        if row.direction == direction and any("float" in dtype for dtype in row.inputs + row.outputs)
    ]


def share(rows: list[Operation], place: str) -> float:
    """The share of the operations that stand under `place`."""
    there = sum(row.count for row in rows if row.module == place)
    return there / max(1, sum(row.count for row in rows))


def right(made: PrecisionMap) -> float:
    """Of the leaves with weights that computed in forward, the share that computed in backward."""
    parents = {module.name.rpartition(".")[0] for module in made.modules}
    leaves = {module.name for module in made.modules if module.parameters and module.name not in parents}
    computed: dict[Direction, set[str]] = {
        direction: {row.module for row in made.operations if row.direction == direction and _computes(row)}
        for direction in ("forward", "backward")
    }
    forward = leaves & computed["forward"]
    return len(forward & computed["backward"]) / max(1, len(forward))


def _computes(row: Operation) -> bool:
    return row.name not in _MOVES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", action="append", help="repeatable")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--quick", action="store_true", help="the smallest inputs")
    options = parser.parse_args()
    print(
        f"{'model':<16}{'direction':<10}{'operations':>11}{'attributed':>12}{'in the loss':>13}{'right':>8}"
        f"{'seconds':>9}"
    )
    for model in options.model or MODELS:
        made = mapped(experiment_of(model, options.device, options.precision, options.quick))
        for direction in ("forward", "backward"):
            rows = floating(made.operations, direction)
            count = sum(row.count for row in rows)
            print(
                f"{model:<16}{direction:<10}{count:>11,}{1 - share(rows, ELSEWHERE):>12.2%}"
                f"{share(rows, LOSS):>13.2%}{right(made):>8.0%}{made.seconds:>9.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
