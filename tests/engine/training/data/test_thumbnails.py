"""The pictures that a run is told to show: which they are, and that the run is the same without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image

from engine.experiment.experiment import Experiment
from engine.protocol.events import Pictures
from engine.training.data import images as built_in
from engine.training.data.batches import DataSplit, DeviceSource
from engine.training.data.datasets import load_source
from engine.training.data.image_sets import SETS
from engine.training.data.image_sources import thumbnail_events
from engine.training.runs import loop

from .conftest import picture_run

CPU = torch.device("cpu")


def told(dataset: str, **settings: Any) -> Pictures | None:
    chosen = picture_run(dataset, **settings)
    source = load_source(chosen, 3, CPU)
    events = list(thumbnail_events(chosen, source))
    source.close()
    assert all(isinstance(event, Pictures) for event in events)
    return next((event for event in events if isinstance(event, Pictures)), None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sixty pictures of two classes, the black and the white, of many forms and sizes."""
    modes = ("RGB", "L", "RGBA", "P", "1", "CMYK")
    for shade, name in ((0, "black"), (255, "white")):
        (tmp_path / name).mkdir()
        for number in range(30):
            mode = modes[number % len(modes)]
            suffix = ".jpg" if mode in ("RGB", "L", "CMYK") else ".png"
            picture = Image.new("RGB", (20 + 40 * number, 30), (shade,) * 3).convert(mode)
            picture.save(tmp_path / name / f"{number:02}{suffix}")
    return tmp_path


@pytest.mark.parametrize("data", [{}, {"on_device": False}])
def test_small_pictures_are_shown_spread_over_the_split(data: dict[str, Any]) -> None:
    pictures = told("fashion", data=data)
    assert pictures is not None and (pictures.side, pictures.count) == (28, 200)
    there = built_in.built_in()[0].inputs[::30, 0].numpy()
    assert np.abs(pictures.sheet.tiles().astype(int) - there).mean() < 4


def test_colours_become_grey_and_large_pictures_small() -> None:
    coloured = torch.zeros(3, 3, 96, 96, dtype=torch.uint8)
    coloured[0, 0], coloured[1, 1], coloured[2, 2] = 255, 255, 255
    split = DataSplit(coloured, torch.zeros(3, dtype=torch.long))
    source = DeviceSource(split, None, Experiment(batch_size=1), CPU)
    assert "cifar10" in SETS
    (event,) = thumbnail_events(Experiment(dataset="cifar10"), source)
    assert isinstance(event, Pictures) and (event.side, event.count) == (48, 3)
    assert [round(float(tile.mean())) for tile in event.sheet.tiles()] == [76, 150, 29]


def test_a_folder_shows_few_pictures_unless_it_is_held_in_memory(folder: Path) -> None:
    pictures = told("image-folder", path=str(folder), image_size=16)
    assert pictures is not None and (pictures.side, pictures.count) == (48, 48)
    means = pictures.sheet.tiles().mean((1, 2))
    assert set(means.round(-1)) == {0, 260} and (means[:24] < 5).all() and (means[24:] > 250).all()
    pictures = told("image-folder", path=str(folder), image_size=16, data={"on_device": True})
    assert pictures is not None and (pictures.side, pictures.count) == (16, 54)


def test_pictures_that_are_broken_or_huge_are_left_out(folder: Path) -> None:
    for number, file in enumerate(sorted((folder / "white").iterdir())):
        if number % 2:
            file.write_bytes(file.read_bytes()[:60])
    Image.new("L", (2_000, 2_000)).save(folder / "black" / "00.png")
    chosen = picture_run("image-folder", path=str(folder), image_size=16)
    source = load_source(chosen, 3, CPU)
    examples = source.examples(200)
    assert examples is not None and 20 < len(examples) < 45
    for file in sorted(folder.glob("*/*")):
        file.write_bytes(b"nothing")
    assert list(thumbnail_events(chosen, source)) == []


@pytest.mark.parametrize(
    ("dataset", "settings"),
    [
        ("synthetic", {"image_size": 8}),
        ("fakedata", {"image_size": 8}),
        ("fakedata", {"image_size": 8, "data": {"on_device": True}}),
        ("synthetic-regression", {"model": "linear"}),
        ("python-source", {"model": "causal-lm-tiny", "sequence_length": 10}),
    ],
)
def test_drawn_data_and_text_show_none(dataset: str, settings: dict[str, Any]) -> None:
    assert told(dataset, **settings) is None


def test_they_are_told_once_before_the_first_step_and_change_nothing(fashion, monkeypatch):
    shown = fashion()
    names = [event.event for event in shown.events]
    assert names.count("pictures") == 1
    assert names.index("started") < names.index("pictures") < names.index("samples")
    before = [event.name for event in shown.events[: names.index("pictures")] if event.event == "phase"]
    assert before == ["building"]
    monkeypatch.setattr(loop, "thumbnail_events", lambda *_: iter(()))
    assert fashion().samples.loss == shown.samples.loss


@pytest.mark.parametrize(
    ("place", "error", "reason"),
    [
        ("engine.training.data.batches.DeviceSource.examples", MemoryError(), "unknown reason"),
        ("engine.training.data.image_sources.sheet_of", OSError("no jpeg"), "no jpeg"),
    ],
)
def test_what_keeps_them_from_being_made_is_said_and_no_matter(fashion, monkeypatch, place, error, reason):
    monkeypatch.setattr(place, Mock(side_effect=error))
    run = fashion()
    assert f"The training images cannot be shown: {reason}" in run.logs
    assert run.summary.steps == 3
