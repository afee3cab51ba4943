"""The small image datasets of torchvision: downloaded once, then read completely.

Deng, "The MNIST Database of Handwritten Digit Images", 2012; Xiao, Rasul and Vollgraf, "Fashion-MNIST", 2017;
Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import http.client
import pickle
import shutil
import socket
import tarfile
import urllib.request
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
from torchvision.datasets import CIFAR10, CIFAR100, MNIST, FashionMNIST

from engine.experiment.paths import datasets_folder
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.value import BYTES_PER_MIB
from engine.training.data.batches import DataSplit


@dataclass(frozen=True)
class ImageDataset:
    """An image dataset that torchvision downloads and reads. `archive_bytes` is the size of the download."""

    reader: Any
    archive_bytes: int

    @property
    def folder_name(self) -> str:
        """The folder in the datasets folder where torchvision looks."""
        return str(self.reader.__name__ if self.is_mnist else self.reader.base_folder)

    @property
    def is_mnist(self) -> bool:
        """True for MNIST's four files, False for CIFAR's one."""
        return issubclass(self.reader, MNIST)

    def archives(self) -> tuple[Archive, ...]:
        if not self.is_mnist:
            return (Archive(self.reader.filename, (self.reader.url,), self.reader.tgz_md5),)
        return tuple(
            Archive(name, tuple(mirror + name for mirror in self.reader.mirrors), md5)
            for name, md5 in self.reader.resources
        )


SETS: dict[str, ImageDataset] = {
    "fashion-mnist": ImageDataset(FashionMNIST, 30_878_645),
    "mnist": ImageDataset(MNIST, 11_594_722),
    "cifar10": ImageDataset(CIFAR10, 170_498_071),
    "cifar100": ImageDataset(CIFAR100, 169_001_437),
}


def is_downloaded(name: str) -> bool:
    """Return True if the download is complete. Its folder appears only then."""
    return (datasets_folder() / SETS[name].folder_name).is_dir()


def download(name: str, must_end: Callable[[], bool]) -> Iterator[float | None]:
    """Download a dataset and yield the fraction done, None while it unpacks. Raises ProblemError."""
    if is_downloaded(name):
        return
    folder = datasets_folder()
    try:
        with unfinished_folder(folder) as unfinished:
            yield from _fetch_into(unfinished, SETS[name], must_end)
            (unfinished / SETS[name].folder_name).rename(folder / SETS[name].folder_name)
    except Cancelled:
        return
    except DownloadError as error:
        remedy = "Check the network and try again, or choose fashion, the built-in dataset."
        raise ProblemError(_problem(name, f"{name} could not be downloaded: {error}.", remedy)) from error
    except OSError as error:
        if not is_downloaded(name):  # by another run, in the meantime
            raise ProblemError(write_problem(name, folder, error)) from error


def read_dataset(name: str) -> tuple[DataSplit, DataSplit]:
    """Return both splits: bytes (samples, channels, height, width) and classes. Raises ProblemError."""
    root, reader = str(datasets_folder()), SETS[name].reader
    try:
        with warnings.catch_warnings():
            # newer NumPy warns about how CIFAR's files were written
            warnings.simplefilter("ignore")
            train, validation = reader(root, train=True), reader(root, train=False)
    except (OSError, RuntimeError, ValueError, AssertionError, EOFError, pickle.UnpicklingError) as error:
        message = f"The images of {name} in {datasets_folder() / SETS[name].folder_name} are damaged."
        remedy = "Delete that folder. The next run downloads them again."
        raise ProblemError(_problem(name, message, remedy)) from error
    return _split(train), _split(validation)


def write_problem(name: str, folder: Path, error: OSError) -> Problem:
    """Return the problem of a download that could not be written."""
    remedy = "Set AMMETER_DATA to another folder."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        needed = 2 * SETS[name].archive_bytes / BYTES_PER_MIB
        message = f"The disk is full: {folder} has no room for {name}."
        remedy = f"Free some {needed:,.0f} MiB, or set AMMETER_DATA to another folder."
        return _problem(name, message, remedy, Kind.DISK_FULL)
    if isinstance(error, PermissionError):
        return _problem(name, f"{folder} cannot be written.", remedy)
    return _problem(name, f"{name} could not be written to {folder}: {error.strerror or error}.", remedy)


def _problem(name: str, message: str, remedy: str, kind: Kind = Kind.DOWNLOAD) -> Problem:
    return Problem(kind=kind, message=message, remedy=remedy, key="dataset", value=name)


def _fetch_into(
    unfinished: Path, pictures: ImageDataset, must_end: Callable[[], bool]
) -> Iterator[float | None]:
    done = 0
    into = unfinished / pictures.folder_name / "raw" if pictures.is_mnist else unfinished
    into.mkdir(parents=True, exist_ok=True)
    for archive in pictures.archives():
        for received in fetch(archive, unfinished, must_end, pictures.archive_bytes - done):
            done += received
            yield min(1.0, done / pictures.archive_bytes)
        if must_end():
            raise Cancelled
        yield None
        unpack(unfinished / archive.name, into)


def _split(read: Any) -> DataSplit:
    labels = torch.as_tensor(read.targets).long()
    if isinstance(read.data, torch.Tensor):
        return DataSplit(read.data.unsqueeze(1), labels)
    return DataSplit(torch.from_numpy(read.data).permute(0, 3, 1, 2).contiguous(), labels)


_PIECE_BYTES = 256 * 1024
_PATIENCE_SECONDS = 30.0
_UNFINISHED = ".unfinished-"
_NETWORK_ERRORS = (OSError, http.client.HTTPException, ValueError)


@dataclass(frozen=True)
class Archive:
    """A file to download: its name, its addresses, and its MD5."""

    name: str
    urls: tuple[str, ...]
    md5: str


class Cancelled(Exception):  # noqa: N818 - nothing went wrong
    """Raised when a stop was requested during a download."""


class DownloadError(Exception):
    """Raised when a download failed. Its text is the reason, as a clause that ends a sentence."""


def fetch(archive: Archive, folder: Path, must_end: Callable[[], bool], most_bytes: int) -> Iterator[int]:
    """Download an archive and yield the bytes of each piece. Raises DownloadError, Cancelled, OSError."""
    reason = "its servers did not respond correctly"
    for url in archive.urls:
        received = 0
        digest = hashlib.md5(usedforsecurity=False)
        with (folder / archive.name).open("wb") as file:
            for piece in _pieces(url):
                if must_end():
                    raise Cancelled
                if piece is None:
                    break
                if received + len(piece) > most_bytes:
                    reason = f"{archive.name} is larger than expected"
                    break
                file.write(piece)
                digest.update(piece)
                received += len(piece)
                yield len(piece)
            else:
                if digest.hexdigest() == archive.md5:
                    return
                reason = f"{archive.name} arrived damaged or incomplete"
        if received:
            yield -received  # the next address begins again
    raise DownloadError(reason)


def unpack(archive: Path, into: Path) -> None:
    """Unpack a .tar.gz into a folder, or a .gz next to its file there. Raises DownloadError, OSError."""
    try:
        if archive.name.endswith(".tar.gz"):
            with tarfile.open(archive) as tar:
                tar.extractall(into, filter="data")
        else:
            with gzip.open(archive) as packed, (into / archive.stem).open("wb") as file:
                shutil.copyfileobj(packed, file)
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DownloadError(f"{archive.name} is damaged") from error


@contextlib.contextmanager
def unfinished_folder(folder: Path) -> Iterator[Path]:
    """Create a temporary folder within `folder`, deleted at the end, and delete those of ended processes."""
    own_host = f"{_UNFINISHED}{socket.gethostname()}-"
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{own_host}*"):
        mark = left.name.removeprefix(own_host)
        pid = mark.partition("-")[0]
        if pid.isdigit() and not _is_running(int(pid), mark):
            shutil.rmtree(left, ignore_errors=True)
    place = folder / f"{own_host}{_process_mark(psutil.Process())}"
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _is_running(pid: int, mark: str) -> bool:
    try:
        return _process_mark(psutil.Process(pid)) == mark
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _process_mark(process: psutil.Process) -> str:
    # pids are reused, a pid with its start time is not
    return f"{process.pid}-{process.create_time():.0f}"


def _pieces(url: str) -> Iterator[bytes | None]:
    try:  # None if it fails
        request = urllib.request.Request(url, headers={"User-Agent": "Ammeter"})
        with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS) as answer:
            while piece := answer.read(_PIECE_BYTES):
                yield piece
    except _NETWORK_ERRORS:
        yield None
