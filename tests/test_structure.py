"""What ARCHITECTURE.md and CONTRIBUTING.md say of the code is true."""

from __future__ import annotations

import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
STILL_CHECKS_TYPES = ("gui/train",)


def test_only_what_belongs_there_is_at_the_top() -> None:
    files = subprocess.run(("git", "ls-files"), cwd=ROOT, capture_output=True, text=True, check=True).stdout
    documents = {"README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE"}
    folders = {"gui", "engine", "resources", "tests", "packaging", ".ci", ".github"}
    allowed = folders | documents | {"pyproject.toml", ".gitignore"}
    assert {name.split("/")[0] for name in files.splitlines()} <= allowed


def test_the_pictures_of_the_code_are_those_of_its_imports() -> None:
    command = (sys.executable, ROOT / "packaging" / "structure.py", "--check")
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert outcome.returncode == 0, f"run packaging/structure.py; {outcome.stderr}"


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_each_file_that_is_named_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:gui|engine|resources|tests|packaging)(?:/[\w.-]+)+)`", text)
    assert named
    assert not [name for name in named if not (ROOT / name).exists()]


@pytest.mark.parametrize("root", ["engine", "gui"])
def test_no_modules_import_each_other_in_a_circle(root: str) -> None:
    # also not within a function, or for the type checker only
    graph = grimp.build_graph(root, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_the_window_imports_nothing_for_the_type_checker_only() -> None:
    files = (path.relative_to(ROOT).as_posix() for path in (ROOT / "gui").rglob("*.py"))
    blocks = [name for name in files if "TYPE_CHECKING" in (ROOT / name).read_text(encoding="utf-8")]
    assert not [name for name in blocks if not name.startswith(STILL_CHECKS_TYPES)]
