"""The verb `profile`: what it prints, saves and writes, and what it refuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from engine.cli import main
from engine.store.store import Store

Capture = pytest.CaptureFixture[str]

TINY = ["--model", "small-cnn", "--dataset", "synthetic", "--image-size", "8", "--device", "cpu"]
TINY += ["--batch-size", "8", "--set", "num_classes=4", "--set", "samples=64"]
HERE = ["--target", "thread"]


def answer(capsys: Capture, *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["profile", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_sides_are_one_object_saved_and_exported_with_their_traces(capsys: Capture, tmp_path: Path) -> None:
    to, trace = tmp_path / "x.html", tmp_path / "x.json.gz"
    status, found = answer(capsys, *TINY, "--to", str(to), "--trace", str(trace), *HERE)
    assert status == 0
    assert [side["experiment"]["precision"] for side in found["sides"]] == ["fp32", "bf16"]
    first, second = (side["profile"] for side in found["sides"])
    assert first["step_ms"] > 0 and second["limits"] == first["limits"] is not None
    assert found["sides"][1]["gain"]["sentence"]
    with Store() as store:
        (entry,) = store.studies.newest("profile")
        measured = store.studies.find(entry.id).answer.measured()
    assert entry.id == found["id"] and len(measured) == 2
    assert "Where the time of small-cnn goes" in to.read_text(encoding="utf-8")
    for path in (trace, tmp_path / "x-2.json.gz"):
        assert json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


@pytest.mark.slow
def test_a_run_is_profiled_with_its_own_settings_and_printed_for_people(capsys: Capture) -> None:
    settings = [*TINY, "--steps", "3", "--seed", "7"]
    assert main(["run", *settings, "--json", *HERE]) == 0
    run = json.loads(capsys.readouterr().out)
    assert main(["profile", "--run", run["id"][:6], *HERE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Where the time goes" and any(line.startswith("A step ") for line in lines)
    with Store() as store:
        (entry,) = store.studies.newest("profile")
        (side,) = store.studies.find(entry.id).answer.sides
    assert side.run_id == run["id"] and side.experiment.seed == 7


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--run", "beef"], "There is no run whose id starts with 'beef'"),
        (["--run", "beef", "--model", "small-cnn"], "--run takes no others"),
        (["--run", "beef", "--precision", "fp32"], "--run takes no others"),
        (["--precision", "fp32", "--precision", "fp32"], "needed only once"),
        (["--precision", "fp17"], "Precision is 'fp17'"),
        (["--to", "x.docx"], "is no format of"),
        (["--trace", "x.json"], "is no format of traces"),
        ([*TINY, "--set", "step.fp32_modules=nope", *HERE], "'nope'"),
    ],
)
def test_a_wrong_request_leaves_nothing_behind(capsys: Capture, arguments: list[str], said: str) -> None:
    status, found = answer(capsys, *arguments)
    assert status == 2 and said in found["error"]["message"]
    with Store() as store:
        assert store.studies.newest() == ()
