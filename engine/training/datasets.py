"""The datasets: what can be chosen, and the source of batches that each becomes on a device."""

from __future__ import annotations

import torch

from engine.catalog import DatasetEntry
from engine.experiment import Experiment
from engine.training import fashion
from engine.training.batches import SYNTHETIC_BATCHES, Batch, PreparePictures, Resident, Source, Split, Turns
from engine.training.models import REGRESSION_FEATURES

FASHION, FASHION_MNIST = "fashion", "fashion-mnist"
SYNTHETIC, SYNTHETIC_REGRESSION = "synthetic", "synthetic-regression"
_NOISE = 0.1


def dataset_entries() -> tuple[DatasetEntry, ...]:
    """All datasets. `needs_download` says that the first run will fetch it."""
    return (
        _fashion_entry(FASHION, "Fashion-MNIST, the 7,000 pictures built in", 6_000, 1_000),
        _fashion_entry(
            FASHION_MNIST,
            "Fashion-MNIST, all 70,000 pictures",
            60_000,
            10_000,
            needs_download=not fashion.is_downloaded(),
        ),
        DatasetEntry(
            name=SYNTHETIC,
            title="Synthetic pictures, drawn on the device",
            task="classification",
            image_size=224,
            channels=3,
            num_classes=1_000,
            any_classes=True,
        ),
        DatasetEntry(
            name=SYNTHETIC_REGRESSION, title="Synthetic regression, 10 numbers to 1", task="regression"
        ),
    )


def download(name: str) -> None:
    """Fetches a dataset that needs it. Raises ProblemError of kind `DOWNLOAD`."""
    assert name == FASHION_MNIST
    fashion.download()


def load_source(experiment: Experiment, channels: int, device: torch.device) -> Source:
    """The batches of a resolved experiment, pictures with that many channels. Raises ProblemError."""
    if experiment.dataset == SYNTHETIC:
        return _synthetic(experiment, channels, device)
    if experiment.dataset == SYNTHETIC_REGRESSION:
        split = _regression(experiment)
        return Resident(split, None, batch_size=experiment.batch_size, seed=experiment.seed, device=device)
    train, test = fashion.built_in() if experiment.dataset == FASHION else fashion.whole()
    prepare = PreparePictures(
        mean=fashion.MEAN,
        deviation=fashion.DEVIATION,
        image_size=experiment.image_size or fashion.IMAGE_SIZE,
        channels=channels,
    )
    return Resident(
        train,
        test,
        batch_size=experiment.batch_size,
        seed=experiment.seed,
        device=device,
        prepare=prepare,
    )


def _synthetic(experiment: Experiment, channels: int, device: torch.device) -> Turns:
    size, classes = experiment.image_size, experiment.num_classes
    assert size is not None and classes is not None  # a resolved experiment has both
    generator = torch.Generator(device=device).manual_seed(experiment.seed)

    def draw() -> Batch:
        shape = (experiment.batch_size, channels, size, size)
        pictures = torch.randn(shape, generator=generator, device=device)
        labels = torch.randint(classes, (experiment.batch_size,), generator=generator, device=device)
        return pictures, labels

    return Turns(tuple(draw() for _ in range(SYNTHETIC_BATCHES)), experiment.samples)


def _regression(experiment: Experiment) -> Split:
    generator = torch.Generator().manual_seed(experiment.seed)
    inputs = torch.randn(experiment.samples, REGRESSION_FEATURES, generator=generator)
    weights = torch.randn(REGRESSION_FEATURES, 1, generator=generator)
    noise = torch.randn(experiment.samples, 1, generator=generator)
    return Split(inputs, inputs @ weights + _NOISE * noise)


def _fashion_entry(
    name: str, title: str, train: int, validation: int, needs_download: bool = False
) -> DatasetEntry:
    return DatasetEntry(
        name=name,
        title=title,
        task="classification",
        image_size=fashion.IMAGE_SIZE,
        channels=1,
        num_classes=fashion.CLASSES,
        train_samples=train,
        validation_samples=validation,
        needs_download=needs_download,
    )
