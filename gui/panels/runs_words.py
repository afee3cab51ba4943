"""How a saved run stands, what it trained on and when it began, in a word or two. No Qt."""

from __future__ import annotations

from datetime import datetime

from engine.problem import Kind
from engine.records.record import RunRecord, Status

_STATUS_WORDS = {
    Status.QUEUED: "Queued",
    Status.RUNNING: "Running",
    Status.FINISHED: "Finished",
    Status.STOPPED: "Stopped",
    Status.FAILED: "Failed",
    Status.INTERRUPTED: "Interrupted",
}
STATUS_ORDER = tuple(_STATUS_WORDS)


def status_words(run: RunRecord) -> str:
    """How a run stands: "Finished", "Out of memory"."""
    if run.status is Status.FAILED and run.problem is not None and run.problem.kind is Kind.OUT_OF_MEMORY:
        return "Out of memory"
    return _STATUS_WORDS[run.status]


def dataset_words(dataset: str, image_size: int | None) -> str:
    """The dataset, with the picture size where it is not the dataset's own affair."""
    return f"{dataset} {image_size}" if dataset == "synthetic" and image_size is not None else dataset


def when_words(run: RunRecord, now: datetime) -> str:
    """When a run began, as short as it can be told: "now", "14:02", "19 Nov"."""
    if run.status is Status.RUNNING:
        return "now"
    moment, today = begun(run).astimezone(now.tzinfo), now
    if moment.date() == today.date():
        return f"{moment:%H:%M}"
    return f"{moment.day} {moment:%b}" if moment.year == today.year else f"{moment:%b} {moment.year}"


def begun(run: RunRecord) -> datetime:
    """When the run began, or was queued where it has not begun."""
    return run.started or run.created
