"""Installing the engine: whole or not at all, and never before it has trained a step."""

from __future__ import annotations

import json
from pathlib import Path

from engine.installation.events import Fetched, Installed, Planned, Stage, StageBegan, Unpacked
from engine.installation.installer import Installer
from engine.installation.place import CURRENT
from engine.installation.wanted import Wanted
from tests.engine.installation.conftest import events_of, useful


def test_an_installation_goes_through_its_stages(engines: Path, wanted: Wanted) -> None:
    events = events_of(engines, wanted)
    assert [event.stage for event in events if isinstance(event, StageBegan)] == list(Stage)
    last = events[-1]
    print([e for e in events])
    assert isinstance(last, Installed)
    print(sorted(p for p in engines.rglob("*")))
