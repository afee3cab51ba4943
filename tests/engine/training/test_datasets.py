"""The datasets: their shapes, their order, and what happens without a network."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.catalog import resolve
from engine.experiment import Experiment, Precision
from engine.paths import datasets_folder
from engine.problem import Kind, ProblemError
from engine.training import fashion as fashion_mnist
from engine.training.batches import PreparePictures, Source
from engine.training.catalog import read_catalog
from engine.training.datasets import dataset_entries, load_source

CPU = torch.device("cpu")


def source(channels: int = 1, **settings: Any) -> Source:
    experiment = resolve(Experiment.model_validate({"device": "cpu", **settings}), read_catalog())
    return load_source(experiment, channels, CPU)


def test_the_built_in_pictures_are_what_the_catalog_says() -> None:
    train, test = fashion_mnist.built_in()
    assert train.inputs.shape == (6_000, 1, 28, 28) and test.inputs.shape == (1_000, 1, 28, 28)
    assert train.inputs.dtype == torch.uint8 and set(train.targets.tolist()) == set(range(10))
    entry = next(entry for entry in dataset_entries() if entry.name == "fashion")
    assert (entry.train_samples, entry.validation_samples) == (6_000, 1_000)


def test_an_epoch_sees_each_picture_once_and_the_next_in_another_order() -> None:
    pictures = source(batch_size=1_000)
    first = torch.cat([targets for _, targets in pictures.epoch()])
    second = torch.cat([targets for _, targets in pictures.epoch()])
    assert torch.equal(first.bincount(), second.bincount()) and not torch.equal(first, second)


def test_the_order_is_the_same_for_every_precision() -> None:
    orders = [
        [targets.tolist() for _, targets in source(precision=precision, batch_size=2_000).epoch()]
        for precision in (Precision.FP32, Precision.FP16, Precision.BF16)
    ]
    assert orders[0] == orders[1] == orders[2]


def test_the_last_batch_is_what_is_left() -> None:
    sizes = [len(targets) for _, targets in source(batch_size=2_500).epoch()]
    assert sizes == [2_500, 2_500, 1_000]


def test_validation_keeps_its_order_and_its_limit() -> None:
    pictures = source(batch_size=64)
    first, again = (torch.cat([labels for _, labels in pictures.validation(100)]) for _ in range(2))
    assert len(first) == 100 and torch.equal(first, again)
    assert sum(len(labels) for _, labels in pictures.validation(None)) == 1_000


def test_pictures_are_normalised() -> None:
    inputs = torch.cat([inputs for inputs, _ in source().epoch()])
    assert abs(inputs.mean().item()) < 0.02 and abs(inputs.std().item() - 1) < 0.02


def test_pictures_are_resized_and_given_three_channels_on_the_device() -> None:
    inputs, _ = next(source(channels=3, model="resnet18", image_size=40, batch_size=8).epoch())
    assert inputs.shape == (8, 3, 40, 40)
    assert torch.equal(inputs[:, 0], inputs[:, 2])


def test_preparing_keeps_black_black() -> None:
    prepare = PreparePictures(mean=0.5, deviation=0.25, image_size=16, channels=1)
    assert torch.equal(prepare(torch.zeros(1, 1, 8, 8, dtype=torch.uint8)), torch.full((1, 1, 16, 16), -2.0))


def test_synthetic_pictures_take_turns() -> None:
    drawn = source(3, dataset="synthetic", image_size=8, num_classes=5, samples=22, batch_size=4)
    batches = list(drawn.epoch())
    assert [len(targets) for _, targets in batches] == [4, 4, 4, 4, 4, 2]
    assert torch.equal(batches[0][0], batches[4][0]) and not torch.equal(batches[0][0], batches[1][0])
    assert all(targets.max() < 5 for _, targets in batches) and not drawn.has_validation


def test_synthetic_regression_comes_from_the_seed() -> None:
    first, again, other = (
        next(
            source(0, model="linear", dataset="synthetic-regression", samples=20, batch_size=20, seed=seed)
            .epoch()
        )
        for seed in (5, 5, 6)
    )  # fmt: skip
    assert first[0].shape == (20, 10) and first[1].shape == (20, 1)
    assert torch.equal(first[1], again[1]) and not torch.equal(first[1], other[1])


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens at the discard port."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_network")
def test_a_download_without_network_leaves_nothing_behind() -> None:
    with pytest.raises(ProblemError) as raised:
        fashion_mnist.download()
    assert raised.value.problem.kind is Kind.DOWNLOAD and "could not be downloaded" in str(raised.value)
    assert not fashion_mnist.is_downloaded() and list(datasets_folder().iterdir()) == []


@pytest.mark.usefixtures("no_network")
def test_a_run_that_cannot_download_says_so(fashion: Any) -> None:
    with pytest.raises(ProblemError) as raised:
        fashion(dataset="fashion-mnist")
    assert raised.value.problem.kind is Kind.DOWNLOAD


def write_idx(path: Path, shape: tuple[int, ...], values: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + values)


def write_downloaded(samples: int) -> None:
    raw = datasets_folder() / "FashionMNIST" / "raw"
    for part in ("train", "t10k"):
        write_idx(raw / f"{part}-images-idx3-ubyte", (samples, 28, 28), bytes(samples * 28 * 28))
        write_idx(raw / f"{part}-labels-idx1-ubyte", (samples,), bytes(range(samples)))


def test_a_downloaded_dataset_is_read() -> None:
    write_downloaded(samples=6)
    train, test = fashion_mnist.whole()
    assert fashion_mnist.is_downloaded() and train.inputs.shape == test.inputs.shape == (6, 1, 28, 28)
    assert train.targets.tolist() == list(range(6))
    entry = next(entry for entry in dataset_entries() if entry.name == "fashion-mnist")
    assert not entry.needs_download


def test_a_damaged_dataset_is_named_with_its_folder() -> None:
    write_downloaded(samples=6)
    damaged = datasets_folder() / "FashionMNIST" / "raw" / "train-images-idx3-ubyte"
    damaged.write_bytes(damaged.read_bytes()[:1_000])
    with pytest.raises(ProblemError) as raised:
        fashion_mnist.whole()
    assert "FashionMNIST" in str(raised.value) and "damaged" in str(raised.value)
