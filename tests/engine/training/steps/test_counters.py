"""BatchNorm's counters on the host: the same state and losses, with fewer operations in each step."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
import torchvision
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from engine.experiment.experiment import Experiment
from engine.experiment.settings import parts_of
from engine.training.steps.counters import HostCounters
from engine.training.steps.plain import PlainStep
from engine.training.steps.recipe import build_step

CPU = torch.device("cpu")


class Additions(TorchDispatchMode):
    """Counts additions to whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten.add_.Tensor and args[0].dtype is torch.int64
        return function(*args, **(kwargs or {}))


def step_of(name: str, recipe: str, **settings: Any) -> PlainStep:
    torch.manual_seed(0)
    experiment = Experiment.model_validate({"step": {"recipe": recipe, **settings}, "precision": "bf16"})
    model = torchvision.models.get_model(name, num_classes=10)
    return build_step(model, cross_entropy, experiment, CPU, is_convolutional=True)


def trained(step: PlainStep, steps: int = 2) -> tuple[list[float], int]:
    losses, generator = [], torch.Generator().manual_seed(1)
    torch.manual_seed(2)
    with Additions() as additions:
        for _ in range(steps):
            group = [(torch.randn(2, 3, 32, 32, generator=generator), torch.tensor([1, 2])) for _ in range(2)]
            losses.append(float(step(group)[0]))
    return losses, additions.count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "others", "kind"),
    [
        ("fast", "channels_last+fused", "none"),
        ("fast", "channels_last+fused", "full"),
        ("host_counters", "plain", "none"),
    ],
)
def test_losses_and_state_are_the_same_to_the_last_bit_without_the_additions(
    recipe: str, others: str, kind: str
) -> None:
    usual = step_of("resnet18", others, activation_checkpointing=kind)
    hidden = step_of("resnet18", recipe, activation_checkpointing=kind)
    (losses, additions), (same, fewer) = trained(usual), trained(hidden)
    assert same == losses
    assert fewer == 0 and additions == 20 * 2 * 2  # twenty norms, two steps of two batches
    assert "host_counters" in parts_of(hidden.record.recipe) and "host_counters" not in usual.record.recipe
    states = usual.model.state_dict(), hidden.model.state_dict()
    assert list(states[0]) == list(states[1])
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert int(states[1]["bn1.num_batches_tracked"]) == 4
    # what is saved is loaded by a model that counts by itself
    other = torchvision.models.resnet18(num_classes=10)
    other.load_state_dict(states[1])
    assert int(other.bn1.num_batches_tracked) == 4


class Odd(nn.Module):
    """Calls one norm twice, another never, and has a frozen one, and one that may read its counter."""

    def __init__(self, *, reads: bool = False) -> None:
        super().__init__()
        self.twice, self.never = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
        self.mean, self.frozen = nn.BatchNorm1d(3, momentum=None if reads else 0.1), nn.BatchNorm1d(3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.frozen(self.mean(self.twice(self.twice(inputs))))
        return outputs


@pytest.mark.parametrize("reads", [False, True])
def test_each_layer_counts_as_often_as_it_is_called_and_else_is_left_as_it_is(reads: bool) -> None:
    models, states = [Odd(reads=reads), Odd(reads=reads)], []
    for number, model in enumerate(models):
        model.frozen.eval()
        counters = HostCounters(model)
        for _ in range(3):
            inputs = torch.randn(4, 3)
            if number:
                with pytest.raises(RuntimeError) if reads else nullcontext():
                    counters.count(1, partial(model, inputs))
            model(inputs)
        states.append({name: int(value) for name, value in model.state_dict().items() if "num_" in name})
    assert states[0] == states[1] == Counter({f"{name}.num_batches_tracked": count for name, count in COUNTS})
    assert (models[1].twice.num_batches_tracked is None) == (not reads)


def test_a_model_that_reads_its_numbers_counts_by_itself_and_the_step_says_so() -> None:
    experiment = Experiment.model_validate({"step": {"recipe": "host_counters"}})
    step = build_step(Odd(reads=True), cross_entropy, experiment, CPU, is_convolutional=False)
    for _ in range(2):
        step([(torch.randn(4, 3), torch.tensor([0, 1, 2, 0]))])
    assert step.record.recipe == "plain" and step.counters is None
    (note,) = step.record.pop_notes()
    assert note.startswith("host_counters is not applied: a pass with fake tensors failed (")
    assert int(step.model.state_dict()["twice.num_batches_tracked"]) == 4


COUNTS = (("twice", 6), ("never", 0), ("mean", 3), ("frozen", 0))
