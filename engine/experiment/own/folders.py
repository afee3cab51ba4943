"""The user's own folders: images, with a subfolder per class, or text. This module does not import torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from engine.experiment.catalog import ARRAYS, IMAGE_FOLDER, TEXT_FOLDER, DatasetEntry
from engine.experiment.experiment import Experiment, setting_problem
from engine.experiment.own.array_files import ENDINGS as ARRAY_ENDINGS
from engine.experiment.own.trust import TrustedCode
from engine.experiment.paths import plain_file
from engine.experiment.problem import Problem, ProblemError, request_problem
from engine.experiment.value import shortened

ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""The endings of image files for torchvision."""
_LOOKED_AT_BYTES = 4_096


@dataclass(frozen=True)
class Count:
    """The number of images and classes in a folder.

    If `validation` is 0, some of the `train` images are held out for validation.
    """

    train: int
    validation: int
    classes: int


def class_folders(root: Path) -> tuple[Path, Path | None]:
    """Return the folders of the classes to train on and, if separate, to validate on. Raises ProblemError."""
    names = folders(root)
    has_parts = "train" in names and bool(folders(root / "train"))
    if not has_parts:
        return root, None
    return root / "train", root / "val" if "val" in names else None


def folders(folder: Path) -> tuple[str, ...]:
    """Return the sorted names of the visible subfolders. Raises ProblemError if it cannot be opened."""
    try:
        with os.scandir(folder) as entries:
            return tuple(
                sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
            )
    except OSError as error:
        raise ProblemError(_cannot_open(folder, error)) from error


def image_files(folder: Path) -> Iterator[str]:
    """Yield the paths of the images below a folder, without opening them. Raises ProblemError."""
    return (file for file in _walk_files(folder) if is_image(Path(file).name))


def text_files(folder: Path) -> Iterator[str]:
    """Yield the paths of the text files below a folder, without links out of it. Raises ProblemError."""
    return (file for file in _files_within(folder) if _is_text(file))


def _files_within(folder: Path) -> Iterator[str]:
    root = folder.resolve()
    for file in map(Path, _walk_files(folder, follows_links=False)):
        with suppress(OSError, RuntimeError):  # a link that leads round in circles
            if not file.is_symlink() or file.resolve().is_relative_to(root):
                yield str(file)


def _walk_files(folder: Path, *, follows_links: bool = True) -> Iterator[str]:
    def refuse(error: OSError) -> None:
        raise ProblemError(_cannot_open(Path(error.filename or folder), error)) from error

    visited = {_folder_identity(folder)}
    for parent, inside, files in os.walk(folder, onerror=refuse, followlinks=follows_links):
        # hidden folders hold thumbnails and notebooks' copies; a link may lead back to its parent
        visible = sorted(name for name in inside if not name.startswith("."))
        identities = {name: _folder_identity(Path(parent, name)) for name in visible}
        inside[:] = [name for name in visible if identities[name] not in visited]
        visited.update(identities.values())
        yield from (str(Path(parent, name)) for name in sorted(files) if not name.startswith("."))


def _is_text(file: str) -> bool:
    start = b""
    with suppress(OSError), open(file, "rb", opener=plain_file) as opened:
        start = opened.read(_LOOKED_AT_BYTES)
    # the last character may be cut
    return bool(start) and b"\0" not in start and "\ufffd" not in start.decode("utf-8", "replace")[:-1]


def is_image(name: str) -> bool:
    """Return True for the name of an image file. Hidden ones are thumbnails."""
    return name.lower().endswith(ENDINGS) and not name.startswith(".")


def count_images(path: str, is_given_up: Callable[[], bool]) -> Count | None:
    """Count the images below a folder. Returns None once `is_given_up` returns True. Raises ProblemError."""
    counts: list[list[int]] = []
    for part in class_folders(Path(path).expanduser().absolute()):
        counts.append([])
        for folder in (part / name for name in folders(part)) if part is not None else ():
            counts[-1].append(0)
            for _ in image_files(folder):
                if is_given_up():
                    return None
                counts[-1][-1] += 1
    to_train, to_validate = counts
    return Count(sum(to_train), sum(to_validate), sum(count > 0 for count in to_train))


@dataclass(frozen=True)
class TextCount:
    """The number of text files in a folder of training text, and their total size in bytes."""

    files: int
    bytes: int


def count_text(path: str, is_given_up: Callable[[], bool]) -> TextCount | None:
    """Count the text below a folder. Returns None once `is_given_up` returns True. Raises ProblemError."""
    files = total = 0
    for file in text_files(Path(path).expanduser().absolute()):
        if is_given_up():
            return None
        files, total = files + 1, total + Path(file).stat().st_size
    return TextCount(files, total)


def changed_at(path: str) -> tuple[float, ...]:
    """Return when the folder, its parts and its class folders were last changed, each in seconds since 1970.

    Raises ProblemError.
    """
    root = Path(path).expanduser().absolute()
    try:
        train, validation = class_folders(root)
        roots = [part for part in (train, validation) if part is not None]
        inside = [part / name for part in roots for name in folders(part)]
        return tuple(folder.stat().st_mtime for folder in (root, *roots, *inside))
    except OSError as error:
        raise ProblemError(_cannot_open(root, error)) from error


