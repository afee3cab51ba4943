"""A machine without a network, and folders of images."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from engine.experiment.checks import resolve
from engine.experiment.experiment import Experiment
from engine.training.doctor import read_catalog


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens at the discard port."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


def save_images(
    folder: Path, colors: Iterable[Any], *, size: tuple[int, int] = (24, 20), mode: str = "RGB"
) -> None:
    """Write one image of each color into a new folder: 000.png, 001.png ..."""
    folder.mkdir(parents=True)
    for number, color in enumerate(colors):
        Image.new(mode, size, color).save(folder / f"{number:03}.png")


def picture_run(dataset: str, **settings: Any) -> Experiment:
    """A resolved run of the small CNN on these pictures, with settings over the smallest ones."""
    given = {"model": "small-cnn", "dataset": dataset, "batch_size": 4, "device": "cpu"}
    return resolve(Experiment.model_validate(given | settings), read_catalog())
