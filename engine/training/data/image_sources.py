"""Images as a source of batches: kept on the device, or loaded while the model trains."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from PIL import Image

from engine.experiment import built_in, catalog
from engine.experiment.built_in import DATASETS, FAKEDATA, FASHION, NORMALIZATIONS
from engine.experiment.catalog import ARRAYS, IMAGE_FOLDER
from engine.experiment.experiment import Experiment, named, setting_error
from engine.experiment.value import BYTES_PER_GIB
from engine.protocol import events
from engine.protocol.events import Log
from engine.protocol.pictures import MOST_SIDE, MOST_TILES, ContactSheet, sheet_of
from engine.training.data import arrays, images
from engine.training.data.arrays import has_images, is_small
from engine.training.data.batches import (
    BatchSource,
    DataSplit,
    DeviceSource,
    InMemoryDataset,
    LoaderDataset,
    Prepare,
)
from engine.training.data.image_folder import FolderImages, read_image_folder
from engine.training.data.image_sets import SETS, read_dataset
from engine.training.data.images import FakeImages, PrepareImages, ShiftAndFlip
from engine.training.data.loader import LoadedSource, load_all_samples


def is_kept_on_device(experiment: Experiment) -> bool:
    """Return True if the samples are kept on the device. By default small datasets are."""
    wanted = experiment.data.on_device
    if wanted is None and experiment.dataset == ARRAYS:
        return is_small(experiment)
    return experiment.dataset not in (FAKEDATA, IMAGE_FOLDER) if wanted is None else wanted


_KEPT_ON_REQUEST = (FAKEDATA, IMAGE_FOLDER, ARRAYS)


def check_device_memory(experiment: Experiment, samples: int, sample_bytes: int) -> None:
    """Raise ProblemError if samples of that many bytes do not fit on the device."""
    if not (is_kept_on_device(experiment) and experiment.dataset in _KEPT_ON_REQUEST):
        return
    needed = samples * sample_bytes / BYTES_PER_GIB
    device, free_bytes = torch.device(experiment.device), psutil.virtual_memory().available
    if device.type == "cuda":
        free_bytes = torch.cuda.mem_get_info(device)[0]
    free = min(free_bytes / BYTES_PER_GIB, experiment.memory_cap_gib or math.inf)
    if needed > free:
        takes = f"{samples:,} samples take {needed:,.2f} GiB"
        message = f"is on, but {takes} and only {free:,.2f} GiB are free there."
        remedy = f"Turn it off, or lower {named('image_size')}."
        if experiment.dataset == ARRAYS:
            remedy = "Turn it off."
        raise setting_error("data.on_device", message, remedy, value="true")


def load_images(
    experiment: Experiment, channels: int, device: torch.device, memory_format: torch.memory_format
) -> BatchSource:
    """Return the batches of a resolved experiment with images or arrays. Raises ProblemError."""
    prepare = _prepare(experiment, channels, device, memory_format)
    # a folder's pictures are cropped when they are decoded, so that is where they are varied
    by_loaders = experiment.dataset == IMAGE_FOLDER and not is_kept_on_device(experiment)
    is_varied = experiment.data.augment and not by_loaders
    augment = ShiftAndFlip(experiment.seed, device) if is_varied else None
    if is_kept_on_device(experiment):
        if experiment.dataset in _KEPT_ON_REQUEST:
            splits = load_all_samples(_pictures(experiment), experiment.data)
        else:
            splits = _read_splits(experiment.dataset)
        return DeviceSource(*splits, experiment, device, prepare, augment)
    return LoadedSource(_pictures(experiment), experiment, device, prepare, augment)


def _prepare(
    experiment: Experiment, channels: int, device: torch.device, memory_format: torch.memory_format
) -> Prepare:
    if experiment.dataset == ARRAYS and not has_images(experiment):
        return lambda inputs: inputs
    usual = NORMALIZATIONS[experiment.dataset], DATASETS[experiment.dataset].image_size or 0
    is_arrays = experiment.dataset == ARRAYS
    normalization, size = arrays.image_preprocessing(experiment) if is_arrays else usual
    return PrepareImages(normalization, experiment.image_size or size, channels, device, memory_format)


def _read_splits(name: str) -> tuple[DataSplit, DataSplit]:
    return images.built_in() if name == FASHION else read_dataset(name)


def _pictures(experiment: Experiment) -> LoaderDataset:
    entry = DATASETS[experiment.dataset]
    size = experiment.image_size or entry.image_size or 0
    match experiment.dataset:
        case catalog.ARRAYS:
            return arrays.ArraySamples(experiment)
        case built_in.FAKEDATA:
            return FakeImages(size, experiment.num_classes or entry.num_classes or 0)
        case catalog.IMAGE_FOLDER:
            return FolderImages(
                read_image_folder(experiment.path),
                size,
                experiment.seed,
                augment=experiment.data.augment and not is_kept_on_device(experiment),
                skip_broken=experiment.data.skip_broken,
            )
    read = functools.partial(_read_splits, experiment.dataset)
    return InMemoryDataset(read, entry.train_samples or 0, entry.validation_samples or 0)


_PICTURED = frozenset({FASHION, IMAGE_FOLDER, ARRAYS, *SETS})
# of ITU-R BT.601, as Pillow's own gray
_GRAY = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def prepare_thumbnails(experiment: Experiment) -> None:
    """Import what `thumbnail_events` needs, before the idle memory level is measured. Never fails."""
    if experiment.dataset in _PICTURED:
        # if this fails, `thumbnail_events` says why
        with suppress(Exception):
            sheet_of(_tiles(torch.zeros(MOST_TILES, len(_GRAY), MOST_SIDE, MOST_SIDE, dtype=torch.uint8)))


def thumbnail_events(experiment: Experiment, source: BatchSource) -> Iterator[events.Pictures | Log]:
    """Yield the event with the images, if any, before the first step. Uses no random number. Never fails."""
    event: events.Pictures | Log | None
    try:
        sheet = _sheet(experiment, source)
        event = (
            None if sheet is None else events.Pictures(jpeg=sheet.jpeg, side=sheet.side, count=sheet.count)
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on without them
        event = Log(message=f"The training images cannot be shown: {str(error) or 'unknown reason'}")
    if event is not None:
        yield event


def _sheet(experiment: Experiment, source: BatchSource) -> ContactSheet | None:
    if experiment.dataset not in _PICTURED:
        return None
    examples = source.examples(MOST_TILES)
    # a file of arrays may hold anything
    if examples is None or not len(examples) or examples.dim() != 4 or examples.shape[1] not in (1, 3):
        return None
    if examples.dtype != torch.uint8:
        # floats from the least, black, to the most, white
        finite = examples.float().nan_to_num(0.0, 0.0, 0.0)
        least, most = finite.min(), finite.max()
        examples = ((finite - least) * (255 / (most - least).clamp(min=1e-12))).byte()
    return sheet_of(_tiles(examples))


def _tiles(images: torch.Tensor) -> NDArray[np.uint8]:
    # bytes (count, channels, height, width) as gray squares of at most `MOST_SIDE` pixels
    gray = [_gray(picture.numpy()) for picture in images]
    side = min(MOST_SIDE, *images.shape[-2:])
    if images.shape[-2:] != (side, side):
        gray = [np.asarray(Image.fromarray(tile).resize((side, side))) for tile in gray]
    return np.stack(gray)


def _gray(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    # one picture at a time: all in float32 would add megabytes to the process's peak
    gray = np.rint(np.tensordot(_GRAY, picture, 1)) if len(picture) == len(_GRAY) else picture[0]
    return np.asarray(gray, dtype=np.uint8)
