"""Pictures as a source of batches: kept on the device, or loaded while the model trains."""

from __future__ import annotations

import functools

import psutil
import torch

from engine.experiment.catalog import ARRAYS, IMAGE_FOLDER
from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.experiment.titles import named, setting_problem
from engine.experiment.value import BYTES_PER_GIB
from engine.training.data import arrays, image_folder, pictures
from engine.training.data.arrays import has_pictures, is_small
from engine.training.data.batches import DataSplit, HeldPictures, Pictures, Prepare, Resident, Source
from engine.training.data.image_folder import FolderPictures, read_image_folder
from engine.training.data.loader import Loaded, loaded_whole
from engine.training.data.picture_sets import SETS, whole
from engine.training.data.pictures import FAKEDATA, Colours, FakePictures, PreparePictures, ShiftAndFlip

FASHION = "fashion"


def is_kept(experiment: Experiment) -> bool:
    """True if the samples are kept on the device; by default small sets are."""
    wanted = experiment.data.on_device
    if wanted is None and experiment.dataset == ARRAYS:
        return is_small(experiment)
    return experiment.dataset not in (FAKEDATA, IMAGE_FOLDER) if wanted is None else wanted


_KEPT_ON_REQUEST = (FAKEDATA, IMAGE_FOLDER, ARRAYS)


def check_device_memory(experiment: Experiment, samples: int, sample_bytes: int) -> None:
    """Raises ProblemError where samples of that many bytes to be kept on the device do not fit there."""
    if not (is_kept(experiment) and experiment.dataset in _KEPT_ON_REQUEST):
        return
    needed = samples * sample_bytes / BYTES_PER_GIB
    free = _free_bytes(torch.device(experiment.device)) / BYTES_PER_GIB
    free = min(free, experiment.memory_cap_gib or free)
    if needed > free:
        raise ProblemError(
            setting_problem(
                "data.on_device",
                f"is on, but {samples:,} samples take {needed:,.2f} GiB and only "
                f"{free:,.2f} GiB are free there.",
                "Switch it off."
                if experiment.dataset == ARRAYS
                else f"Switch it off, or lower {named('image_size')}.",
                value="true",
            )
        )


def load_pictures(
    experiment: Experiment, channels: int, device: torch.device, memory_format: torch.memory_format
) -> Source:
    """The batches of a resolved experiment with pictures or arrays. Raises ProblemError."""
    prepare = _prepare(experiment, channels, device, memory_format)
    augment = ShiftAndFlip(experiment.seed, device) if _augments_on_device(experiment) else None
    if is_kept(experiment):
        train, validation = _splits(experiment)
        return Resident(
            train,
            validation,
            batch_size=experiment.batch_size,
            seed=experiment.seed,
            device=device,
            prepare=prepare,
            augment=augment,
        )
    return Loaded(
        _pictures(experiment),
        batch_size=experiment.batch_size,
        seed=experiment.seed,
        data=experiment.data,
        device=device,
        prepare=prepare,
        augment=augment,
    )


def _prepare(
    experiment: Experiment, channels: int, device: torch.device, memory_format: torch.memory_format
) -> Prepare:
    if experiment.dataset == ARRAYS and not has_pictures(experiment):
        return lambda inputs: inputs
    colours, own_size = _look(experiment)
    return PreparePictures(
        colours,
        image_size=experiment.image_size or own_size,
        channels=channels,
        device=device,
        memory_format=memory_format,
    )


def _look(experiment: Experiment) -> tuple[Colours | None, int]:
    if experiment.dataset == ARRAYS:
        return arrays.look(experiment)
    if experiment.dataset == FAKEDATA:
        return pictures.FAKE_COLOURS, pictures.FAKE_IMAGE_SIZE
    if experiment.dataset == IMAGE_FOLDER:
        return image_folder.COLOURS, image_folder.IMAGE_SIZE
    if experiment.dataset == FASHION:
        return pictures.FASHION_COLOURS, pictures.FASHION_IMAGE_SIZE
    picture_set = SETS[experiment.dataset]
    return picture_set.colours, picture_set.image_size


def _augments_on_device(experiment: Experiment) -> bool:
    # a folder's pictures are cropped when they are decoded, so that is where they are varied
    by_loaders = experiment.dataset == IMAGE_FOLDER and not is_kept(experiment)
    return experiment.data.augment and not by_loaders


def _splits(experiment: Experiment) -> tuple[DataSplit, DataSplit]:
    if experiment.dataset in _KEPT_ON_REQUEST:
        return loaded_whole(_pictures(experiment), experiment.data)
    return _read_splits(experiment.dataset)


def _read_splits(name: str) -> tuple[DataSplit, DataSplit]:
    return pictures.built_in() if name == FASHION else whole(name)


def _pictures(experiment: Experiment) -> Pictures:
    if experiment.dataset == ARRAYS:
        return arrays.ArraySamples(experiment)
    if experiment.dataset == FAKEDATA:
        return FakePictures(
            experiment.image_size or pictures.FAKE_IMAGE_SIZE, experiment.num_classes or pictures.FAKE_CLASSES
        )
    if experiment.dataset == IMAGE_FOLDER:
        return FolderPictures(
            read_image_folder(experiment.path),
            experiment.image_size or image_folder.IMAGE_SIZE,
            experiment.seed,
            augment=experiment.data.augment and not is_kept(experiment),
            skip_broken=experiment.data.skip_broken,
        )
    read = functools.partial(_read_splits, experiment.dataset)
    if experiment.dataset == FASHION:
        return HeldPictures(read, pictures.FASHION_TRAIN_SAMPLES, pictures.FASHION_VALIDATION_SAMPLES)
    picture_set = SETS[experiment.dataset]
    return HeldPictures(read, picture_set.train_samples, picture_set.validation_samples)


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)
