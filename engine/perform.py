"""A job carried out in this process."""

from __future__ import annotations

import os
import platform
import traceback
from collections.abc import Iterator
from pathlib import Path

import torch

from engine import __version__, jobs
from engine.events import CatalogRead, Diagnosis, Event, Failed, Ready
from engine.training.catalog import read_catalog
from engine.training.control import Control
from engine.training.doctor import examine
from engine.training.failures import problem_of, summary_of
from engine.training.forecast import forecast
from engine.training.loop import train
from engine.training.trial import try_batch


def perform(job: jobs.Job, control: Control) -> Iterator[Event]:
    """The events of one job, the last of which ends it: whatever goes wrong is told as `Failed`."""
    failure: Failed | None = None
    try:
        match job:
            case jobs.Train():
                folder = None if job.checkpoints is None else Path(job.checkpoints)
                yield from train(job.experiment, control, folder, resume=job.resume)
            case jobs.ReadCatalog():
                yield CatalogRead(catalog=read_catalog())
            case jobs.Examine():
                yield Diagnosis(checks=examine())
            case jobs.Forecast():
                yield forecast(job.experiment)
            case jobs.TryBatch():
                yield from try_batch(job.experiment, control)
    except Exception as error:  # noqa: BLE001 - a worker's last word must be an event, whatever happened
        failure = Failed(problem=problem_of(error), detail=traceback.format_exc(), summary=summary_of(error))
    # outside the except block, where the exception no longer pins the tensors of the frames it went through
    if failure is not None:
        yield failure


def ready() -> Ready:
    """Says that torch is imported; no device has been touched."""
    return Ready(
        pid=os.getpid(), python=platform.python_version(), torch=torch.__version__, ammeter=__version__
    )

