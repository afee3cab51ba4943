"""A folder of the user's own pictures: which folders are classes, and which files are pictures. No torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.experiment.problem import Problem, ProblemError, request_problem

ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""What torchvision takes for pictures."""


@dataclass(frozen=True)
class Count:
    """How many pictures a folder holds to train on and to validate on, and in how many classes.

    `validation` is 0 if the folder has no part for it: some of `train` will validate.
    """

    train: int
    validation: int
    classes: int


def parts(root: Path) -> tuple[Path, Path | None]:
    """The folders of the classes to train on and, where separate, to validate on: `train` and `val`.

    Raises ProblemError, as `folders` does.
    """
    names = folders(root)
    has_parts = "train" in names and bool(folders(root / "train"))
    if not has_parts:
        return root, None
    return root / "train", root / "val" if "val" in names else None


def folders(folder: Path) -> tuple[str, ...]:
    """The sorted names of the visible folders in it. Raises ProblemError where it cannot be opened."""
    try:
        with os.scandir(folder) as entries:
            return tuple(
                sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
            )
    except OSError as error:
        raise ProblemError(_cannot_open(folder, error)) from error


def pictures(folder: Path) -> Iterator[str]:
    """The paths of the pictures below a folder; no picture is opened. Raises ProblemError."""

    def refuse(error: OSError) -> None:
        raise ProblemError(_cannot_open(Path(error.filename or folder), error)) from error

    visited = {_identity(folder)}
    for parent, inside, files in os.walk(folder, onerror=refuse, followlinks=True):
        # hidden folders hold thumbnails and notebooks' copies; a link may lead back to its parent
        visible = sorted(name for name in inside if not name.startswith("."))
        identities = {name: _identity(Path(parent, name)) for name in visible}
        inside[:] = [name for name in visible if identities[name] not in visited]
        visited.update(identities.values())
        for name in sorted(files):
            if is_picture(name):
                yield str(Path(parent, name))


def is_picture(name: str) -> bool:
    """Whether a file of that name counts as a picture; hidden ones are thumbnails."""
    return name.lower().endswith(ENDINGS) and not name.startswith(".")


def count_pictures(path: str, is_given_up: Callable[[], bool]) -> Count | None:
    """Counts the pictures below a folder; None once `is_given_up`, asked for every picture, says so.

    Raises ProblemError where a folder cannot be opened.
    """
    train, validation = parts(Path(path).expanduser().absolute())
    counts = []
    for part in (train, validation):
        by_class = []
        for name in folders(part) if part is not None else ():
            count = 0
            for _ in pictures((part or train) / name):
                if is_given_up():
                    return None
                count += 1
            by_class.append(count)
        counts.append(by_class)
    to_train, to_validate = counts
    return Count(sum(to_train), sum(to_validate), sum(count > 0 for count in to_train))


def changed_at(path: str) -> tuple[float, ...]:
    """When the folder and those in it last changed: if a time differs, so may the pictures.

    Overwriting a picture changes none of them, nor does a picture deeper down. Raises ProblemError.
    """
    root = Path(path).expanduser().absolute()
    try:
        train, validation = parts(root)
        roots = [part for part in (train, validation) if part is not None]
        inside = [part / name for part in roots for name in folders(part)]
        return tuple(folder.stat().st_mtime for folder in (root, *roots, *inside))
    except OSError as error:
        raise ProblemError(_cannot_open(root, error)) from error


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _cannot_open(folder: Path, error: OSError) -> Problem:
    if isinstance(error, FileNotFoundError):
        message, remedy = f"There is no folder {folder}.", "Check its spelling."
    elif isinstance(error, NotADirectoryError):
        message, remedy = f"{folder} is not a folder.", "Choose a folder of pictures."
    else:
        message = f"{folder} cannot be opened: {error.strerror or error}."
        remedy = "Check its permissions, or choose another folder."
    return request_problem(message, remedy, key="path", value=folder)
