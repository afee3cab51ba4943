"""The verb `limit` with real workers, and what it prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.cli import main
from engine.cli.study import Followed
from engine.limit.driver import LimitDriver
from engine.protocol.events import Finished, Summary
from engine.protocol.trials import Limit, Trial
from engine.store.saved.study import Study
from engine.store.store import Store
from engine.worker.launcher import Launcher
from tests.engine.limit.test_driver import PRELUDE

Capture = pytest.CaptureFixture[str]

SMALL = ["--model", "small-cnn", "--dataset", "fashion", "--device", "cpu"]


def answer(capsys: Capture, *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["limit", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_each_precision_has_its_largest_batch_and_its_trials(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("worker.py").write_text(f"{PRELUDE}    tried(batch, None if batch <= 64 else 'memory')")
    with Launcher(command=(sys.executable, "worker.py")) as workers:
        monkeypatch.setattr(
            "engine.cli.questions.LimitDriver", lambda store, _, catalog: LimitDriver(store, workers, catalog)
        )
        limits = ["--memory-gib", "0.1", "--granularity", "64", "--precision", "fp32", "--precision", "bf16"]
        status, found = answer(capsys, *SMALL, *limits, "--to", "x.csv", "--to", "x.html")
    assert status == 0
    assert "BF16 AMP fits" in Path("x.html").read_text(encoding="utf-8")
    trials = sum(len(each["trials"]) for each in found["results"])
    assert len(Path("x.csv").read_text().splitlines()) == 1 + trials
    assert [each["precision"] for each in found["results"]] == ["fp32", "bf16"]
    for each in found["results"]:
        assert each["verified"] and (each["largest_batch"], each["first_failure"]) == (64, 128)
        assert (each["peak_mib"], each["budget_mib"]) == (74, 110) and each["seconds"] > 0
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
