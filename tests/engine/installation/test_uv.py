"""uv's failures, provoked, and the sentences that they become."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import psutil
import pytest

from engine.experiment.problem import ProblemError
from engine.installation.control import Stopped
from engine.installation.request import Source
from engine.installation.uv import find_uv, run_uv
from tests.wheel_index import Fault, OfficialIndexes, WheelIndex, stand_in_wheel


@pytest.fixture(autouse=True)
def no_second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    stand_in_wheel(folder, "torch", "2.9.0")
    return folder


OFFICIAL = Source()


def compiles(*options: str, source: Source = OFFICIAL, text: str = "torch>=2.11") -> str:
    return run_uv(["pip", "compile", "-", *options], source, text=text)


def problem(*options: str, source: Source = OFFICIAL, text: str = "torch>=2.11") -> str:
    """The sentence with which uv fails."""
    with pytest.raises(ProblemError) as failed:
        compiles(*options, source=source, text=text)
    assert failed.value.problem.remedy
    assert failed.value.detail, "uv's own words are kept"
    return failed.value.problem.message


def from_mirror(address: str, text: str = "torch>=2.11") -> str:
    return problem("--default-index", address, source=Source(mirror=address), text=text)


def test_failures_of_a_mirror(wheels: Path) -> None:
    assert from_mirror("http://nowhere.invalid/simple") == "nowhere.invalid cannot be reached."
    with WheelIndex(wheels) as index:
        missing = from_mirror(index.simple, "nothing-like-it")
        assert missing == "The package nothing-like-it is not in the mirror 127.0.0.1."
        too_old = from_mirror(index.simple)
        assert too_old.startswith("No build of PyTorch in the mirror 127.0.0.1 fits Python ")
        assert "only torch==2.9.0 is available" in too_old
        index.order(Fault(path="/simple/", status=403))
        assert from_mirror(index.simple) == "127.0.0.1 denied access (HTTP 403)."
        index.mend()
        index.order(Fault(path="/simple/", status=500))
        assert from_mirror(index.simple) == "127.0.0.1 answered with HTTP 500."
        address = index.simple
    assert from_mirror(address) == "127.0.0.1 cannot be reached."


def test_failures_of_a_proxy(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with OfficialIndexes(wheels) as official:
        for name, value in official.environment(tmp_path).items():
            monkeypatch.setenv(name, value)
        assert "torch==2.9.0" in compiles(text="torch")
        official.is_trusted = False
        assert re.fullmatch(
            r"The certificate of [a-z.]+ is not trusted, so nothing was downloaded.", problem()
        )
        official.needs_password = True
        assert problem() == "The proxy requires a name and a password (HTTP 407)."
        official.needs_password = False
        monkeypatch.setattr(official, "tls", lambda host: None)
        assert re.fullmatch(r"The proxy does not connect to [a-z.]+\.", problem())
    assert problem() == "127.0.0.1 cannot be reached.", "the proxy is gone"


def test_failures_of_a_folder(tmp_path: Path) -> None:
    source = Source(folder=tmp_path / "gone")
    options = ("--no-index", "--find-links", str(source.folder))
    assert problem(*options, source=source) == f"The folder of wheels {source.folder} cannot be read."


def test_a_disk_that_cannot_be_written(wheels: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    target = tmp_path / "file" / "packages"
    with pytest.raises(ProblemError) as failed:
        run_uv(
            ["pip", "install", "--no-index", "--target", str(target), *map(str, wheels.glob("*"))],
            cache=tmp_path / "cache",
        )
    assert "cannot be written" in failed.value.problem.message


def test_uv_is_named_or_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_uv().name.startswith("uv")
    monkeypatch.setenv("AMMETER_UV", str(tmp_path / "uv"))
    with pytest.raises(ProblemError, match=r"uv, which installs PyTorch, does not start: No such file"):
        compiles()
    monkeypatch.delenv("AMMETER_UV")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProblemError, match=r"uv, which installs PyTorch, is missing"):
        compiles()


def test_settings_that_lie_around_do_not_count(wheels, tmp_path, monkeypatch):
    (tmp_path / "uv.toml").write_text('index-url = "http://nowhere.invalid/simple"\n')
    monkeypatch.chdir(tmp_path)
    for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX"):
        monkeypatch.setenv(name, "http://nowhere.invalid/simple")
    monkeypatch.setenv("UV_CONSTRAINT", str(tmp_path / "gone"))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    assert "torch==2.9.0" in compiles("--no-index", "--find-links", str(wheels), text="torch")


def test_uv_ends_when_it_is_stopped(wheels: Path) -> None:
    with WheelIndex(wheels) as index:
        held = index.order(Fault(path="/simple/", held=threading.Event()))
        with pytest.raises(Stopped):
            run_uv(
                ["pip", "compile", "-", "--default-index", index.simple],
                text="torch",
                is_stopped=lambda: any(request.path.startswith("/simple/") for request in index.requests),
            )
        assert held.held is not None and not held.held.is_set()
    names = [child.name() for child in psutil.Process().children(recursive=True)]
    assert not any(name.startswith("uv") for name in names)
