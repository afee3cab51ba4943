"""Whether an experiment fits a machine is told before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from engine.catalog import (
    Catalog,
    DatasetEntry,
    DeviceEntry,
    ModelEntry,
    PrecisionEntry,
    problems,
    resolve,
)
from engine.experiment import Experiment, Precision, experiment_from
from engine.problem import ProblemError

CPU = DeviceEntry(
    name="cpu",
    title="a processor",
    memory_mib=8 * 1024,
    precisions=tuple(
        PrecisionEntry(precision=one, available=one is not Precision.TF32, reason="TF32 needs a GPU")
        for one in Precision
    ),
)
CARD = DeviceEntry(
    name="cuda:0",
    title="a card",
    memory_mib=24 * 1024,
    precisions=tuple(PrecisionEntry(precision=one, available=True) for one in Precision),
)
CATALOG = Catalog(
    devices=(CPU,),
    models=(
        ModelEntry(name="linear", task="regression", parameters=11),
        ModelEntry(name="small-cnn", task="classification", parameters=200_000, min_image_size=8),
        ModelEntry(
            name="vit_b_16",
            task="classification",
            parameters=86_000_000,
            min_image_size=16,
            image_size_multiple=16,
        ),
    ),
    datasets=(
        DatasetEntry(name="synthetic-regression", title="", task="regression", any_classes=False),
        DatasetEntry(
            name="fashion",
            title="",
            task="classification",
            image_size=28,
            channels=1,
            num_classes=10,
            train_samples=6_000,
        ),
        DatasetEntry(
            name="synthetic",
            title="",
            task="classification",
            image_size=224,
            num_classes=1_000,
            any_classes=True,
        ),
    ),
)


def test_an_experiment_that_fits_is_resolved_to_what_it_will_be() -> None:
    resolved = resolve(Experiment(), CATALOG)
    assert (resolved.device, resolved.image_size, resolved.num_classes) == ("cpu", 28, 10)


def test_auto_is_the_first_device_and_cuda_the_first_card() -> None:
    both = CATALOG.model_copy(update={"devices": (CARD, CPU)})
    assert resolve(Experiment(), both).device == "cuda:0"
    assert resolve(Experiment(device="cuda"), both).device == "cuda:0"
    assert resolve(Experiment(device="cpu"), both).device == "cpu"
    assert both.has_gpu and not CATALOG.has_gpu


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        ({"model": "smallcnn"}, "model", "small-cnn"),
        ({"dataset": "fashon"}, "dataset", "fashion"),
        ({"device": "cuda:3"}, "device", "cpu"),
        ({"precision": "tf32"}, "precision", "fp32, fp16, bf16"),
        ({"memory_cap_gib": 16}, "memory_cap_gib", "at most 8.0"),
        ({"batch_size": 6_001}, "batch_size", "6,000"),
        ({"dataset": "synthetic", "samples": 32, "batch_size": 64}, "batch_size", "32"),
        ({"num_classes": 5}, "num_classes", "empty"),
        ({"model": "linear"}, "dataset", "synthetic-regression"),
        ({"model": "linear", "dataset": "synthetic-regression", "image_size": 8}, "image_size", "empty"),
        ({"model": "vit_b_16"}, "image_size", "32"),
        ({"image_size": 4}, "image_size", "8"),
    ],
)
def test_what_does_not_fit_is_answered_with_the_key_and_what_to_do(
    settings: dict[str, Any], key: str, words: str
) -> None:
    found = problems(experiment_from(settings), CATALOG)
    assert [problem.key for problem in found] == [key]
    assert str(settings.get(key, "")) in found[0].message.replace(",", "")
    assert words in f"{found[0].remedy} {found[0].allowed}"
    with pytest.raises(ProblemError):
        resolve(experiment_from(settings), CATALOG)


def test_classes_and_size_of_synthetic_pictures_are_free() -> None:
    free = Experiment(dataset="synthetic", image_size=64, num_classes=7)
    assert problems(free, CATALOG) == ()
