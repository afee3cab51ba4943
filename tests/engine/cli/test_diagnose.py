"""The verb `diagnose`: what it refuses, and what it prints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.cli import main
from engine.store.store import Store

Capture = pytest.CaptureFixture[str]


def answer(capsys: Capture, *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["diagnose", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--run", "beef"], "There is no run whose id starts with 'beef'"),
        (["--run", "beef", "--model", "small-cnn"], "--run takes no others"),
        (["--precision", "fp17"], "Precision is 'fp17'"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_starts(
    capsys: Capture, arguments: list[str], said: str
) -> None:
    status, found = answer(capsys, *arguments)
    assert status == 2 and said in found["error"]["message"]
    with Store() as store:
        assert store.diagnoses.newest() == ()
