"""The checkpoints that lie beside the store, as files: who has one, and their end when a run is deleted."""

from __future__ import annotations

import shutil
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path

from engine.paths import checkpoint_path, checkpoints_folder, part_path

_MARK = ".deleted"


def folder_of(store: Path, run_id: str) -> Path:
    """Where the run's checkpoints lie; the folder is made by the first of them."""
    return checkpoints_folder(store) / run_id


def has_last(folder: Path) -> bool:
    """Whether there is a checkpoint that the run can go on from."""
    return checkpoint_path(folder, "last").is_file()


def mark(folder: Path) -> None:
    """Says that the folder's run is being deleted, in case that the program ends before `remove`.

    A folder whose run is merely not in the store is left alone: the store may have been moved away.
    """
    if folder.is_dir():
        with suppress(OSError):
            (folder / _MARK).touch()


def remove(folder: Path) -> None:
    """Deletes the folder; what the system holds on to goes with `marked` another time."""
    shutil.rmtree(folder, ignore_errors=True)


def marked(store: Path) -> Iterator[Path]:
    """The folders of runs whose deletion was begun."""
    for found in list(checkpoints_folder(store).glob(f"*/{_MARK}")):
        yield found.parent


def remove_parts(store: Path, run_ids: Container[str]) -> None:
    """Deletes what a kill in the midst of saving has left half-written of the checkpoints of these runs."""
    for part in list(checkpoints_folder(store).glob(f"*/{part_path(Path('*')).name}")):
        if part.parent.name in run_ids:
            with suppress(OSError):
                part.unlink()
