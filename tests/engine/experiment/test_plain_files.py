"""Whatever lies where a file belongs, such as a named pipe, is refused in a sentence and waits for nobody."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.own.array_files import read_headers
from engine.experiment.own.code import Code, read_code
from engine.experiment.own.folders import text_files
from engine.experiment.own.trust import TrustedCode
from engine.experiment.paths import machines_path, plain_file, read_file, trust_path
from engine.experiment.presets import broken_presets, own_presets_folder, read_toml
from engine.experiment.problem import ProblemError
from engine.export.archive.reader import read_archive
from engine.installation.installed import current_name, is_in_use, sole
from engine.machines.machine import Machines
from engine.store.saved.forecasts import Forecasts
from engine.store.store import Store
from engine.training.data.image_folder import _example, _has_head, _is_whole
from gui.window.remembered import Settings


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _pipe_by_link(path: Path) -> None:
    os.mkfifo(path.with_name(f"other {path.name}"))
    path.symlink_to(f"other {path.name}")


@pytest.fixture(params=[_pipe, _device, Path.mkdir, _pipe_by_link])
def put(request: pytest.FixtureRequest) -> Callable[[Path], Path]:
    def put(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        request.param(path)
        return path

    return put


Put = Callable[[Path], Path]
pytestmark = pytest.mark.timeout(30)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREAT])
def test_it_is_not_opened(put: Put, tmp_path: Path, flags: int) -> None:
    with pytest.raises(OSError, match=r"it is a (folder|pipe or a device)"):
        plain_file(put(tmp_path / "x"), flags)


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    assert read_file(tmp_path / "x", 5) == b"12345"
    with pytest.raises(OSError, match="it is larger than"):
        read_file(tmp_path / "x", 4)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("net.py", read_code),
        ("x.toml", read_toml),
        ("x.ammeter", read_archive),
        ("x.npz", read_headers),
        ("machines.toml", lambda path: Machines(path).all()),
    ],
)
def test_it_is_told_in_a_sentence(put: Put, tmp_path: Path, name: str, read: Callable[[Path], Any]) -> None:
    with pytest.raises(ProblemError) as caught:
        read(put(tmp_path / name))
    assert "Errno" not in caught.value.problem.message and name in caught.value.problem.message


def test_nothing_that_is_read_at_the_start_waits(put: Put, tmp_path: Path, home: Path) -> None:
    put(own_presets_folder() / "x.toml")
    assert broken_presets()
    put(trust_path())
    trusted, code = TrustedCode(), Code(file="net.py", folder="/there", text="x = 1\n")
    assert not trusted.has(code)
    trusted.add(code)
    assert trusted.has(code) and not TrustedCode().has(code)
    put(machines_path())
    with pytest.raises(ProblemError):
        Machines().all()
    Settings(put(tmp_path / "window.json")).save()
    put(tmp_path / "engine" / "current.json")
    with pytest.raises(OSError, match="it is a"):
        current_name(tmp_path / "engine")


def test_nor_does_what_is_read_of_data(put: Put, tmp_path: Path) -> None:
    picture = str(put(tmp_path / "data" / "a.jpg"))
    assert not _has_head(picture) and not _is_whole(picture) and _example(picture) is None
    put(tmp_path / "text" / "a.txt")
    assert list(text_files(tmp_path / "text")) == []


def test_nor_does_what_is_locked_or_kept(put: Put, tmp_path: Path) -> None:
    put(tmp_path / "engine" / "lock")
    with pytest.raises(ProblemError), sole(tmp_path / "engine"):
        pass
    put(tmp_path / "engine" / "in use")
    is_in_use(tmp_path / "engine")
    put(tmp_path / "store" / "ammeter.sqlite")
    with suppress(ProblemError), Store(tmp_path / "store" / "ammeter.sqlite") as store:
        assert not store.runs()
    forecasts = Forecasts(tmp_path / "forecasts")
    put(forecasts._path)
    forecasts._read()
