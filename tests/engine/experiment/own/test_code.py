"""Kept code is refused at the border where one of its names would lead anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code, code_from, read_code, remote_problem, with_code
from engine.experiment.problem import ProblemError

KEPT: dict[str, Any] = {"file": "net.py", "folder": "/there", "text": "def model(): ...\n"}


@pytest.mark.parametrize(
    "name",
    [
        "", ".py", "/", "/etc/layers.py", "../layers.py", "a/../layers.py", "./layers.py", "a//layers.py",
        "a\\layers.py", "..\\layers.py", "\\\\host\\share\\layers.py", "C:layers.py", "C:\\layers.py",
        "C:/layers.py", "layers.py\0", "lay\0ers.py", "layers", "layers.so", "layers.py\n", "a b.py",
    ],
)  # fmt: skip
def test_a_module_has_a_name_that_an_import_gives(name: str) -> None:
    with pytest.raises(ValidationError, match="no import gives"):
        Code(**KEPT, beside={name: "WIDTH = 8\n"})
    kept = Code(**KEPT).model_copy(update={"beside": {name: "WIDTH = 8\n"}})
    with pytest.raises(ProblemError, match="cannot be used"):
        Experiment.from_json(Experiment().model_copy(update={"code": kept.to_json()}).to_json())


@pytest.mark.parametrize("name", ["layers.py", "parts/__init__.py", "parts/größe.py"])
def test_modules_and_packages_are_kept(name: str) -> None:
    kept = Code(**KEPT, beside={name: "WIDTH = 8\n"})
    assert code_from(kept.to_json()) == kept


@pytest.mark.parametrize(
    "file",
    ["C:net.py", "a\\net.py", "a/net.py", "net\0.py", "net.py\n", "..\\net.py", "a\nb.py", "a\u202eb.py"],
)
def test_the_file_has_the_name_of_a_file(file: str) -> None:
    with pytest.raises(ValidationError):
        Code(**{**KEPT, "file": file})


@pytest.mark.parametrize("folder", ["", ".", "models", "../models", "C:models", "/there\0"])
def test_its_folder_is_a_whole_path(folder: str) -> None:
    with pytest.raises(ValidationError, match="no whole path"):
        Code(**{**KEPT, "folder": folder})


@pytest.mark.parametrize("folder", ["/there", "C:\\there", "\\\\host\\share"])
def test_which_may_be_that_of_another_system(folder: str) -> None:
    assert Code(**{**KEPT, "folder": folder}).folder == folder


def test_a_file_whose_name_cannot_be_kept_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "NET.PY").write_text(KEPT["text"])
    with pytest.raises(ProblemError, match="has a name that cannot be kept"):
        read_code(tmp_path / "NET.PY")


def test_a_path_to_another_machine_is_known_by_how_it_begins() -> None:
    for path in (
        "//host/share/net.py",
        "\\\\host\\share\\net.py",
        "/\\host/net.py",
        "\\\\?\\UNC\\host\\net.py",
    ):
        assert remote_problem(path) is not None, path
    for path in ("/home/me/net.py", "C:\\me\\net.py", "net.py", "~/net.py"):
        assert remote_problem(path) is None, path


@pytest.mark.parametrize("code", [None, Code(**KEPT).to_json()])
def test_another_machine_is_not_asked_for_a_file_that_settings_name(code, monkeypatch):
    monkeypatch.setattr(Path, "exists", lambda path: pytest.fail(f"looked for {path}"))
    with pytest.raises(ProblemError, match="lies on another machine"):
        with_code({"model": "//host/x.py", "code": code}, names_model=True, names_dataset=False)
