"""The losses: what each task is trained on."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy, log_softmax

from engine.training.models.build import loss_for, loss_name, loss_unit


def test_without_smoothing_it_is_the_cross_entropy_of_every_guide() -> None:
    logits, labels = torch.randn(8, 5), torch.arange(8) % 5
    assert torch.equal(loss_for("classification")(logits, labels), cross_entropy(logits, labels))


def test_smoothing_spreads_its_share_over_all_classes() -> None:
    logits, labels = torch.randn(8, 5), torch.arange(8) % 5
    spread = -log_softmax(logits, dim=1).mean()
    expected = 0.9 * cross_entropy(logits, labels) + 0.1 * spread
    torch.testing.assert_close(loss_for("classification", 0.1)(logits, labels), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_a_sequence_is_as_many_predictions_as_it_has_tokens(smoothing: float) -> None:
    logits, targets = torch.randn(3, 7, 11), torch.randint(11, (3, 7))
    each = [
        cross_entropy(logits[row, place], targets[row, place], label_smoothing=smoothing)
        for row in range(3)
        for place in range(7)
    ]
    torch.testing.assert_close(loss_for("language", smoothing)(logits, targets), torch.stack(each).mean())


def test_a_regression_has_the_mean_squared_error() -> None:
    loss = loss_for("regression")(torch.tensor([[1.0], [3.0]]), torch.tensor([[0.0], [1.0]]))
    assert loss.item() == 2.5


def test_losses_have_a_name_and_those_of_classes_a_unit() -> None:
    assert (loss_name("language"), loss_unit("language")) == ("cross-entropy", "nats")
    assert (loss_name("regression"), loss_unit("regression")) == ("mean squared error", "")
