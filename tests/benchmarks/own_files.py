"""A model file of the user's own against the catalog's model, and a step of its own against the engine's.

    uv run python tests/benchmarks/own_files.py [--rounds 60] [--steps 20] [--precision fp32] [--seconds 300]

The file holds ResNet-18 as torchvision writes it; on a CPU both train on 32x32 pictures, in stretches that
take turns. Their losses must be the same to the last bit. A ratio of 1 means that a file costs nothing.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import closing
from pathlib import Path

import torch
from by_hand import Workload
from side_by_side import engine_stretches, experiment_of, interleave, print_heading, print_ratio

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import with_code
from engine.protocol.events import Samples
from engine.protocol.jobs import Control
from engine.training.runs.loop import train

AIM = 0.98
COMPARED_STEPS = 20
MODEL = """
import torchvision

def model():
    return torchvision.models.resnet18(num_classes=10)
"""
STEP = """
from torch.nn.functional import cross_entropy

def step(train, batch):
    inputs, targets = batch
    with train.autocast():
        loss = cross_entropy(train.model(inputs), targets)
    train.backward(loss)
    train.step(train.optimizer)
"""


def of_file(text: str, folder: Path, ours: Experiment) -> Experiment:
    """The experiment with a file of that text as its model."""
    file = folder / "net.py"
    file.write_text(text, encoding="utf-8")
    settings = {**ours.model_dump(mode="json"), "model": str(file)}
    return experiment_from(with_code(settings, names_model=True, names_dataset=True))


def losses_of(experiment: Experiment) -> list[float]:
    """The losses of the first steps."""
    short = experiment.model_copy(update={"steps": min(COMPARED_STEPS, experiment.steps or 1)})
    events = [event for event in train(short, Control()) if isinstance(event, Samples)]
    return [loss for event in events for loss in event.loss]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--steps", type=int, default=20, help="of each stretch")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--seconds", type=float, help="no round begins after so many")
    options = parser.parse_args()
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    length, warmup = 2 * options.steps * options.rounds, min(10, options.steps)
    workload = Workload(
        "resnet18", 16, 32, 10, options.precision, device, length, warmup=warmup, block=options.steps
    )
    ours = experiment_of(workload, "plain")
    print_heading(device)
    with tempfile.TemporaryDirectory() as folder:
        for what, text in (("model file / catalog", MODEL), ("own step / plain step", MODEL + STEP)):
            theirs = of_file(text, Path(folder), ours)
            same = "the same" if losses_of(theirs) == losses_of(ours) else "NOT the same"
            with (
                closing(engine_stretches(workload, "plain", theirs)) as own,
                closing(engine_stretches(workload, "plain", ours)) as catalog,
            ):
                found = interleave({"own": own, "catalog": catalog}, options.rounds, options.seconds)
            print_ratio(f"{workload}: {what}", found["own"], found["catalog"], AIM)
            print(f"  losses of {COMPARED_STEPS} steps: {same} to the last bit", flush=True)


if __name__ == "__main__":
    main()
