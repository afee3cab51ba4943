"""The verb `limit` with real workers, and what it prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.cli import main
from engine.cli.study import Followed
from engine.protocol.events import Finished, Summary
from engine.protocol.trials import Limit, Trial
from engine.store.saved.study import Study
from engine.store.store import Store

Capture = pytest.CaptureFixture[str]

SMALL = ["--model", "small-cnn", "--dataset", "fashion", "--device", "cpu"]


def answer(capsys: Capture, *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["limit", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux caps a CPU's memory")
def test_each_precision_has_its_largest_batch_and_its_trials(capsys: Capture, tmp_path: Path) -> None:
    sides = ["--precision", "fp32", "--precision", "bf16"]
    # so few samples that two trials prove an answer: a process for each takes seconds to import torch
    data = ["--model", "small-cnn", "--dataset", "synthetic", "--image-size", "28", "--set", "samples=128"]
    limits = ["--device", "cpu", "--memory-gib", "0.044", "--granularity", "64"]
    to = ["--to", str(tmp_path / "x.csv"), "--to", str(tmp_path / "x.html")]
    status, found = answer(capsys, *data, "--set", "num_classes=10", *limits, *sides, *to)
    assert status == 0
    assert "BF16 AMP fits" in (tmp_path / "x.html").read_text(encoding="utf-8")
    trials = sum(len(each["trials"]) for each in found["results"])
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 1 + trials
    assert [each["precision"] for each in found["results"]] == ["fp32", "bf16"]
    for each in found["results"]:
        assert each["verified"] and each["largest_batch"] % 64 == 0
        assert each["first_failure"] == each["largest_batch"] + 64
        assert each["peak_mib"] <= each["budget_mib"] == pytest.approx(0.044 * 1024)
        assert each["seconds"] > 0
        assert all({"batch_size", "fits", "peak_mib", "seconds"} <= set(trial) for trial in each["trials"])
    with Store() as store:
        (saved,) = store.studies.newest("limit")
    assert {saved.id} == {found["id"], *(each["id"] for each in found["results"])}


def test_every_trial_is_printed_and_the_answer_last(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def followed(_: object, __: object, study: Study[Limit], *_to: object, force: bool) -> Followed[Limit]:
        trials = tuple(Trial(batch_size=batch, fits=True, seconds=1.0) for batch in range(101, 113))
        side = study.answer.sides[0].model_copy(update={"trials": trials})
        return Followed(study.knowing(sides=(side,)), Finished(summary=Summary(), stopped=True), False)

    monkeypatch.setattr("engine.cli.questions.follow", followed)
    assert main(["limit", *SMALL, "--memory-gib", "1", "--precision", "fp32"]) == 0
    out = capsys.readouterr().out
    assert all(str(batch) in out for batch in range(101, 113)) and "more rows" not in out
    assert out.splitlines()[-1] == "FP32 fits at least 112."


def test_a_cpu_without_a_limit_is_asked_for_one(capsys: Capture) -> None:
    status, found = answer(capsys, *SMALL, "--precision", "fp32")
    assert status == 2
    assert found["error"]["key"] == "memory_cap_gib" and "--memory-gib" in found["error"]["remedy"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--to", "x.docx"],
        ["--granularity", "0"],
        ["--margin", "1"],
        ["--precision", "fp32", "--precision", "fp32"],
    ],
)
def test_a_wrong_request_is_refused_before_anything_starts(capsys: Capture, arguments: list[str]) -> None:
    status, found = answer(capsys, *SMALL, *arguments)
    assert status == 2 and found["error"]["kind"] == "request"
