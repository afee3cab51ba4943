"""The FLOPs of small models, which can be counted by hand."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
import torch

from engine.experiment.experiment import experiment_from
from engine.experiment.own.code import with_code
from engine.training.data.batches import Batch
from engine.training.doctor import read_catalog
from engine.training.profile.profile import count_flops
from engine.training.runs.plan import RunPlan

BATCH, WIDE = 4, 8
PRODUCT = 2 * BATCH * WIDE * WIDE
"""A square layer's forward pass."""

HEAD = f"""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Do(nn.Module):
    def __init__(self, function, inner):
        super().__init__()
        self.function = function
        self.inner = inner

    def forward(self, inputs):
        return self.function(self.inner, inputs)


def square():
    return nn.Linear({WIDE}, {WIDE}, bias=False)


def batch(size):
    return torch.randn(size, {WIDE}), torch.randn(size, {WIDE})


def loss(outputs, targets):
    return F.mse_loss(outputs, targets)
"""


def counted(plan: RunPlan) -> float | None:
    source = plan.workload.source(plan.device, torch.contiguous_format)
    try:
        group: list[Batch] = [next(iter(source.epoch(1, 0)))]
        return count_flops(plan, group)
    finally:
        source.close()


def plan_of(**settings: object) -> RunPlan:
    asked = {"device": "cpu", "batch_size": BATCH, "samples": 16, "steps": 1, **settings}
    return RunPlan(experiment_from(asked), read_catalog())


def plan_of_file(folder: Path, text: str, **settings: object) -> RunPlan:
    path = folder / "counted.py"
    path.write_text(HEAD + dedent(text), encoding="utf-8")
    asked = {"device": "cpu", "batch_size": BATCH, "steps": 1, **settings, "model": str(path)}
    return RunPlan(experiment_from(with_code(asked, names_model=True, names_dataset=False)), read_catalog())


@pytest.mark.parametrize(
    ("model", "products"),
    [
        # the first layer needs no gradient of its inputs
        ("nn.Sequential(square(), nn.ReLU(), square())", 2 + 3),
        # four gates, and a hidden state that is zero at first
        ("Do(lambda m, x: m(x[None])[0][0], nn.LSTM(8, 8, bias=False))", 4 * (2 + 2)),
        ("Do(lambda inner, x: inner(inner(x)), square())", 2 + 3),
        ("nn.Sequential(square(), Do(lambda m, x: checkpoint(m, x, use_reentrant=False), square()))", 2 + 3),
        ("nn.Sequential(square(), Do(lambda m, x: checkpoint(m, x, use_reentrant=True), square()))", 2 + 3),
        ("nn.Sequential(square(), Do(lambda m, x: m(x) if x.sum().item() < 9e9 else x, square()))", 2 + 3),
    ],
)
def test_flops_are_those_of_the_products(model, products, tmp_path):
    plan = plan_of_file(tmp_path, f"def model():\n    return {model}\n", precision="bf16")
    assert counted(plan) == products * PRODUCT


def test_a_step_of_the_files_own_counts_as_a_whole(tmp_path):
    text = """
        def model():
            return square()

        def step(train, batch):
            for _ in range(3):
                loss = F.mse_loss(train.model(batch[0]), batch[1])
                train.backward(loss)
                train.step(train.optimizer)
    """
    assert counted(plan_of_file(tmp_path, text)) == 3 * 2 * PRODUCT


def test_a_gradient_of_a_gradient_counts(tmp_path):
    text = """
        def model():
            return square()

        def step(train, batch):
            inputs = batch[0].requires_grad_()
            loss = train.model(inputs).square().sum()
            slope, = torch.autograd.grad(loss, inputs, create_graph=True)
            train.backward(slope.square().sum())
            train.step(train.optimizer)
    """
    # forward, the gradient of the inputs, and then both products of each of the two
    assert counted(plan_of_file(tmp_path, text)) >= (1 + 1 + 2) * PRODUCT


def test_what_cannot_be_counted_is_none(tmp_path):
    text = """
        def model():
            return Do(lambda scale, x: scale(x), nn.PReLU())
    """
    assert counted(plan_of_file(tmp_path, text)) is None


def test_nothing_is_computed_to_count(tmp_path):
    plan = plan_of_file(tmp_path, "def model():\n    return square()\n")
    samples = 10**12
    group = [(torch.empty(samples, WIDE, device="meta"), torch.empty(samples, WIDE, device="meta"))]
    assert count_flops(plan, group) == 2 * 2 * samples * WIDE * WIDE


@pytest.mark.parametrize(
    ("model", "forward", "settings"),
    [
        ("resnet18", 1.81e9, {}),
        ("vit_b_16", 17.56e9, {}),
        # recomputed activations and the precision change nothing
        ("resnet18", 1.81e9, {"precision": "fp16", "step": {"activation_checkpointing": True}}),
    ],
)
def test_models_of_the_catalog_are_counted_without_content(model, forward, settings):
    plan = plan_of(model=model, dataset="synthetic", **settings)
    pictures, labels = (
        torch.empty(shape, dtype=dtype, device="meta")
        for shape, dtype in (((BATCH, 3, 224, 224), torch.float32), ((BATCH,), torch.int64))
    )
    # torchvision's figures are of multiply-adds
    assert count_flops(plan, [(pictures, labels)]) == pytest.approx(3 * BATCH * 2 * forward, rel=0.05)


def test_a_language_model_is_counted_with_its_attention():
    plan = plan_of(model="causal-lm-tiny", dataset="synthetic-tokens", num_classes=100, sequence_length=32)
    short, long = (torch.empty(BATCH, length, dtype=torch.int64, device="meta") for length in (32, 64))
    assert (count_flops(plan, [(long, long)]) or 0) > 2 * (count_flops(plan, [(short, short)]) or 1e30)
