"""The fake pictures of the guides: random, but made on the host one by one as real ones are."""

from __future__ import annotations

import torch

from engine.training.data.host_batches import Draw, HostBatch
from engine.training.data.pictures import Colours

FAKEDATA = "fakedata"
IMAGE_SIZE, CLASSES = 224, 10
TRAIN_SAMPLES, VALIDATION_SAMPLES = 2_000, 500
COLOURS = Colours((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


class FakePictures:
    """`Pictures` as torchvision's FakeData draws them, the validation's after the training's.

    torchvision itself reseeds the global generators for each picture, and dropout's with them.
    """

    train_samples = TRAIN_SAMPLES
    validation_samples = VALIDATION_SAMPLES

    def __init__(self, image_size: int, classes: int) -> None:
        self._image_size = image_size
        self._classes = classes

    def open(self) -> None:
        """Nothing: there is nothing to read."""

    def batch(self, draw: Draw) -> HostBatch:
        offset = 0 if draw.is_training else TRAIN_SAMPLES
        pictures, labels = zip(*(self._picture(offset + index) for index in draw.indices), strict=True)
        return torch.stack(pictures), torch.stack(labels)

    def examples(self, count: int) -> None:
        """None: each is noise."""

    def _picture(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        picture = torch.randn(3, self._image_size, self._image_size, generator=generator)
        label = torch.randint(self._classes, (1,), generator=generator)[0]
        return picture.mul(255).byte(), label
