"""Downloads: whole or not at all, from small archives that the test makes, with no network."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import itertools
import os
import pickle
import struct
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from torchvision.datasets import CIFAR10, MNIST

from engine.experiment.built_in import NORMALIZATIONS
from engine.experiment.paths import datasets_folder
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.training.data.datasets import dataset_entries
from engine.training.data.image_sets import (
    SETS,
    download,
    is_downloaded,
    read_dataset,
    unfinished_folder,
    write_problem,
)
from tests.engine.training.conftest import refusal


def never() -> bool:
    return False


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def idx(shape: tuple[int, ...], values: bytes) -> bytes:
    """A file as MNIST has them."""
    return struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + values


def publish_mnist(folder: Path, monkeypatch: pytest.MonkeyPatch, samples: int = 6) -> list[Path]:
    """Four small files behind a first mirror that has none of them."""
    folder.mkdir()
    resources = []
    for part in ("train", "t10k"):
        pictures = idx((samples, 28, 28), bytes(range(samples)) * 28 * 28)
        labels = idx((samples,), bytes(range(samples)))
        for name, content in ((f"{part}-images-idx3-ubyte", pictures), (f"{part}-labels-idx1-ubyte", labels)):
            packed = gzip.compress(content, mtime=0)
            (folder / f"{name}.gz").write_bytes(packed)
            resources.append((f"{name}.gz", md5(packed)))
    monkeypatch.setattr(MNIST, "resources", resources)
    mirrors = [f"{(folder / 'gone').as_uri()}/", f"{folder.as_uri()}/"]
    monkeypatch.setattr(MNIST, "mirrors", mirrors)
    files = [folder / name for name, _ in resources]
    size = sum(file.stat().st_size for file in files)
    monkeypatch.setitem(SETS, "mnist", replace(SETS["mnist"], archive_bytes=size))
    return files


def publish_cifar(folder: Path, monkeypatch: pytest.MonkeyPatch, samples: int = 4) -> Path:
    """One archive of two files, as CIFAR's own is one of six."""
    folder.mkdir()
    archive = folder / CIFAR10.filename
    pictures = np.arange(samples * 3 * 32 * 32, dtype=np.uint8).reshape(samples, -1)
    batch = pickle.dumps({"data": pictures, "labels": [label % 10 for label in range(samples)]})
    names = pickle.dumps({"label_names": [str(label) for label in range(10)]})
    with tarfile.open(archive, "w:gz") as tar:
        for name, content in (("data_batch_1", batch), ("test_batch", batch), ("batches.meta", names)):
            entry = tarfile.TarInfo(f"{CIFAR10.base_folder}/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    monkeypatch.setattr(CIFAR10, "url", archive.as_uri())
    monkeypatch.setattr(CIFAR10, "tgz_md5", md5(archive.read_bytes()))
    monkeypatch.setattr(CIFAR10, "train_list", [["data_batch_1", md5(batch)]])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", md5(batch)]])
    monkeypatch.setattr(CIFAR10, "meta", {**CIFAR10.meta, "md5": md5(names)})
    size = archive.stat().st_size
    monkeypatch.setitem(SETS, "cifar10", replace(SETS["cifar10"], archive_bytes=size))
    return archive


def there() -> list[str]:
    folder = datasets_folder()
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_a_set_in_four_files_is_fetched_from_the_mirror_that_has_them(tmp_path, monkeypatch):
    publish_mnist(tmp_path / "server", monkeypatch)
    assert not is_downloaded("mnist")
    fractions = [done for done in download("mnist", never) if done is not None]
    assert fractions[-1] == 1.0 and fractions == sorted(fractions)
    assert is_downloaded("mnist") and there() == ["MNIST"]
    train, test = read_dataset("mnist")
    assert train.inputs.shape == test.inputs.shape == (6, 1, 28, 28)
    assert train.targets.tolist() == list(range(6))
    assert list(download("mnist", never)) == []


def test_a_set_in_one_archive_is_fetched_and_its_files_only_are_kept(tmp_path, monkeypatch):
    publish_cifar(tmp_path / "server", monkeypatch)
    assert list(download("cifar10", never))[-2:] == [1.0, None]
    assert there() == ["cifar-10-batches-py"]
    train, _ = read_dataset("cifar10")
    assert train.inputs.shape == (4, 3, 32, 32) and train.targets.tolist() == [0, 1, 2, 3]
    assert train.inputs[0, 1, 0, :3].tolist() == [0, 1, 2]  # the second channel begins at 1,024
    entry = next(entry for entry in dataset_entries() if entry.name == "cifar10")
    assert not entry.needs_download


def test_a_download_that_must_end_or_is_dropped_leaves_nothing_behind(tmp_path, monkeypatch):
    publish_mnist(tmp_path / "server", monkeypatch)
    asked = itertools.count()
    told = list(download("mnist", lambda: next(asked) >= 2))
    assert told and 1.0 not in told and there() == []
    fractions = download("mnist", never)
    next(fractions)
    assert len(there()) == 1
    fractions.close()
    assert there() == []


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a file without an end is needed")
def test_a_download_without_an_end_is_left_where_its_size_is_passed(tmp_path, monkeypatch):
    archive = publish_cifar(tmp_path / "server", monkeypatch)
    known = archive.stat().st_size
    monkeypatch.setattr(CIFAR10, "url", Path("/dev/zero").as_uri())
    # it is read in pieces of 256 KiB: none of them is taken
    with pytest.raises(ProblemError, match="larger than expected"):
        for done in download("cifar10", never):
            assert done is not None and done <= 1.0
            assert sum(file.stat().st_size for file in datasets_folder().rglob("*.gz")) <= known
    assert there() == []


def refused_download(name: str) -> Problem:
    problem = refusal(list, download(name, never))
    assert there() == []
    return problem


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def swap_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [halve, swap_a_byte])
def test_an_archive_that_arrives_damaged_is_refused(tmp_path, monkeypatch, damage):
    damage(publish_cifar(tmp_path / "server", monkeypatch))
    problem = refused_download("cifar10")
    assert problem.kind is Kind.DOWNLOAD and problem.value == "cifar10" and problem.remedy
    assert "damaged or incomplete" in problem.message


