"""What a script has to know of a dataset that lies elsewhere, without the libraries that read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reader = Literal[
    "npz",
    "MNIST",
    "FashionMNIST",
    "CIFAR10",
    "CIFAR100",
    "fake",
    "folder",
    "pictures",
    "regression",
    "tokens",
    "text",
]


@dataclass(frozen=True)
class Colours:
    """The mean and standard deviation of each channel, of pixels from 0 to 1."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


@dataclass(frozen=True)
class KnownDataset:
    """A dataset, and how a script reads it; what does not apply, or what the run says, is 0 or None."""

    reader: Reader
    image_size: int = 0
    channels: int = 0
    classes: int = 0
    train_samples: int = 0
    validation_samples: int = 0
    colours: Colours | None = None


_GREY = Colours((0.2860,), (0.3530,))

# As engine.training.data has them, which imports torch.
KNOWN = {
    "fashion": KnownDataset("npz", 28, 1, 10, 6_000, 1_000, _GREY),
    "fashion-mnist": KnownDataset("FashionMNIST", 28, 1, 10, 60_000, 10_000, _GREY),
    "mnist": KnownDataset("MNIST", 28, 1, 10, 60_000, 10_000, Colours((0.1307,), (0.3081,))),
    "cifar10": KnownDataset(
        "CIFAR10", 32, 3, 10, 50_000, 10_000, Colours((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
    ),
    "cifar100": KnownDataset(
        "CIFAR100", 32, 3, 100, 50_000, 10_000, Colours((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))
    ),
    "fakedata": KnownDataset("fake", 224, 3, 10, 2_000, 500, Colours((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))),
    "image-folder": KnownDataset(
        "folder", 224, 3, colours=Colours((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    ),
    "synthetic": KnownDataset("pictures", 224, 3, 1_000),
    "synthetic-regression": KnownDataset("regression"),
    "synthetic-tokens": KnownDataset("tokens", classes=32_000),
    "python-source": KnownDataset("text", classes=256, validation_samples=256),
}
