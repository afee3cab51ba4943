"""A folder of the user's own images: its classes, its problems, and its images at one size."""

from __future__ import annotations

import os
import random
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps

from engine.experiment.experiment import Experiment, named, setting_error
from engine.experiment.own.folders import class_folders, classes_problem, folders, image_files
from engine.experiment.paths import plain_file
from engine.experiment.problem import Problem, ProblemError, request_error, request_problem
from engine.training.data.batches import (
    BatchRequest,
    HostBatch,
    LoaderDataset,
    derive_seed,
    epoch_order,
    evenly_spaced,
    split_indices,
)

PICTURE_ERRORS = (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError)
_MOST_CHECKED = 3_000


@dataclass(frozen=True)
class ImageFolder:
    """The images in a user's folder: the class names, and each split's image paths and class numbers."""

    root: Path
    classes: tuple[str, ...]
    train: tuple[tuple[str, int], ...]
    validation: tuple[tuple[str, int], ...]


def read_image_folder(path: str | None) -> ImageFolder:
    """List the images in `path/<class>/*`, or in `train` and `val` below `path`, without opening them.

    Raises ProblemError.
    """
    if path is None:
        remedy = "Choose a folder with one subfolder of images for each class."
        raise request_error("image-folder needs a folder of images.", remedy, key="path")
    root = Path(path).expanduser().absolute()
    train_root, validation_root = class_folders(root)
    by_class = {name: tuple(image_files(train_root / name)) for name in folders(train_root)}
    classes = tuple(name for name, files in by_class.items() if files)
    too_few = classes_problem(train_root, classes)
    if too_few is not None:
        raise ProblemError(too_few)
    listed = tuple((file, number) for number, name in enumerate(classes) for file in by_class[name])
    if validation_root is not None:
        return ImageFolder(root, classes, listed, _validation(validation_root, classes))
    train, validation = (tuple(listed[index] for index in part) for part in split_indices(len(listed)))
    return ImageFolder(root, classes, train, validation)


