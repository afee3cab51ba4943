"""Machines without torch in the program's environment, with or without an installation of the engine."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.installation import installed
from engine.installation.installed import (
    CURRENT,
    MANIFEST,
    PACKAGES,
    Current,
    Installation,
    installation_folder,
    platform_here,
    python_here,
)


@pytest.fixture
def no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hides the environment's torch from this process, its workers excepted; the empty engines' folder."""
    folder = tmp_path / "engine"
    monkeypatch.setenv("AMMETER_ENGINE", str(folder))
    monkeypatch.setattr(installed, "has_own_torch", lambda: False)
    return folder


def put_installation(folder: Path, name: str = "first", *, python: str | None = None) -> Path:
    """Puts an installation without content into use; its packages. A worker finds the environment's torch."""
    place = installation_folder(folder, name)
    packages = place / PACKAGES
    (packages / "torch").mkdir(parents=True)
    (packages / "torch" / "__init__.py").touch()
    made = Installation(
        name=name,
        torch="2.11.0",
        backend="cpu",
        python=python or python_here(),
        platform=platform_here(),
        packages={"torch": "2.11.0"},
        files=1,
        size_bytes=0,
        made=time.time(),
    )
    (place / MANIFEST).write_text(made.model_dump_json())
    (folder / CURRENT).write_text(Current(name=name).model_dump_json())
    return packages
