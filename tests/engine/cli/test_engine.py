"""`ammeter engine`: what is here, and setting it up, checking and removing it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.cli import engine as verbs
from engine.cli.app import main
from engine.installation.installed import installation_folder, mark_in_use
from tests.engine.installation.conftest import useful, write_wheels
from tests.installations import no_engine
from tests.wheel_index import Fault, OfficialIndexes

__all__ = ["no_engine"]

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def wheels(tmp_path: Path, no_engine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(verbs, "try_out", useful)
    write_wheels(tmp_path / "wheels")
    return tmp_path / "wheels"


def answer(capsys: Capture, *words: str, status: int = 0) -> dict[str, Any]:
    assert main(["engine", *words, "--json"]) == status
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def test_from_nothing_to_an_engine_and_back(capsys: Capture, wheels: Path, no_engine: Path) -> None:
    before = answer(capsys, "show")
    assert (before["state"], before["installation"], before["folder"]) == ("absent", None, str(no_engine))
    assert {"backend", "title", "why", "fits", "download_bytes"} == set(before["builds"][0])
    assert answer(capsys, "check", status=1)["error"]["kind"] == "no-engine"
    made = answer(capsys, "install", "--find-links", str(wheels))["installation"]
    assert (made["torch"], made["backend"]) == ("2.15.0", "cpu")
    assert len(list(wheels.iterdir())) == 2
    assert answer(capsys, "show")["installation"] == made
    assert answer(capsys, "check")["whole"]
    assert answer(capsys, "remove")["freed_bytes"] > made["size_bytes"]
    assert answer(capsys, "show")["state"] == "absent"


def test_removing_an_engine_in_use_says_that_its_files_stay(capsys, wheels, no_engine):
    name = answer(capsys, "install", "--find-links", str(wheels))["installation"]["name"]
    mark_in_use(installation_folder(no_engine, name))
    assert main(["engine", "remove"]) == 0
    assert "A worker still uses PyTorch" in capsys.readouterr().out
    assert answer(capsys, "show")["state"] == "absent"


def test_a_build_from_pypi_in_place_of_pytorchs_own_index_is_told(capsys, wheels, tmp_path, monkeypatch):
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with OfficialIndexes(wheels) as official:
        for name, value in official.environment(tmp_path).items():
            monkeypatch.setenv(name, value)
        official.order(Fault(path="/whl/", refuses=True))
        assert main(["engine", "install", "--backend", "cpu"]) == 0
    assert "cannot be reached. PyPI has the same build." in capsys.readouterr().err


@pytest.mark.usefixtures("wheels")
@pytest.mark.parametrize(
    ("options", "key"),
    [(["--backend", "cu999"], "backend"), (["--mirror", "http://127.0.0.1", "--find-links", "."], "mirror")],
)
def test_what_does_not_go_together_is_refused(capsys: Capture, options: list[str], key: str) -> None:
    assert answer(capsys, "install", *options, status=2)["error"]["key"] == key


def test_in_an_environment_with_torch_nothing_is_installed(capsys: Capture) -> None:
    assert answer(capsys, "show")["state"] == "own"
    assert "environment" in answer(capsys, "install", status=2)["error"]["message"]


@pytest.mark.usefixtures("no_engine")
def test_verbs_that_train_say_that_there_is_no_engine(capsys: Capture) -> None:
    assert main(["run", "--preset", "hello-amp", "--json"]) == 1
    problem = json.loads(capsys.readouterr().out)["error"]
    assert problem["kind"] == "no-engine"
    assert "ammeter engine install" in problem["remedy"]
