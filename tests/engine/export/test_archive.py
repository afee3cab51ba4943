"""An archive as the command line writes and reads it; what is in it, tests/engine/archives looks at."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.cli.app import main
from engine.export.content import content_of
from engine.export.formats import COMPARISON
from engine.store.store import Store

Fill = Callable[[Store], None]


@pytest.fixture
def archive(tmp_path: Path, fill: Fill) -> Path:
    """Five runs of another machine."""
    with Store(tmp_path / "there" / "ammeter.sqlite") as store:
        fill(store)
        return COMPARISON.export(
            content_of(store, [run.id for run in store.runs()]), tmp_path / "runs.ammeter"
        )


def test_import_says_what_came_and_what_was_here(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for _ in range(2):
        assert main(["import", str(archive), "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert [len(each["imported"]) for each in told] == [5, 0]
    assert [len(each["already_here"]) for each in told] == [0, 5]
    assert {run["id"] for run in told[0]["imported"]} == {run["id"] for run in told[1]["already_here"]}
    with Store() as store:
        assert [run.id for run in reversed(store.runs())] == [run["id"] for run in told[0]["imported"]]
