"""The part of Fashion-MNIST that comes with the program.

Xiao, Rasul and Vollgraf, "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms",
2017.
"""

from __future__ import annotations

import importlib.resources
import io

import numpy as np
import torch

from engine.training.data.batches import Split
from engine.training.data.pictures import Colours

IMAGE_SIZE, CLASSES = 28, 10
TRAIN_SAMPLES, VALIDATION_SAMPLES = 6_000, 1_000
COLOURS = Colours((0.2860,), (0.3530,))  # of the 60,000 training pictures


def built_in() -> tuple[Split, Split]:
    """The first 6,000 training and 1,000 test pictures; bytes (samples, 1, 28, 28) and classes."""
    packed = importlib.resources.files("resources").joinpath("fashion", "fashion.npz").read_bytes()
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        held = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    train = _split(held["train_pictures"], held["train_labels"])
    return train, _split(held["test_pictures"], held["test_labels"])


def _split(pictures: torch.Tensor, labels: torch.Tensor) -> Split:
    return Split(pictures.unsqueeze(1), labels.long())
