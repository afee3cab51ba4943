"""The verb `tune`: what it prints and saves, how it is carried on, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.cli import main
from engine.store.store import Store

Capture = pytest.CaptureFixture[str]

TINY = ["--model", "small-cnn", "--dataset", "synthetic", "--image-size", "8", "--device", "cpu"]
TINY += ["--batch-size", "8", "--set", "num_classes=4", "--set", "samples=64", "--steps", "60"]
HERE = ["--target", "thread"]


def answer(capsys: Capture, *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["tune", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_a_tiny_search_is_saved_exported_and_printed(capsys, tmp_path, monkeypatch):
    for module, name in (("halving", "SHORT"), ("halving", "LONG"), ("driver", "SHORT")):
        monkeypatch.setattr(f"engine.tune.{module}.{name}", 0.01)
    to = tmp_path / "x.html"
    options = ["--change", "precision", "--repeats", "2", "--to", str(to)]
    status, found = answer(capsys, *TINY, *options, *HERE)
    assert status == 0 and found["phase"] == "over"
    assert found["experiment"]["precision"] == "fp32" and found["runs"] >= len(found["trials"])
    assert found["command"].startswith("ammeter run --set") and found["sentences"]
    assert any("recipes were not to be tried" in sentence for sentence in found["not_tried"])
    with Store() as store:
        (saved,) = store.studies.newest("tune")
    assert saved.id == found["id"] and saved.is_over
    assert "The fastest settings of small-cnn" in to.read_text(encoding="utf-8")
    status, refused = answer(capsys, "--carry-on", saved.id, *HERE)
    assert status == 2 and "is over" in refused["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--change", "colour"], "no kind of change"),
        (["--guard", "some"], "alike or none"),
        (["--time-limit", "soon"], "--time-limit is 'soon'"),
        (["--carry-on", "beef"], "no run, sweep or study whose id starts with 'beef'"),
        (["--carry-on", "beef", "--model", "linear"], "takes no others"),
        (["--to", "x.docx"], "is no format of"),
        (["--batch-size", "0"], "Batch size"),
        ([*TINY, "--set", "batch_size=65"], "has 64 samples"),
    ],
)
def test_a_wrong_request_leaves_nothing_behind(capsys: Capture, arguments: list[str], said: str) -> None:
    status, found = answer(capsys, *arguments, *HERE)
    assert status == 2 and said in found["error"]["message"]
    with Store() as store:
        assert store.studies.newest() == ()
