"""Fashion-MNIST: the part that comes with the program, and the whole, downloaded on demand.

Xiao, Rasul and Vollgraf, "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms",
2017.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import io
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torchvision.datasets import FashionMNIST

from engine.paths import datasets_folder
from engine.problem import Kind, Problem, ProblemError
from engine.training.batches import Split

IMAGE_SIZE, CLASSES = 28, 10
MEAN, DEVIATION = 0.2860, 0.3530  # of the 60,000 training pictures, pixels from 0 to 1
_FOLDER = "FashionMNIST"  # as torchvision names it
_PATIENCE_SECONDS = 30.0


def built_in() -> tuple[Split, Split]:
    """The first 6,000 training and 1,000 test pictures; bytes (samples, 1, 28, 28) and classes."""
    packed = importlib.resources.files("resources").joinpath("fashion", "fashion.npz").read_bytes()
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        held = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    train = _split(held["train_pictures"], held["train_labels"])
    return train, _split(held["test_pictures"], held["test_labels"])


def is_downloaded() -> bool:
    """Whether the whole dataset is there: its folder appears only when it is complete."""
    return (datasets_folder() / _FOLDER).is_dir()


def download() -> None:
    """Downloads the whole dataset into the datasets folder. Raises ProblemError of kind `DOWNLOAD`."""
    folder = datasets_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Made beside its place and moved there whole: an interrupted download must not count as there.
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=folder) as unfinished:
            with _impatient_sockets(), contextlib.redirect_stdout(sys.stderr):
                FashionMNIST(unfinished, train=True, download=True)
            (Path(unfinished) / _FOLDER).rename(folder / _FOLDER)
    except (OSError, RuntimeError) as error:
        if is_downloaded():  # by another run, in the meantime
            return
        raise ProblemError(_download_problem(folder, error)) from error


def whole() -> tuple[Split, Split]:
    """All 60,000 training and 10,000 test pictures. Raises ProblemError where they cannot be read."""
    folder = datasets_folder()
    try:
        train, test = FashionMNIST(str(folder), train=True), FashionMNIST(str(folder), train=False)
    except (OSError, RuntimeError, ValueError, AssertionError) as error:
        raise ProblemError(
            Problem(
                kind=Kind.DOWNLOAD,
                message=f"The pictures of fashion-mnist in {folder / _FOLDER} are damaged.",
                remedy="Delete that folder; the next run downloads them again.",
                key="dataset",
                value="fashion-mnist",
            )
        ) from error
    return _split(train.data, train.targets), _split(test.data, test.targets)


def _split(pictures: torch.Tensor, labels: torch.Tensor) -> Split:
    return Split(pictures.unsqueeze(1), labels.long())


@contextlib.contextmanager
def _impatient_sockets() -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_PATIENCE_SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _download_problem(folder: Path, error: Exception) -> Problem:
    if isinstance(error, PermissionError):
        message, remedy = f"{folder} cannot be written.", "Choose another folder with AMMETER_DATA."
    else:
        message = "fashion-mnist could not be downloaded: its servers did not answer as they should."
        remedy = "Check the network, or choose the dataset fashion, which comes with the program."
    return Problem(kind=Kind.DOWNLOAD, message=message, remedy=remedy, key="dataset", value="fashion-mnist")
