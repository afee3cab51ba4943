"""Your own model. Select this file as the model in Ammeter, or run `ammeter run --model my_model.py`.

Required: model(), and data from batch(size), dataset(), or a dataset of Ammeter's.
"""

import torch
from torch import Tensor, nn


def model() -> nn.Module:
    """The network to train, in float32."""
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 512), nn.ReLU(), nn.Linear(512, 10))


def batch(size: int) -> tuple[Tensor, Tensor]:
    """A random batch of `size` samples: inputs and targets. Each may be a tuple, list or dict."""
    return torch.randn(size, 3, 32, 32), torch.randint(10, (size,))


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The loss, a scalar. Default: outputs.loss, cross-entropy for class indices, or MSE for floats."""
    return nn.functional.cross_entropy(outputs, targets)


# Optional replacements of Ammeter's defaults:
# def dataset(): a torch.utils.data.Dataset of samples (input, target), instead of batch(size)
# def validation_dataset(): the same for validation
# def collate(samples): the batch (inputs, targets) of a list of samples
# def batch_size(inputs, targets): the number of samples, if it differs from the requested one
# def forward(model, inputs): the outputs, if model(inputs) does not work
# def optimizer(model): a torch.optim.Optimizer
# def accuracy(outputs, targets): the fraction of correct outputs, 0 to 1
# def step(train, batch): the body of the loop, with `with train.autocast():`, train.backward(loss) and
#     train.step(optimizer)
