"""The wheel that brings the program to another machine."""

from __future__ import annotations

import io
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np

from engine.machines.wheel import PYTHONS, REQUIREMENTS, program_id, program_wheel

ROOT = Path(__file__).parents[3]
OF_THE_WINDOW_AND_THE_ENGINE = {"torch", "torchvision", "PySide6-Essentials", "pyqtgraph"}


def test_it_needs_what_the_program_needs_but_neither_window_nor_torch():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {line.split(">")[0].split(";")[0].strip() for line in project["dependencies"]}
    assert names - OF_THE_WINDOW_AND_THE_ENGINE == set(REQUIREMENTS)
    assert project["requires-python"] == PYTHONS


def test_it_is_the_same_each_time_and_holds_what_it_records():
    wheel = program_wheel()
    assert program_wheel().content == wheel.content and wheel.id == program_id()
    with zipfile.ZipFile(io.BytesIO(wheel.content)) as archive:
        names = archive.namelist()
        info = next(name.split("/")[0] for name in names if name.endswith("/METADATA"))
        recorded = archive.read(f"{info}/RECORD").decode().splitlines()
        metadata = archive.read(f"{info}/METADATA").decode()
    assert sorted(line.split(",")[0] for line in recorded) == sorted(names)
    assert f"Requires-Dist: numpy=={np.__version__}" in metadata
    assert not [name for name in names if "__pycache__" in name or "screenshots" in name]
    assert "engine/worker/__main__.py" in names and "resources/fashion/fashion.npz" in names


def test_its_command_line_runs_without_a_clone(tmp_path):
    with zipfile.ZipFile(io.BytesIO(program_wheel().content)) as archive:
        archive.extractall(tmp_path)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import engine; print(engine.__file__); "
    code += "from engine.cli import main; sys.exit(main(['presets', '--json']))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path)) and '"fashion"' in done.stdout
