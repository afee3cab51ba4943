"""Inputs are passed to a model as its `forward` takes them, and losses are those of every guide."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax

from engine.training.models.build import build_loss, loss_name, loss_unit
from engine.training.models.forward import keep_in_float32
from engine.training.models.outputs import call_model
from tests.engine.training.conftest import refusal

X, MASK, LABELS = torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.0)


class Whole(nn.Module):
    def forward(self, batch: Any) -> Any:
        return batch


class Two(nn.Module):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        return x, mask


class Hidden(nn.Module):
    def forward(self, batch: Any, **settings: Any) -> Any:
        return batch, settings


class Anything(nn.Module):
    def forward(self, *parts: Any, **named: Any) -> Any:
        return parts, named


class Places(nn.Module):
    def forward(self, *parts: Any) -> Any:
        return parts


class Nothing(nn.Module):
    def forward(self) -> None: ...


class Keywords(nn.Module):
    def forward(self, *, x: Tensor, labels: Tensor | None = None) -> Any:
        return x, labels


@pytest.mark.parametrize(
    ("model", "inputs", "expected"),
    [
        (Whole(), {"x": X, "labels": LABELS}, {"x": X, "labels": LABELS}), (Whole(), {"batch": X}, X),
        (Whole(), (X,), X), (Two(), {"x": X}, (X, None)), (Two(), {"mask": MASK, "x": X}, (X, MASK)),
        (Two(), {"x": X, "labels": LABELS}, (X, None)), (Hidden(), {"x": X}, ({"x": X}, {})),
        (Hidden(), {"batch": X, "more": MASK}, (X, {"more": MASK})),
        (Anything(), {"x": X}, ((), {"x": X})), (Keywords(), {"x": X, "labels": LABELS}, (X, LABELS)),
        (Places(), {"x": X}, ({"x": X},)), (nn.Identity(), {"x": X}, {"x": X}),
        (nn.Sequential(Whole()), {"x": X}, {"x": X}),
    ],
)  # fmt: skip
def test_a_mapping_is_passed_as_the_model_takes_it(model: nn.Module, inputs: Any, expected: Any) -> None:
    assert call_model(model, inputs) == expected


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        (Two(), {"image": X}, "Two.forward takes x and mask, but the inputs are a dict of image."),
        (Two(), {"x": X, "other": MASK}, "Two.forward takes x and mask, but"),
        (Whole(), {"batch": X, "mask": MASK}, "Whole.forward takes batch, but"),
        (Nothing(), {"x": X}, "Nothing.forward takes nothing, but"),
        (Keywords(), {"y": X}, "Keywords.forward takes x and labels, but"),
    ],
)
def test_where_neither_fits_both_are_named_with_what_changes_it(model, inputs, message):
    problem = refusal(call_model, model, inputs)
    assert problem.message.startswith(message) and problem.key == "model"
    assert "forward(model, inputs)" in problem.remedy


def test_a_model_that_is_compiled_or_has_parts_in_float32_is_called_alike() -> None:
    inner = nn.Sequential()
    inner.add_module("whole", Whole())
    compiled = torch.compile(Whole(), backend="eager")
    assert isinstance(compiled, nn.Module)
    assert call_model(compiled, {"x": X}) == {"x": X}
    keep_in_float32(inner, ["whole"], torch.device("cpu"))
    assert call_model(inner.whole, {"x": X}) == {"x": X}


def test_it_is_the_cross_entropy_and_smoothing_spreads_its_share_over_all_classes() -> None:
    logits, labels = torch.randn(8, 5), torch.arange(8) % 5
    assert torch.equal(build_loss("classification")(logits, labels), cross_entropy(logits, labels))
    spread = -log_softmax(logits, dim=1).mean()
    expected = 0.9 * cross_entropy(logits, labels) + 0.1 * spread
    torch.testing.assert_close(build_loss("classification", 0.1)(logits, labels), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_a_sequence_is_as_many_predictions_as_it_has_tokens(smoothing: float) -> None:
    logits, targets = torch.randn(3, 7, 11), torch.randint(11, (3, 7))
    each = [
        cross_entropy(logits[row, place], targets[row, place], label_smoothing=smoothing)
        for row in range(3)
        for place in range(7)
    ]
    torch.testing.assert_close(build_loss("language", smoothing)(logits, targets), torch.stack(each).mean())


def test_a_regression_has_the_mean_squared_error() -> None:
    loss = build_loss("regression")(torch.tensor([[1.0], [3.0]]), torch.tensor([[0.0], [1.0]]))
    assert loss.item() == 2.5
    assert (loss_name("language"), loss_unit("language")) == ("cross-entropy", "nats")
    assert (loss_name("regression"), loss_unit("regression")) == ("mean squared error", "")
