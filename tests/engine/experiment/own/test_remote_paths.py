"""Windows sends a hash of the user's password to a machine whose path is looked for: unasked, none is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.checks import look_up
from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code
from engine.experiment.own.folders import exists_here
from engine.experiment.own.trust import TrustedCode
from engine.experiment.paths import is_remote
from engine.experiment.problem import ProblemError
from engine.training.data.datasets import dataset_entries
from engine.training.models.own import OwnFile

REMOTE = [
    "\\\\host\\share",
    "//host/share",
    "/\\host\\share",
    "\\\\?\\UNC\\host\\share",
    "\\??\\UNC\\host\\share",
]
REMOTE += [
    "\\\\.\\pipe\\x",
    "\\\\?\\GLOBALROOT\\Device\\Mup\\host\\x",
    " //host/share",
    "\\\\host@SSL\\DavWWWRoot",
]
LOOKS = ("stat", "lstat", "open", "chdir", "scandir", "listdir", "readlink")


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The remote paths that the system was asked for."""
    found: list[str] = []

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def look(path: Any = ".", *arguments: Any, **named: Any) -> Any:
            if isinstance(path, str | os.PathLike) and is_remote(os.fspath(path)):
                found.append(str(path))
            return real(path, *arguments, **named)

        return look

    for name in LOOKS:
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    return found


@pytest.mark.parametrize("path", REMOTE)
def test_a_remote_path_is_known_by_how_it_begins(path: str) -> None:
    assert is_remote(path) and not TrustedCode().may_look(path)


@pytest.mark.parametrize("path", ["/home/me", "C:\\me", "me/x", "~/x", "\\me", "C:/x//y", ""])
def test_a_path_of_this_machine_is_none(path: str) -> None:
    assert not is_remote(path) and TrustedCode().may_look(path)


@pytest.mark.parametrize("path", REMOTE)
@pytest.mark.parametrize("dataset", ["image-folder", "text-folder", "arrays"])
def test_data_of_a_run_from_elsewhere_is_not_looked_for(path: str, dataset: str, looked: list[str]) -> None:
    experiment = Experiment(dataset=dataset, path=path)
    (entry,) = (entry for entry in dataset_entries() if entry.name == dataset)
    (problem,) = look_up(experiment, entry).problems
    assert "on a remote machine" in problem.message and "To use it, type or select" in problem.remedy
    assert not exists_here(path) and looked == []


def test_data_that_the_user_names_is(tmp_path: Path, looked: list[str]) -> None:
    path = f"/{tmp_path}"
    assert not exists_here(path) and looked == []
    TrustedCode().name_path(path)
    assert exists_here(path) and looked
    # in any program of this user, a worker's too
    assert TrustedCode().may_look(f" {path}/")


@pytest.mark.parametrize("folder", ["//host/share", "\\\\host\\share"])
def test_nor_is_the_file_or_the_folder_of_its_code(folder: str, looked: list[str]) -> None:
    code = Code(file="net.py", folder=folder, text="import planted\n")
    with pytest.raises(ProblemError, match="is on a remote machine"):
        TrustedCode().reread(code)
    trusted, before = TrustedCode(), Path.cwd()
    trusted.add(code)
    with pytest.raises(ModuleNotFoundError):
        OwnFile(code, None, 0)
    assert looked == [] and Path.cwd() == before
