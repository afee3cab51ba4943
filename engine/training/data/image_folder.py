"""A folder of a person's own pictures: what is in it, and what is wrong with it."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image

from engine.data_checks import classes_problem
from engine.experiment import Experiment
from engine.picture_folders import folders, parts, pictures
from engine.problem import Problem, ProblemError, request_problem
from engine.training.data.order import seed_of

IMAGE_FOLDER = "image-folder"
PICTURE_ERRORS = (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError)
_LOOKED_AT = 3_000
_VALIDATED_FRACTION = 0.1


@dataclass(frozen=True)
class ImageFolder:
    """The classes, and for each part its pictures as paths and class numbers."""

    root: Path
    classes: tuple[str, ...]
    train: tuple[tuple[str, int], ...]
    validation: tuple[tuple[str, int], ...]


def read_image_folder(path: str | None) -> ImageFolder:
    """Lists `path/<class>/*`, or `path/train/<class>/*` with `path/val/<class>/*`; opens no picture.

    Without a `val` the last tenth of a shuffle that is always the same validates. Raises ProblemError of kind
    `REQUEST`, key `path`.
    """
    if path is None:
        raise ProblemError(
            request_problem(
                "image-folder needs path, the folder of your pictures.",
                "Set path to a folder that has one folder of pictures for each class.",
                key="path",
            )
        )
    root = Path(path).expanduser().absolute()
    train_root, validation_root = parts(root)
    found = {name: tuple(pictures(train_root / name)) for name in folders(train_root)}
    classes = tuple(name for name, files in found.items() if files)
    too_few = classes_problem(train_root, classes)
    if too_few is not None:
        raise ProblemError(too_few)
    listed = tuple((file, number) for number, name in enumerate(classes) for file in found[name])
    if validation_root is not None:
        return ImageFolder(root, classes, listed, _validation(validation_root, classes))
    return ImageFolder(root, classes, *_parted(listed))


def check_image_folder(folder: ImageFolder, experiment: Experiment) -> None:
    """Raises ProblemError where pictures are none, or the settings do not fit them.

    The heads of some 3,000 pictures are looked at; of a larger folder they are spread over it evenly.
    """
    every = -(-(len(folder.train) + len(folder.validation)) // _LOOKED_AT)
    looked_at = [file for file, _ in (*folder.train, *folder.validation)][::every]
    broken = [file for file in looked_at if not _has_head(file)]
    if broken and not experiment.data.skip_broken:
        raise ProblemError(unreadable_problem(broken[0], folder.root, len(broken), len(looked_at)))
    if experiment.batch_size > len(folder.train):
        raise ProblemError(_too_few(folder, experiment))
    if experiment.num_classes not in (None, len(folder.classes)):
        raise ProblemError(
            request_problem(
                f"num_classes is {experiment.num_classes:,}, but {folder.root} has {len(folder.classes):,}.",
                "Leave num_classes empty.",
                key="num_classes",
                value=experiment.num_classes,
                allowed=str(len(folder.classes)),
            )
        )


def unreadable_problem(first: str, root: Path, count: int = 1, of: int | None = None) -> Problem:
    """Pictures that cannot be read: which is the first, and how many of those looked at."""
    name = os.path.relpath(first, root)
    if count == 1:
        message = f"The picture {name} in {root} cannot be read."
    else:
        message = f"{count:,} of {of:,} pictures in {root} cannot be read; the first is {name}."
    what = "it" if count == 1 else "them"
    remedy = f"Remove {what}, save {what} anew, or set data.skip_broken to train without {what}."
    return request_problem(message, remedy, key="path", value=root)


def _validation(root: Path, classes: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    listed = []
    for name in folders(root):
        found = [*pictures(root / name)]
        if found and name not in classes:
            raise ProblemError(
                request_problem(
                    f"{root} has the class '{name}', which {root.parent / 'train'} does not have.",
                    "Give both the same folders.",
                    key="path",
                    value=root.parent,
                )
            )
        listed += [(file, classes.index(name)) for file in found]
    return tuple(listed)


def _parted(
    listed: tuple[tuple[str, int], ...],
) -> tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]:
    # not by the run's seed: runs with other seeds are compared on the same pictures
    generator = torch.Generator().manual_seed(seed_of(0))
    order = torch.randperm(len(listed), generator=generator).tolist()
    kept = len(listed) - max(1, round(_VALIDATED_FRACTION * len(listed)))
    train, validation = sorted(order[:kept]), sorted(order[kept:])
    return tuple(listed[index] for index in train), tuple(listed[index] for index in validation)


def _has_head(file: str) -> bool:
    try:
        with Image.open(file) as picture:
            return min(picture.size) > 0
    except PICTURE_ERRORS:
        return False


def _too_few(folder: ImageFolder, experiment: Experiment) -> Problem:
    available = len(folder.train)
    return request_problem(
        f"batch_size is {experiment.batch_size:,}, but {folder.root} has {available:,} pictures to train on.",
        f"Set batch_size to at most {available:,}.",
        key="batch_size",
        value=experiment.batch_size,
        allowed=f"1 to {available:,}",
    )
