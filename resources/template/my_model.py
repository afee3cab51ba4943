"""A model of your own: choose this file as the model in Ammeter, or `ammeter run --model my_model.py`.

Only model() is needed, and where the data comes from: batch(size), dataset(), or a dataset of Ammeter's.
"""

import torch
from torch import Tensor, nn


def model() -> nn.Module:
    """The network that is trained, in float32."""
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 512), nn.ReLU(), nn.Linear(512, 10))


def batch(size: int) -> tuple[Tensor, Tensor]:
    """A made-up batch of size samples: inputs and targets; either may be tuples, lists or dicts."""
    return torch.randn(size, 3, 32, 32), torch.randint(10, (size,))


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """A scalar. Without it: outputs.loss, cross-entropy for class indices, or MSE for floats."""
    return nn.functional.cross_entropy(outputs, targets)


# Optional, each in place of what Ammeter does by default:
# def dataset(): a torch.utils.data.Dataset of samples (input, target), in place of batch(size)
# def validation_dataset(): the same for validation
# def collate(samples): a list of samples as one batch (inputs, targets)
# def batch_size(inputs, targets): the number of samples, where a batch has other than were asked for
# def forward(model, inputs): the outputs, where model(inputs) will not do
# def optimizer(model): a torch.optim.Optimizer
# def accuracy(outputs, targets): the fraction that is right, 0 to 1
# def step(train, batch): the body of the loop, with `with train.autocast():`, train.backward(loss) and
#     train.step(optimizer)
