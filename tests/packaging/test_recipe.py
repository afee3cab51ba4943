"""The parts of the recipe that need no build: an interpreter's copy, and equal bytes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from recipe.interpreter import copy_interpreter
from recipe.source import RecipeError, Target, settle

LIBRARY = "lib/python3.12"


def target(python: Path) -> Target:
    return Target("macos", "macos", "arm64", python)


def interpreter(folder: Path) -> Path:
    """The files of an interpreter that matter to its copy."""
    files = ("bin/python3.12", "bin/pip", "include/python3.12/Python.h", "lib/libpython3.12.a")
    library = (
        "os.py",
        "test/test_os.py",
        "tkinter/__init__.py",
        "unittest/case.py",
        "site-packages/pip/__init__.py",
    )
    for name in (*files, *(f"{LIBRARY}/{each}" for each in library), f"{LIBRARY}/lib-dynload/readline.so"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n")
    (folder / LIBRARY / "_sysconfigdata_.py").write_text(f"prefix = '{folder}'\n")
    return folder


def test_a_copied_interpreter_has_what_torch_needs_and_no_more(tmp_path: Path) -> None:
    source = interpreter(tmp_path / "python")
    copy_interpreter(target(source), tmp_path / "tree")
    copied = {str(path.relative_to(tmp_path / "tree/python")) for path in (tmp_path / "tree").rglob("*.*")}
    assert {"bin/python3.12", "include/python3.12/Python.h", f"{LIBRARY}/os.py"} <= copied
    assert f"{LIBRARY}/unittest/case.py" in copied
    left_out = ("bin/pip", "/test/", "tkinter", "readline.so", "site-packages", "libpython3.12.a")
    assert not [name for name in copied if any(word in name for word in left_out)]
    assert str(source) not in (tmp_path / "tree/python" / LIBRARY / "_sysconfigdata_.py").read_text()


def test_the_systems_own_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="--managed-python"):
        copy_interpreter(target(Path("/usr")), tmp_path / "tree")


def test_a_folder_without_an_interpreter_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=str(tmp_path)):
        _ = target(tmp_path).python_version


def test_two_folders_that_were_made_at_other_times_pack_to_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    packed = []
    for name, mode in (("first", 0o600), ("second", 0o664)):
        folder = tmp_path / name
        (folder / "sub").mkdir(parents=True)
        for file in ("b", "a", "sub/c") if name == "first" else ("sub/c", "a", "b"):
            (folder / file).write_text(file)
            (folder / file).chmod(mode)
        settle(folder)
        command = ["tar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-c", "."]
        packed.append(subprocess.run(command, cwd=folder, capture_output=True, check=True, timeout=30).stdout)
    assert packed[0] == packed[1]