def check_image_folder(folder: ImageFolder, experiment: Experiment) -> None:
    """Raise ProblemError if some of about 3,000 files are not images, or if the settings do not fit them."""
    files = [file for file, _ in (*folder.train, *folder.validation)]
    checked = files[:: -(-len(files) // _MOST_CHECKED)]
    broken = [file for file in checked if not _has_head(file)]
    if broken and not experiment.data.skip_broken:
        raise ProblemError(unreadable_problem(broken[0], folder.root, len(broken), len(checked)))
    available, size, classes = len(folder.train), experiment.batch_size, len(folder.classes)
    if size > available:
        message = f"is {size:,}, but {folder.root} has {available:,} images to train on."
        remedy = f"Set it to at most {available:,}."
        raise setting_error("batch_size", message, remedy, value=size, allowed=f"1 to {available:,}")
    if experiment.num_classes not in (None, classes):
        message = f"is {experiment.num_classes:,}, but {folder.root} has {classes:,}."
        given = experiment.num_classes
        raise setting_error("num_classes", message, "Leave it empty.", value=given, allowed=str(classes))


def unreadable_problem(first: str, root: Path, count: int = 1, of: int | None = None) -> Problem:
    """Return the problem of unreadable images.

    `count` of the `of` opened images are unreadable, the `first` of them is named.
    """
    name = os.path.relpath(first, root)
    if count == 1:
        message = f"The image {name} in {root} cannot be read."
    else:
        message = f"{count:,} of {of:,} images in {root} cannot be read. The first is {name}."
    them = "it" if count == 1 else "them"
    skipping = f"turn on {named('data.skip_broken')} to train without {them}"
    remedy = f"Remove {them}, save {them} again, or {skipping}."
    return request_problem(message, remedy, key="path", value=root)


def _validation(root: Path, classes: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    listed = []
    for name in folders(root):
        files = [*image_files(root / name)]
        if files and name not in classes:
            message = f"{root} has the class '{name}', which {root.parent / 'train'} does not have."
            raise request_error(message, "Give both the same folders.", key="path", value=root.parent)
        listed += [(file, classes.index(name)) for file in files]
    return tuple(listed)


def _has_head(file: str) -> bool:
    try:
        with open(file, "rb", opener=plain_file) as opened, Image.open(opened) as picture:
            return min(picture.size) > 0
    except PICTURE_ERRORS:
        return False


_MARGIN = 256 / 224
_MOST_EXAMPLES, _EXAMPLE_SIZE = 48, 48
_MOST_BROKEN_IN_A_ROW = 100
_MOST_PIXELS = 1920 * 1080


class FolderImages(LoaderDataset):
    """Reads a user's image folder in RGB, resized and center-cropped to `image_size` pixels per side.

    With `augment`, training images are random crops, mirrored half of the time. Their random numbers depend
    only on `seed` and on the batch's place in the run. With `skip_broken`, an unreadable image is replaced by
    the next one and named in the run's log.
    """

    def __init__(
        self, folder: ImageFolder, image_size: int, seed: int, *, augment: bool, skip_broken: bool = False
    ) -> None:
        self._folder, self._image_size, self._seed, self._augment = folder, image_size, seed, augment
        self._most_tried = _MOST_BROKEN_IN_A_ROW if skip_broken else 1
        self._named: set[str] = set()
        self.train_samples, self.validation_samples = len(folder.train), len(folder.validation)

    def open(self) -> None:
        self._steady, self._varied = _transforms(self._image_size)

    def batch(self, draw: BatchRequest) -> HostBatch:
        part = self._folder.train if draw.is_training else self._folder.validation
        transform = self._varied if draw.is_training and self._augment else self._steady
        # torchvision draws from the global generator, which in this process may be the model's
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive_seed(self._seed, draw.epoch, draw.number + 1))
            samples = [self._readable(part, index, transform) for index in draw.indices]
        return torch.stack([picture for picture, _ in samples]), torch.tensor([label for _, label in samples])

    def examples(self, count: int) -> torch.Tensor:
        """Return the centers of a few images, gray and 48 pixels per side. They are read one by one."""
        chosen = evenly_spaced(self.train_samples, min(count, _MOST_EXAMPLES))
        read = [_example(self._folder.train[index][0]) for index in chosen]
        tiles = [torch.from_numpy(tile) for tile in read if tile is not None]
        return torch.stack(tiles).unsqueeze(1) if tiles else torch.empty(0, 1, 0, 0, dtype=torch.uint8)

    def _readable(
        self, part: tuple[tuple[str, int], ...], index: int, transform: Any
    ) -> tuple[torch.Tensor, int]:
        for tried in range(self._most_tried):
            file, label = part[(index + tried) % len(part)]
            try:
                return self._picture(file, transform), label
            except ProblemError as error:
                if tried + 1 == self._most_tried:
                    raise
                if file not in self._named:
                    self._named.add(file)
                    sys.stderr.write(f"{error.problem.message} The next image is used instead.\n")
                    sys.stderr.flush()
        raise AssertionError("at least one image is tried")

    def _picture(self, file: str, transform: Any) -> torch.Tensor:
        try:
            with open(file, "rb", opener=plain_file) as opened, Image.open(opened) as picture:
                decoded = _in_color(picture)
        except PICTURE_ERRORS as error:
            raise ProblemError(unreadable_problem(file, self._folder.root)) from error
        transformed: torch.Tensor = transform(decoded)
        return transformed


def _example(file: str) -> NDArray[np.uint8] | None:
    # None for a picture that is broken or too large to decode quickly
    try:
        with open(file, "rb", opener=plain_file) as opened, Image.open(opened) as picture:
            # a JPEG is decoded at a reduced size, down to an eighth
            picture.draft("L", (_EXAMPLE_SIZE, _EXAMPLE_SIZE))
            if picture.width * picture.height > _MOST_PIXELS:
                return None
            gray = picture if picture.mode == "L" else _in_color(picture).convert("L")
            square = ImageOps.fit(gray, (_EXAMPLE_SIZE, _EXAMPLE_SIZE))
    except PICTURE_ERRORS:
        return None
    return np.array(square, dtype=np.uint8)


def _in_color(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I"):
        # 16 bits per pixel, which Pillow would clip at 255: nearly all white
        picture = picture.convert("I").point(lambda value: value * (1 / 256))
    return picture.convert("RGB")


def _transforms(image_size: int) -> tuple[Any, Any]:
    # imported here: it takes a quarter of a second, which no other dataset needs
    from torchvision.transforms import v2

    steady = [v2.Resize(round(_MARGIN * image_size)), v2.CenterCrop(image_size), v2.PILToTensor()]
    varied = [v2.RandomResizedCrop(image_size), v2.RandomHorizontalFlip(), v2.PILToTensor()]
    return v2.Compose(steady), v2.Compose(varied)


# the longest that a run waits for its pictures to be opened; of a larger folder only a part is checked
MOST_SECONDS = 10.0
_AT_ONCE = 32
_THREADS = min(4, os.cpu_count() or 1)


@dataclass(frozen=True)
class CheckProgress:
    """The progress of a check for unreadable images: `count` of `of` are checked, `broken` are unreadable."""

    count: int
    of: int
    broken: tuple[str, ...]


def used_images(folder: ImageFolder, experiment: Experiment, steps: int | None) -> tuple[str, ...]:
    """Return the files that a run of so many steps reads (None: all), in the first epoch's order."""
    count = len(folder.train)
    trained = count if steps is None else min(count, steps * experiment.step_samples)
    # a run of less than an epoch reads only the beginning of that order
    drawn = epoch_order(count, experiment.seed, 1)[:trained].tolist()
    validated = folder.validation[: experiment.validation.limit] if experiment.validation.every else ()
    return tuple(file for file, _ in (*(folder.train[index] for index in drawn), *validated))


def check_images(
    files: Sequence[str], must_end: Callable[[], bool], seed: int, most_seconds: float = MOST_SECONDS
) -> Iterator[CheckProgress]:
    """Decode images in random order and yield the progress, until all are done or it must end."""
    order = random.Random(seed).sample(files, len(files))
    broken: tuple[str, ...] = ()
    ends = time.monotonic() + most_seconds
    with ThreadPoolExecutor(_THREADS) as pool:
        for first in range(0, len(order), _AT_ONCE):
            some = order[first : first + _AT_ONCE]
            are_whole = pool.map(_is_whole, some)
            broken += tuple(file for file, is_whole in zip(some, are_whole, strict=True) if not is_whole)
            yield CheckProgress(first + len(some), len(order), broken)
            if must_end() or time.monotonic() > ends:
                return


def _is_whole(file: str) -> bool:
    try:
        with open(file, "rb", opener=plain_file) as opened, Image.open(opened) as picture:
            # at an eighth of its size a JPEG is still read to its end, in a third of the time
            picture.draft(None, (1, 1))
            picture.load()
    except PICTURE_ERRORS:
        return False
    return True