def test_an_archive_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = publish_cifar(tmp_path / "server", monkeypatch)
    archive.write_bytes(b"<html>Please log in</html>")
    monkeypatch.setattr(CIFAR10, "tgz_md5", md5(archive.read_bytes()))
    problem = refused_download("cifar10")
    assert problem.kind is Kind.DOWNLOAD and "damaged" in problem.message


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", sorted(SETS))
def test_a_download_without_network_says_so_and_leaves_nothing_behind(name: str) -> None:
    problem = refused_download(name)
    assert problem.kind is Kind.DOWNLOAD and "servers did not respond" in problem.message


def test_a_folder_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("AMMETER_DATA", str(tmp_path / "file"))
    problem = refusal(list, download("mnist", never))
    assert str(tmp_path / "file") in problem.message and "AMMETER_DATA" in problem.remedy


def test_a_full_disk_is_told_with_the_room_that_is_needed(tmp_path: Path) -> None:
    problem = write_problem("cifar10", tmp_path, OSError(errno.ENOSPC, "No space left on device"))
    assert problem.kind is Kind.DISK_FULL and "325 MiB" in problem.remedy
    assert write_problem("cifar10", tmp_path, PermissionError(errno.EACCES, "")).kind is Kind.DOWNLOAD


def test_what_an_ended_process_left_behind_is_removed_and_what_a_living_one_holds_is_not(
    tmp_path: Path, start_script: Callable[[Path, dict[str, str]], subprocess.Popen[bytes]]
) -> None:
    folder, script = datasets_folder(), tmp_path / "other.py"
    script.write_text(
        "import sys, pathlib\n"
        "from engine.training.data.image_sets import unfinished_folder\n"
        f"held = unfinished_folder(pathlib.Path({str(folder)!r}))\n"
        "print(held.__enter__().name, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with start_script(script, dict(os.environ)) as other:
        assert other.stdout is not None
        left = other.stdout.readline().decode().strip()
        with unfinished_folder(folder) as own:
            assert there() == sorted([left, own.name])
        assert there() == [left] and psutil.pid_exists(other.pid)
        other.kill()
    with unfinished_folder(folder) as own:
        assert there() == [own.name]
    assert there() == []


def write_downloaded(samples: int) -> Path:
    raw = datasets_folder() / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        pictures, labels = raw / f"{part}-images-idx3-ubyte", raw / f"{part}-labels-idx1-ubyte"
        pictures.write_bytes(idx((samples, 28, 28), bytes(samples * 28 * 28)))
        labels.write_bytes(idx((samples,), bytes(range(samples))))
    return raw


def test_a_set_that_lies_there_is_read_and_a_damaged_one_named_with_its_folder() -> None:
    raw = write_downloaded(samples=6)
    train, test = read_dataset("fashion-mnist")
    assert is_downloaded("fashion-mnist") and train.inputs.shape == test.inputs.shape == (6, 1, 28, 28)
    halve(raw / "train-images-idx3-ubyte")
    problem = refusal(read_dataset, "fashion-mnist")
    assert "FashionMNIST" in problem.message and "damaged" in problem.message
    assert "Delete that folder" in problem.remedy


def test_a_damaged_file_of_cifar_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_cifar(tmp_path / "server", monkeypatch)
    list(download("cifar10", never))
    swap_a_byte(datasets_folder() / "cifar-10-batches-py" / "data_batch_1")
    with pytest.raises(ProblemError, match=r"cifar10.*damaged"):
        read_dataset("cifar10")


@pytest.mark.parametrize("name", sorted(SETS))
def test_each_set_is_described_as_torchvision_reads_it(name: str) -> None:
    pictures: Any = SETS[name]
    entry = next(entry for entry in dataset_entries() if entry.name == name)
    assert entry.needs_download and entry.channels == len(NORMALIZATIONS[name].deviation)
    assert all(len(archive.md5) == 32 and archive.urls for archive in pictures.archives())