def _folder_identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _cannot_open(folder: Path, error: OSError) -> Problem:
    if isinstance(error, FileNotFoundError):
        message, remedy = f"There is no folder {folder}.", "Check its spelling."
    elif isinstance(error, NotADirectoryError):
        message, remedy = f"{folder} is not a folder.", "Select a folder of images."
    else:
        message = f"{folder} cannot be opened: {error.strerror or error}."
        remedy = "Check its permissions, or select another folder."
    return request_problem(message, remedy, key="path", value=folder)


_NEEDS = {
    IMAGE_FOLDER: ("a folder of images", "a folder with one subfolder of images per class"),
    TEXT_FOLDER: ("a folder of text", "a folder with UTF-8 text files"),
    ARRAYS: ("a file of arrays", f"a file that ends in {', '.join(ARRAY_ENDINGS)}"),
}
_MOST_LOOKED_AT, _MOST_OPENED = 2_000, 50  # few, since the form checks at every key press


def path_problem(experiment: Experiment, dataset: DatasetEntry) -> Problem | None:
    """Return the problem of a path that the dataset cannot use. A file of arrays is not opened here."""
    path = experiment.path
    if path is None or not dataset.needs_path:
        return _needless_or_missing(path, dataset)
    if dataset.name == ARRAYS:
        return None
    is_folder = False
    # a parent folder that may not be opened, the home of no user, an impossible name
    with suppress(OSError, RuntimeError, ValueError):
        is_folder = Path(path).expanduser().is_dir()
    if not is_folder:
        message = f"is '{shown_path(path)}', but that folder cannot be read."
        return setting_problem("path", message, "Check its spelling and its permissions.", value=path)
    return _text_problem(path) if dataset.name == TEXT_FOLDER else _images_problem(path)


def _needless_or_missing(path: str | None, dataset: DatasetEntry) -> Problem | None:
    if not dataset.needs_path:
        if path is None:
            return None
        message = f"is '{shown_path(path)}', but {dataset.name} is not read from a folder or file."
        return setting_problem("path", message, f"Leave it empty, or use {', '.join(_NEEDS)}.", value=path)
    needed, wanted = _NEEDS[dataset.name]
    return setting_problem("path", f"is empty, but {dataset.name} needs {needed}.", f"Set it to {wanted}.")


def remote_path_problem(experiment: Experiment, dataset: DatasetEntry, machine: str) -> Problem | None:
    """Return the problem of a path on a remote machine that is not absolute."""
    path = experiment.path
    if path is None or not dataset.needs_path:
        return _needless_or_missing(path, dataset)
    if path.startswith(("/", "~/")):
        return None
    where = ", where it must also exist" if exists_here(path) else ""
    message = f"is '{shown_path(path)}', but {machine} needs the absolute path, starting with /."
    return setting_problem("path", message, f"Use the path on {machine}{where}.", value=path)


def exists_here(path: str) -> bool:
    """Return True if the file or folder exists on this machine."""
    with suppress(OSError, RuntimeError, ValueError):
        return TrustedCode().may_look(path) and Path(path).expanduser().exists()
    return False


def shown_path(path: str) -> str:
    """Return a path as text to quote in a sentence."""
    return shortened(path, most=300)


def no_text_problem(path: str | Path) -> Problem:
    """Create the problem of a folder without text."""
    message = f"{shown_path(str(path))} has no UTF-8 text files."
    return request_problem(message, "Select a folder with files such as .txt or .md.", key="path", value=path)


def _text_problem(path: str) -> Problem | None:
    try:
        looked_at = islice(_files_within(Path(path).expanduser().absolute()), _MOST_LOOKED_AT)
        is_some = any(number == _MOST_OPENED or _is_text(file) for number, file in enumerate(looked_at))
    except ProblemError:
        return None
    return None if is_some else no_text_problem(path)


def classes_problem(root: Path, classes: Sequence[str]) -> Problem | None:
    """Return the problem of a folder of images with fewer than two classes. None for two or more."""
    if len(classes) >= 2:
        return None
    if classes:
        message = f"{root} has only one class, '{classes[0]}'. A classifier needs two or more."
    else:
        message = f"{root} has no subfolders with images."
    remedy = f"Put the images of each class in a separate folder, e.g. {root}/cats and {root}/dogs."
    return request_problem(message, remedy, key="path", value=root)


def _images_problem(path: str) -> Problem | None:
    # a short look; the worker looks at all of it
    root = Path(path).expanduser().absolute()
    left, classes = _MOST_LOOKED_AT, []
    try:
        root, _ = class_folders(root)
        for name in folders(root):
            for _, inside, files in os.walk(root / name):
                inside[:] = [folder for folder in inside if not folder.startswith(".")]
                left -= 1 + len(files)
                if any(is_image(file) for file in files):
                    classes.append(name)
                    break
                if left < 0:
                    return None
            if len(classes) == 2:
                return None
    except (OSError, ProblemError):
        return None
    return classes_problem(root, classes)
