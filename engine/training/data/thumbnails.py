"""Some of the training pictures, small and grey, to show the run with; they change no figure of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from engine.experiment.catalog import ARRAYS, IMAGE_FOLDER
from engine.experiment.experiment import Experiment
from engine.protocol.events import Log, Pictures
from engine.protocol.pictures import MOST_SIDE, MOST_TILES, ContactSheet, sheet_of
from engine.training.data.batches import Source
from engine.training.data.picture_sets import SETS
from engine.training.data.picture_sources import FASHION

_PICTURED = frozenset({FASHION, IMAGE_FOLDER, ARRAYS, *SETS})
# of ITU-R BT.601, as Pillow's own grey
_GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def prepare_pictures(experiment: Experiment) -> None:
    """Loads what `picture_events` uses, so that it does not count as the run's memory. Never fails.

    Call it before the idle level of memory is taken.
    """
    if experiment.dataset in _PICTURED:
        # if this fails, `picture_events` says why
        with suppress(Exception):
            sheet_of(_tiles(torch.zeros(MOST_TILES, len(_GREY), MOST_SIDE, MOST_SIDE, dtype=torch.uint8)))


def picture_events(experiment: Experiment, source: Source) -> Iterator[Pictures | Log]:
    """The event with the pictures; none for text and drawn data. Never fails.

    Call it before the first step. It draws no random number and takes no device memory.
    """
    event: Pictures | Log | None
    try:
        sheet = _sheet(experiment, source)
        event = None if sheet is None else Pictures(jpeg=sheet.jpeg, side=sheet.side, count=sheet.count)
    except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on without them
        event = Log(message=f"The training pictures cannot be shown: {str(error) or 'no reason is known'}")
    if event is not None:
        yield event


def _sheet(experiment: Experiment, source: Source) -> ContactSheet | None:
    if experiment.dataset not in _PICTURED:
        return None
    examples = source.examples(MOST_TILES)
    if examples is None or not len(examples) or not _are_pictures(examples):
        return None
    return sheet_of(_tiles(examples if examples.dtype == torch.uint8 else _as_bytes(examples)))


def _are_pictures(examples: torch.Tensor) -> bool:
    # a file of arrays may hold anything
    return examples.dim() == 4 and examples.shape[1] in (1, 3)


def _as_bytes(examples: torch.Tensor) -> torch.Tensor:
    """Floats from the least, black, to the most, white."""
    finite = examples.float().nan_to_num(0.0, 0.0, 0.0)
    least, most = finite.min(), finite.max()
    return ((finite - least) * (255 / (most - least).clamp(min=1e-12))).byte()


def _tiles(pictures: torch.Tensor) -> NDArray[np.uint8]:
    """Bytes (count, channels, height, width) as grey squares of at most `MOST_SIDE` pixels."""
    grey = [_grey(picture.numpy()) for picture in pictures]
    side = min(MOST_SIDE, *pictures.shape[-2:])
    if pictures.shape[-2:] != (side, side):
        grey = [np.asarray(Image.fromarray(tile).resize((side, side))) for tile in grey]
    return np.stack(grey)


def _grey(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    # one picture at a time: all in float32 would add megabytes to the process's peak
    grey = np.rint(np.tensordot(_GREY, picture, 1)) if len(picture) == len(_GREY) else picture[0]
    return np.asarray(grey, dtype=np.uint8)
