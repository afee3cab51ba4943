"""What brings the program to another machine."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import numpy as np

from engine.machines.program import PYTHONS, REQUIREMENTS, program_archive

ROOT = Path(__file__).parents[3]
OF_THE_WINDOW_AND_THE_ENGINE = {"torch", "torchvision", "PySide6-Essentials", "pyqtgraph", "markdown-it-py"}


def test_it_needs_what_the_program_needs_but_neither_window_nor_torch():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {line.split(">")[0].split(";")[0].strip() for line in project["dependencies"]}
    assert names - OF_THE_WINDOW_AND_THE_ENGINE == set(REQUIREMENTS)
    assert project["requires-python"] == PYTHONS


def test_its_command_line_runs_without_a_clone(tmp_path):
    with tarfile.open(fileobj=io.BytesIO(program_archive("sent", b"\x7fELF"))) as archive:
        names = archive.getnames()
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "sent"
    assert names[-1] == f"{folder.name}/whole" and {name.split("/")[0] for name in names} == {folder.name}
    assert not [name for name in names if "__pycache__" in name or "screenshots" in name]
    assert f"numpy=={np.__version__}\n" in (folder / "requirements.txt").read_text()
    assert (folder / "uv").stat().st_mode & 0o777 == 0o700
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import engine; print(engine.__file__); "
    code += "from engine.cli.app import main; sys.exit(main(['presets', '--json']))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(folder)) and '"fashion"' in done.stdout
