"""Every operation is attributed to its module, forward and backward, and watching changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import relu
from torch.utils.checkpoint import checkpoint

from engine.protocol.ranges import ELSEWHERE, LOSS, OPTIMIZER
from engine.training.models.recompute import checkpoint_activations
from engine.training.numerics.watch import Call, OperationWatch, tensors_in

from .conftest import FEW

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Seen:
    module: str
    name: str
    direction: str
    by_autocast: bool
    outputs: tuple[torch.dtype, ...]


class Log(OperationWatch):
    def __init__(self, model: nn.Module) -> None:
        super().__init__(model, CPU)
        self.seen: list[Seen] = []

    def watch(self, call: Call) -> Any:
        result = call.make()
        outputs = tuple(tensor.dtype for tensor in tensors_in(result))
        name = call.name.removeprefix("aten.")
        self.seen.append(Seen(call.module, name, call.direction, call.by_autocast, outputs))
        return result

    def modules_of(self, name: str, direction: str = "forward") -> list[str]:
        """The modules that ran an operator, in order."""
        return [seen.module for seen in self.seen if (seen.name, seen.direction) == (name, direction)]


class Nested(nn.Module):
    """A shared module, functional and in-place operations in the parent, and an input without gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 4), nn.GELU())
        self.shared = nn.Linear(4, 4)
        self.inplace = nn.ReLU(inplace=True)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.shared(self.first(inputs)).mul_(2.0)
        result: Tensor = self.inplace(self.shared(torch.sin(hidden).tanh_()))
        return result


def watched(model: nn.Module, precision: torch.dtype | None = None, rows: int = 2) -> Log:
    inputs = torch.linspace(-1, 1, rows * 4).view(rows, 4)
    with Log(model) as log:
        with torch.autocast("cpu", dtype=precision or torch.bfloat16, enabled=precision is not None):
            loss = model(inputs).cos().sum()
        loss.backward()
    return log


def test_an_operation_belongs_to_the_innermost_module_in_both_directions():
    log = watched(Nested())
    assert log.modules_of("addmm") == ["first.0", "shared", "shared"]
    # the input needs no gradient: the first layer has only its weight's product
    assert log.modules_of("mm", "backward") == ["shared"] * 4 + ["first.0"]
    assert log.modules_of("gelu") == log.modules_of("gelu_backward", "backward") == ["first.1"]
    assert log.modules_of("relu_") == log.modules_of("threshold_backward", "backward") == ["inplace"]
    for name, backward in (("sin", "cos"), ("tanh_", "tanh_backward"), ("mul_", "mul")):
        assert log.modules_of(name) == [""] and "" in log.modules_of(backward, "backward")


def test_what_follows_the_model_is_the_loss_and_what_updates_it_the_optimizer():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Log(model) as log:
        inputs = torch.ones(2, 4)
        model(inputs).square().sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        optimizer.step()
        model(inputs).exp().sum()
    assert log.modules_of("ones") == [ELSEWHERE]
    assert log.modules_of("pow") == log.modules_of("exp") == [LOSS]
    assert LOSS in log.modules_of("mul", "backward")
    assert set(log.modules_of("linalg_vector_norm")) == {OPTIMIZER}
    assert set(log.modules_of("add_") + log.modules_of("_foreach_add_")) == {OPTIMIZER}
    assert set(log.modules_of("detach", "backward")) == {""}  # the gradients' accumulation


class Casting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.other = nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.linear(inputs).float()
        result: Tensor = self.other(relu(hidden)).softmax(1, dtype=torch.float32)
        return result


def test_the_casts_of_autocast_are_told_from_those_that_the_code_asks_for():
    log = watched(Casting(), torch.bfloat16)
    casts = [seen for seen in log.seen if seen.name == "_to_copy"]
    by_code = [(seen.module, seen.direction) for seen in casts if not seen.by_autocast]
    assert by_code == [("", "forward"), ("", "forward"), ("", "backward"), ("", "backward")]
    by_autocast = [(seen.module, seen.direction) for seen in casts if seen.by_autocast]
    assert by_autocast.count(("linear", "forward")) == by_autocast.count(("other", "forward")) == 3
    assert by_autocast.count(("linear", "backward")) == 2, "the input needs no gradient"
    assert by_autocast.count(("other", "backward")) == 3


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.sin() + torch.tanh(self.linear(inputs))


def test_what_is_recomputed_is_forward_once_more():
    model = nn.Sequential(Residual(), Residual())
    checkpoint_activations(model)
    log = watched(model)
    assert sorted(log.modules_of("addmm")) == ["0.linear"] * 2 + ["1.linear"] * 2
    assert sorted(log.modules_of("tanh")) == sorted(log.modules_of("sin")) == ["0", "0", "1", "1"]
    assert log.modules_of("tanh_backward", "backward") == ["1", "0"]


class Reentrant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = Residual()

    def forward(self, inputs: Tensor) -> Tensor:
        result: Tensor = checkpoint(self.body, inputs.requires_grad_(), use_reentrant=True)
        return result


def test_a_reentrant_checkpoint_is_attributed_too():
    log = watched(Reentrant())
    assert log.modules_of("addmm") == ["body.linear"] * 2
    assert log.modules_of("tanh_backward", "backward") == ["body"]
    assert set(log.modules_of("mm", "backward")) == {"body.linear"}


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        return inputs.mul(2.0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].div(0.5)


class OwnFunction(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        doubled: Tensor = Doubled.apply(self.linear(inputs))
        return doubled


def test_a_function_with_a_backward_of_its_own_is_attributed():
    log = watched(nn.Sequential(OwnFunction()))
    assert log.modules_of("mul") == log.modules_of("div", "backward") == ["0"]


def test_the_gradient_of_a_gradient_belongs_to_the_module_whose_gradient_it_was():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    inputs = torch.linspace(-1, 1, 8).view(2, 4).requires_grad_()
    with Log(model) as log:
        (gradient,) = torch.autograd.grad(model(inputs).sum(), inputs, create_graph=True)
        penalty = gradient.detach().argmax() + gradient.norm()
        penalty.backward()
    products = log.modules_of("mm", "backward")
    assert products[:2] == ["2", "0"] and set(products) == {"2", "0"}
    assert set(log.modules_of("tanh_backward", "backward")) == {"1"}


class Failing(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        raise ValueError("no")


def test_nothing_stays_registered_even_after_a_failure():
    model = nn.Sequential(nn.Linear(4, 4), Failing())
    with pytest.raises(ValueError, match="no"), Log(model):
        model(torch.ones(1, 4))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    with Log(model) as log:
        model[0](torch.ones(1, 4)).sum()
    assert log.modules_of("addmm") == ["0"] and log.modules_of("sum") == [LOSS]


def test_watching_changes_no_bit(make_bench):
    bench = make_bench(**FEW, precision="fp16", step={"gradient_accumulation": 2})

    def losses(is_watched: bool) -> tuple[list[float], list[Tensor]]:
        with bench.trainee() as trainee:
            made = []
            for number, group in enumerate(bench.groups(3)):
                if is_watched and number == 1:
                    with Log(trainee.model):
                        made.append(trainee.train(group).loss)
                else:
                    made.append(trainee.train(group).loss)
            return made, list(trainee.model.parameters())

    (plain, weights), (seen, weights_seen) = losses(False), losses(True)
    assert plain == seen and all(map(torch.equal, weights, weights_seen))
