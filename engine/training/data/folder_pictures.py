"""The pictures of a folder, decoded and brought to one size."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps

from engine.problem import ProblemError
from engine.training.data.host_batches import Draw, HostBatch
from engine.training.data.image_folder import PICTURE_ERRORS, ImageFolder, unreadable_problem
from engine.training.data.order import seed_of, spread
from engine.training.data.pictures import Colours

IMAGE_SIZE = 224
# of ImageNet, as usual for photographs
COLOURS = Colours((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_MARGIN = 256 / 224
_MOST_EXAMPLES, _EXAMPLE_SIZE = 48, 48
_MOST_BROKEN_IN_A_ROW = 100
_MOST_PIXELS = 1920 * 1080


class FolderPictures:
    """`Pictures` of a folder: resized and cut to the middle `image_size` pixels a side, in three colours.

    With `augment`, training pictures are a random part of the original, mirrored half the time; what is drawn
    follows from `seed` and the batch's place. With `skip_broken` the next picture stands in for one that
    cannot be read, which is named on stderr: that reaches the run's log from a loader process too.
    """

    def __init__(
        self, folder: ImageFolder, image_size: int, seed: int, *, augment: bool, skip_broken: bool = False
    ) -> None:
        self._folder = folder
        self._image_size = image_size
        self._seed = seed
        self._augment = augment
        self._most_tried = _MOST_BROKEN_IN_A_ROW if skip_broken else 1
        self._named: set[str] = set()
        self.train_samples = len(folder.train)
        self.validation_samples = len(folder.validation)

    def open(self) -> None:
        self._steady, self._varied = _transforms(self._image_size)

    def batch(self, draw: Draw) -> HostBatch:
        part = self._folder.train if draw.is_training else self._folder.validation
        transform = self._varied if draw.is_training and self._augment else self._steady
        # torchvision draws from the global generator, which in this process may be the model's
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed_of(self._seed, draw.epoch, draw.number + 1))
            made = [self._readable(part, index, transform) for index in draw.indices]
        return torch.stack([picture for picture, _ in made]), torch.tensor([label for _, label in made])

    def examples(self, count: int) -> torch.Tensor:
        """The middle of some pictures, grey and 48 pixels a side; few, since they are read one by one."""
        chosen = spread(self.train_samples, min(count, _MOST_EXAMPLES))
        read = [_example(self._folder.train[index][0]) for index in chosen]
        found = [torch.from_numpy(tile) for tile in read if tile is not None]
        return torch.stack(found).unsqueeze(1) if found else torch.empty(0, 1, 0, 0, dtype=torch.uint8)

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
                    sys.stderr.write(f"{error.problem.message} The next picture stands in.\n")
                    sys.stderr.flush()
        raise AssertionError("at least one picture is tried")

    def _picture(self, file: str, transform: Any) -> torch.Tensor:
        try:
            with Image.open(file) as picture:
                decoded = _in_colour(picture)
        except PICTURE_ERRORS as error:
            raise ProblemError(unreadable_problem(file, self._folder.root)) from error
        made: torch.Tensor = transform(decoded)
        return made


def _example(file: str) -> NDArray[np.uint8] | None:
    """None for a picture that is broken, or that would take long to decode and much memory."""
    try:
        with Image.open(file) as picture:
            # a JPEG is decoded at no more than it needs: down to an eighth of its size
            picture.draft("L", (_EXAMPLE_SIZE, _EXAMPLE_SIZE))
            if picture.width * picture.height > _MOST_PIXELS:
                return None
            grey = picture if picture.mode == "L" else _in_colour(picture).convert("L")
            square = ImageOps.fit(grey, (_EXAMPLE_SIZE, _EXAMPLE_SIZE))
    except PICTURE_ERRORS:
        return None
    return np.array(square, dtype=np.uint8)


def _in_colour(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I"):
        # 16 bits a pixel, which Pillow would cut off at 255: nearly all white
        picture = picture.convert("I").point(lambda value: value * (1 / 256))
    return picture.convert("RGB")


def _transforms(image_size: int) -> tuple[Any, Any]:
    # not above: it takes a quarter of a second that no other dataset needs
    from torchvision.transforms import v2

    steady = [v2.Resize(round(_MARGIN * image_size)), v2.CenterCrop(image_size), v2.PILToTensor()]
    varied = [v2.RandomResizedCrop(image_size), v2.RandomHorizontalFlip(), v2.PILToTensor()]
    return v2.Compose(steady), v2.Compose(varied)
