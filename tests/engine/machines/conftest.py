"""Another machine that is a folder of this one: its line runs a shell here, whose home is that folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.machines.machine import Machine
from engine.machines.program import program_id
from engine.machines.ssh import SshConnection


class NearLine(SshConnection):
    """`chatter` is what the login there prints before anything else."""

    def __init__(self, home: Path, machine: Machine | None = None, chatter: str = "") -> None:
        super().__init__(machine or Machine(name="Far", host="far.example"))
        self.home, self.chatter = home, chatter
        self.asked: list[tuple[str, ...]] = []

    def command(self, words: Sequence[str]) -> list[str]:
        super().command(words)
        self.asked.append(tuple(words))
        script = f"printf '{self.chatter}'; exec {' '.join(words)}"
        return ["env", f"HOME={self.home}", "sh", "-c", script]


@pytest.fixture(autouse=True)
def own_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of machines is none that a person or another test has."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of the user there."""
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def near_line(home: Path) -> Callable[..., NearLine]:
    return lambda **how: NearLine(home, **how)


def put_python(home: Path, *lines: str) -> None:
    """A program there that writes these lines, whatever it is asked, and the state of an engine."""
    place = home / ".ammeter" / "program" / program_id() / "bin"
    place.mkdir(parents=True)
    shown = {"state": "absent", "folder": "/e", "builds": []}
    shown["hardware"] = {"system": "linux", "machine": "x86_64", "processor": ""}
    written = "".join(f"cat <<'END'\n{line}\nEND\n" for line in lines)
    cases = f"*show*) echo '{json.dumps(shown)}';; *) {{\nread first\n{written}}};;"
    (place / "python").write_text(f'#!/bin/sh\ncase "$*" in {cases} esac\n')
    (place / "python").chmod(0o700)
    (place / "uv").write_text("")
    (place / "uv").chmod(0o700)
    (place.parents[1] / "current").symlink_to(program_id())
