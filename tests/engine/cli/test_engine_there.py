"""The engine of another machine, through a real sshd: set up in an empty folder, shown, checked, removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cli import main
from engine.machines.bundle import program_id
from engine.machines.machine import Machines
from tests.engine.machines.index import write_index
from tests.far import FarMachine
from tests.wheel_index import WheelIndex


@pytest.fixture
def index(tmp_path: Path) -> Iterator[WheelIndex]:
    write_index(tmp_path / "wheels")
    with WheelIndex(tmp_path / "wheels") as index:
        yield index


def answer(capsys: pytest.CaptureFixture[str], *verb: str) -> tuple[int, dict[str, object]]:
    status = main([*verb, "--machine", "far", "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_it_is_set_up_in_an_empty_folder_shown_checked_and_removed(far: FarMachine, index, capsys):
    empty = far.home.parent / "empty"
    machine = far.machine.model_copy(update={"folder": str(empty)})
    Machines().put(machine)
    status, shown = answer(capsys, "engine", "show")
    assert status == 2 and "engine install --machine far" in shown["error"]["remedy"]

    status, installed = answer(capsys, "engine", "install", "--backend", "cpu", "--mirror", index.simple)
    assert status == 0, installed
    assert installed["installation"]["torch"] == "2.99.0" and installed["folder"] == f"{empty}/engine on far"
    assert Machines().find("far").program == program_id()

    status, shown = answer(capsys, "engine", "show")
    assert status == 0 and shown["state"] == "ready" and shown["folder"] == f"{empty}/engine"
    assert answer(capsys, "engine", "check", "--train") == (0, {"state": "ready", "whole": True})
    assert answer(capsys, "doctor")[0] in (0, 1)
    assert answer(capsys, "engine", "remove") == (0, {"removed": "far"})
    assert not empty.exists()
