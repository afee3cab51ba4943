"""What autocast leaves in 16 bits is judged by the rules of the device, CUDA's where it is one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.protocol.advice import FindingKind
from engine.training.checks.places import ModuleTree
from engine.training.checks.watches import LossWatch
from engine.training.models.weightless import AsOnCuda


def _outside_autocast(outputs: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        return outputs.softmax(-1)


def kinds_on_cuda(loss: Callable[[Tensor], Tensor], *, counts: bool = True) -> list[tuple[FindingKind, str]]:
    watch = LossWatch(ModuleTree(nn.Identity()), is_cuda=True, counts=counts)
    outputs = torch.rand(2, 4).half()
    with AsOnCuda(), torch.autocast("cpu", dtype=torch.float16), watch:
        loss(outputs)
    return [(finding.kind, finding.severity) for finding in watch.findings()]


@pytest.mark.parametrize(
    "loss",
    [
        lambda outputs: outputs.softmax(-1).log(),
        lambda outputs: functional.cross_entropy(outputs, torch.tensor([0, 1])),
        lambda outputs: functional.log_softmax(outputs, -1),
        lambda outputs: outputs.float().exp_(),
    ],
)
def test_what_cudas_autocast_computes_in_float32_is_no_finding(loss) -> None:
    assert kinds_on_cuda(loss) == []


@pytest.mark.parametrize(
    "loss", [functional.logsigmoid, lambda outputs: outputs.clone().exp_(), _outside_autocast]
)
def test_what_it_leaves_in_half_is_a_warning(loss) -> None:
    assert kinds_on_cuda(loss) == [(FindingKind.HALF_IN_LOSS, "warning")]


def test_a_loss_that_cudas_autocast_refuses_is_an_error() -> None:
    def loss(outputs: Tensor) -> Tensor:
        return functional.binary_cross_entropy(outputs.float(), torch.ones(2, 4))

    assert kinds_on_cuda(loss) == [(FindingKind.RAISES, "error")]
    # trained in FP32 it ends no run
    assert kinds_on_cuda(loss, counts=False) == [(FindingKind.RAISES, "warning")]
