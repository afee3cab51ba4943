"""The step that a workload file defines itself: what it may do with its optimizers, and what is refused."""

from __future__ import annotations

import math
import re

import pytest
import torch

from engine.protocol.advice import FindingKind
from engine.training.checks.check import check
from tests.engine.training.conftest import refusal, trained

BATCH = """
def batch(size):
    return torch.randn(size, 4), torch.randint(3, (size,))
"""
LINES = (
    """
import torch
from torch import nn

CALLS = [0]

def model():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
"""
    + BATCH
)
IN_TURNS = (
    LINES
    + """
def optimizer(model):
    return [torch.optim.{kind}(part.parameters(), lr=0.01{more}) for part in (model[0], model[2])]
def step(train, batch):
    CALLS[0] += 1
    with train.autocast():
        hidden = train.model[0](batch[0])
        outputs = train.model[2]((hidden.detach() if CALLS[0] % 3 == 0 else hidden).relu())
        loss = nn.functional.cross_entropy(outputs, batch[1])
    train.backward(loss)
    for one in train.optimizers:
        train.unscale(one)
        train.step(one)
"""
)


@pytest.mark.parametrize(("kind", "more"), [("SGD", ""), ("Adam", ", fused=True")])
def test_an_optimizer_without_gradients_rests_in_every_precision(own, kind, more):
    path = own.write(IN_TURNS.replace("{kind}", kind).replace("{more}", more))
    losses = {}
    for precision in ("fp32", "bf16", "fp16"):
        step = {"clip_norm": 1.0, "recipe": "fast"}
        experiment = own.experiment(path, precision=precision, step=step)
        run = trained(experiment)
        assert run.summary.left_out["compile"] == "the model file defines its own step"
        assert "host_counters" in run.summary.left_out
        losses[precision] = run.losses
        told = [found for found in check(experiment).findings if found.kind is not FindingKind.EMULATED]
        assert len(losses[precision]) == 6 and not told
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.05)
    assert losses["fp16"] == pytest.approx(losses["fp32"], rel=0.01)


LEFT_OUT = (
    """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trained, self.other, self.calls = nn.Linear(4, 3), nn.Linear(4, 3), 0
    def forward(self, inputs):
        self.calls += 1
        return (self.other if self.calls % 3 == 0 else self.trained)(inputs)

def model():
    return Net()
def optimizer(model):
    return torch.optim.SGD(model.trained.parameters(), lr=0.1)
"""
    + BATCH
)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_only_optimizer_may_lack_gradients_without_a_step_of_the_files_own(own, precision):
    assert own.run(LEFT_OUT, precision=precision, step={"clip_norm": 1.0}).summary.steps == 6


SKIPPING = (
    LINES
    + """
def step(train, batch):
    CALLS[0] += 1
    with train.autocast():
        loss = nn.functional.cross_entropy(train.model(batch[0]), batch[1])
    if CALLS[0] % 3 == 0:
        loss = loss * float("nan")
    {guard}
    train.step(train.optimizer)
    return loss
"""
)
GUARDS = {
    "loss": "if not loss.isfinite(): return loss\n    train.backward(loss)",
    "nothing returned": "if not loss.isfinite(): return\n    train.backward(loss)",
    "norm": (
        "train.backward(loss)\n    train.unscale(train.optimizer)\n"
        "    if not nn.utils.clip_grad_norm_(train.model.parameters(), 1.0).isfinite(): return loss"
    ),
}


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_step_that_skips_itself_is_counted(own, guard, precision):
    settings = {"scaler": {"init_scale": 256.0}, "on_nan": "fail", "step": {"clip_norm": 1.0}}
    run = own.run(SKIPPING.replace("{guard}", guard), precision=precision, **settings)
    summary = run.summary
    assert summary.steps == 6 and summary.skipped_steps == 2 and summary.first_nan_step is None
    assert math.isfinite(summary.final_train_loss)
    assert run.skipped_steps == [3, 6]
    if precision == "fp16":
        # the scaler saw the second kind of skip, and not the first
        assert summary.final_grad_scale == (64.0 if "unscale" in guard else 256.0)


def test_gradients_that_no_step_uses_are_told(own):
    body = SKIPPING.replace("    train.step(", "    if CALLS[0] % 4 == 0: train.step(").replace("% 3", "% 30")
    experiment = own.asked(body.replace("{guard}", "train.backward(loss)"))
    run = trained(experiment)
    assert sum("are cleared" in message for message in run.logs) == 1
    assert run.summary.skipped_steps == 5
    (found,) = check(experiment).findings
    assert found.kind is FindingKind.SKIPS_BATCHES and found.severity == "warning"


