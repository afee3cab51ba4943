"""The engine of another machine, through a real sshd: set up in an empty home, changed, checked, removed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cli.app import main
from engine.experiment.problem import ProblemError
from engine.installation.request import InstallEvent, InstallRequest, Source, Stage, StageBegan
from engine.machines import program
from engine.machines.machine import Machine, Machines
from engine.machines.program import RemoteInstaller, program_id
from tests.engine.machines.index import write_index
from tests.remote import RemoteMachine
from tests.wheel_index import WheelIndex, stand_in_wheel


@pytest.fixture
def index(tmp_path: Path) -> Iterator[WheelIndex]:
    write_index(tmp_path / "wheels")
    with WheelIndex(tmp_path / "wheels") as index:
        yield index


def answer(capsys: pytest.CaptureFixture[str], *verb: str) -> tuple[int, dict[str, object]]:
    status = main([*verb, "--machine", "far", "--json"])
    return status, json.loads(capsys.readouterr().out)


def installed(machine: Machine, wanted: InstallRequest) -> list[Stage]:
    events: list[InstallEvent] = list(RemoteInstaller(machine).install(wanted))
    return [event.stage for event in events if isinstance(event, StageBegan)]


def send(place: Path, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the program there a second time, as one of another version; to install it again takes long."""
    programs = place / "program"
    shutil.copytree((programs / "current").resolve(), programs / new, symlinks=True, copy_function=os.link)
    monkeypatch.setattr(program, "program_id", lambda: new)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_an_empty_home_gets_program_and_engine_and_loses_them_again(
    far: RemoteMachine, index, capsys, monkeypatch
):
    home = far.home.parent / "empty"
    home.mkdir()
    (home / "thesis.tex").touch()
    machine, place = far.machine.model_copy(update={"folder": f"{home}/.ammeter"}), home / ".ammeter"
    Machines().put(machine)
    status, shown = answer(capsys, "engine", "show")
    assert status == 2 and "engine install --machine far" in shown["error"]["remedy"]

    status, made = answer(capsys, "engine", "install", "--backend", "cpu", "--mirror", index.simple)
    assert status == 0, made
    assert made["installation"]["torch"] == "2.99.0" and made["folder"] == f"{place}/engine on far"
    assert Machines().find("far").program == program_id()
    assert {each.name for each in home.iterdir()} == {"thesis.tex", ".ammeter"}
    assert place.stat().st_mode & 0o077 == 0

    # another program, which an earlier attempt has sent, is tried with the engine there
    mirror = Source(mirror=index.simple)
    send(place, "0" * 12, monkeypatch)
    assert installed(machine, InstallRequest(source=mirror)) == [Stage.SENDING, Stage.TRYING]
    assert {each.name for each in (place / "program").iterdir()} == {"current", "0" * 12}

    # one that does not train a step is not put to use
    stand_in_wheel(index.folder, "torch", "2.100.0", {"torch/__init__.py": "raise ImportError('no libcuda')"})
    send(place, "1" * 12, monkeypatch)
    with pytest.raises(ProblemError, match="does not train here: no libcuda"):
        installed(machine, InstallRequest("cpu", mirror))
    assert (place / "program" / "current").readlink() == Path("0" * 12)

    assert answer(capsys, "engine", "check") == (0, {"state": "ready", "whole": True})
    assert answer(capsys, "engine", "remove") == (0, {"removed": "far"})
    assert {each.name for each in home.iterdir()} == {"thesis.tex"}
