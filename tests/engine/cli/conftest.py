"""The command line as the tests call it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from engine.cli import main
from engine.experiment.paths import store_path
from engine.store.store import Store

Answer = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Answer:
    """Calls a verb; its exit status and the one JSON object on stdout."""

    def call(*arguments: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        status = main([*arguments, "--json"])
        out = capsys.readouterr().out
        assert out.count("\n") == 1
        return status, json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    return call


def _saved() -> list[str]:
    if not store_path().exists():
        return []
    with Store() as store:
        return [each.id for each in (*store.runs(), *store.sweeps.newest(), *store.studies.newest())]


@pytest.fixture
def refused(answer: Answer) -> Callable[..., dict[str, Any]]:
    """Calls a verb that refuses its request and leaves nothing behind; the error."""

    def call(*arguments: str) -> dict[str, Any]:
        before = _saved()
        status, found = answer(*arguments)
        assert status == 2 and set(found) == {"error"}
        assert set(found["error"]) == {"kind", "message", "remedy", "key", "value", "allowed"}
        assert _saved() == before
        return dict(found["error"])

    return call