@pytest.mark.parametrize(
    ("backward", "step", "said"),
    [
        ("loss", "train.step(train.optimizer)", "did not call train.backward"),
        ("train.backward(loss)", "loss", "did not call train.step"),
        (
            "train.backward(loss)",
            "train.step(torch.optim.SGD([nn.Parameter(torch.ones(1))]))",
            "No optimizer .* got a gradient",
        ),
    ],
)
def test_a_step_that_never_trains_is_refused(own, backward, step, said):
    body = SKIPPING.replace("{guard}", backward).replace("train.step(train.optimizer)", step)
    assert re.search(said, refusal(own.run, body, steps=20, samples=80).message)


def test_a_refusal_in_a_lambda_has_its_line_alone(own):
    text = LINES + "def step(train, batch):\n    (lambda: train.backward(1.0))()\n"
    assert re.match(r"net\.py, line \d+: The loss", refusal(own.run, text).message)


TWO_LOSSES = (
    LINES
    + """
def optimizer(model):
    return [torch.optim.SGD(part.parameters(), lr=0.01) for part in (model[0], model[2])]
def step(train, batch):
    a, b = train.optimizers
    with train.autocast():
        outputs = train.model(batch[0]).float()
        first, second = nn.functional.cross_entropy(outputs, batch[1]), outputs.square().mean()
"""
)


def two_losses(body: str) -> str:
    return TWO_LOSSES + "".join(f"    {line}\n" for line in body.split("; "))


AGAIN = "train.step(a); train.step(b)"
BROKEN = {
    "train.backward(first, retain_graph=True); train.unscale(a); train.backward(second); "
    + AGAIN: "divided by",
    "train.backward(first); train.step(b); a.step()": "optimizer.step() ignores the loss scaler",
    "train.backward(first); train.unscale(a); train.step(b); a.step()": "optimizer.step() ignores",
    "train.backward(first, retain_graph=True); second.backward(); " + AGAIN: "train.backward did not make",
    "(first + second).backward(); " + AGAIN: "train.backward did not make",
    "train.backward(train.model[2](torch.ones(4, 8)).mean()); train.model[0].weight.grad = torch.ones(8, 4); "
    + AGAIN: ("train.backward did not make"),
    "train.backward(first); train.step(a); " + AGAIN: "train.step uses gradients again",
    "train.backward(first); " + AGAIN + "; train.unscale(b)": "train.unscale divides",
}


@pytest.mark.parametrize(("body", "said"), BROKEN.items(), ids=range(len(BROKEN)))
def test_a_broken_rule_of_the_loss_scaler_is_refused_in_fp16_with_its_line(own, body, said):
    text = two_losses(body)
    path = own.write(text)
    message = refusal(trained, own.experiment(path, precision="fp16")).message
    number = int(re.search(r"net\.py, line (\d+), in step: In FP16, ", message)[1])
    assert said in message
    assert text.splitlines()[number - 1].strip() in body
    for precision, severity in (("fp16", "error"), ("bf16", "warning")):
        told = check(own.experiment(path, precision=precision)).findings
        (found,) = [one for one in told if one.kind is FindingKind.SCALER_RULE]
        assert (found.severity, found.place) == (severity, f"net.py:{number}") and said in found.message
    trained(own.experiment(path, precision="fp32"))


def test_gradients_of_other_devices_alone_are_cleared_once_they_are_used(own, monkeypatch):
    def average(parameters):
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter) if parameter.grad is None else parameter.grad

    monkeypatch.setattr("engine.training.steps.own.average_gradients", average)
    part = "train.backward((train.model[0](batch[0]) ** 2).mean())"
    body = f"{part}; train.step(b); {part}; assert train.model[2].weight.grad is None; train.step(a)"
    assert len(own.run(two_losses(body)).losses) == 6


KEPT = [
    "train.backward(first, retain_graph=True); train.backward(second); train.unscale(a); " + AGAIN,
    "train.backward(first); train.unscale(a); train.unscale(a); " + AGAIN,
    # a part that is trained without the loss scaler
    "train.backward(first); train.step(a); b.zero_grad(); train.model(batch[0]).mean().backward(); b.step()",
    # one steps twice while the other waits, divided once
    "train.backward(first); train.unscale(b); train.step(a); train.backward("
    "(train.model[0](batch[0]) ** 2).mean()); " + AGAIN,
]


@pytest.mark.parametrize("body", KEPT, ids=range(len(KEPT)))
def test_a_step_that_keeps_the_rules_trains_alike_with_and_without_a_loss_scaler(own, body):
    expected = own.run(two_losses(body), precision="fp32").losses
    experiment = own.asked(two_losses(body), precision="fp16", scaler={"init_scale": 1024.0})
    assert trained(experiment).losses == pytest.approx(expected, rel=0.01)
    # two of them compute a part without autocast
    usual = (FindingKind.EMULATED, FindingKind.AUTOCAST)
    assert not [one for one in check(experiment).findings if one.kind not in usual]
