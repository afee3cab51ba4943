"""What a start does for an installation: its files are looked at once after each start of the machine."""

from __future__ import annotations

from pathlib import Path

from engine.installation.installed import engine_here, installation_folder
from gui.installation import setup
from gui.installation.setup import look_after
from tests.installations import put_installation


def test_files_are_looked_at_once_after_each_start_of_the_machine(no_engine, monkeypatch):
    packages = put_installation(no_engine)
    record = packages / "torch-2.11.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("torch/__init__.py,,0\n")
    assert look_after(engine_here()) is None
    (packages / "torch" / "__init__.py").write_text("damaged")
    assert look_after(engine_here()) is None
    monkeypatch.setattr(setup.psutil, "boot_time", lambda: 4e9)
    problem = look_after(engine_here())
    assert problem is not None and "torch/__init__.py is not whole" in problem.message


def test_an_installation_that_was_replaced_while_in_use_is_removed(no_engine: Path) -> None:
    put_installation(no_engine, "old")
    put_installation(no_engine, "new")
    look_after(engine_here())
    assert not installation_folder(no_engine, "old").exists()
    assert installation_folder(no_engine, "new").exists()
