"""Everything saved on the command line: listed by date, and shown, exported and deleted by its id."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.cli.app import main
from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.experiment.paths import store_path
from engine.experiment.sweep import Plan, axes_of, grid_of
from engine.protocol.answer import Answer
from engine.protocol.events import Finished, Summary
from engine.protocol.numerics import NonfiniteSearch, Numerics, NumericsResults
from engine.protocol.profile import Bar, StepPart, StepProfile, profiles_of
from engine.protocol.trials import Limit, LimitSide, Trial
from engine.protocol.tune import Proof, Tuning, TuningTrial
from engine.store.saved.studies import Study
from engine.store.store import Store
from tests.records import started_of

Capture = pytest.CaptureFixture[str]

FP32 = Experiment(precision=Precision.FP32)
BAR = Bar.of([(StepPart.MATRIX, 3.0), (StepPart.HOST, 1.0)])
PROFILE = StepProfile(
    device_type="cpu", steps=3, samples=8, step_ms=4.0, recorded_ms=4.4, bar=BAR, format="fp32"
)
TRIALS = (TuningTrial(round=1, changes={}, steps=5, seconds=1.0),)
ANSWERS: tuple[Answer, ...] = (
    Limit(sides=(LimitSide(label="FP32", experiment=FP32, trials=(Trial(batch_size=8, fits=True),)),)),
    Numerics(
        experiment=FP32,
        parts=("nan",),
        results=NumericsResults(nan=NonfiniteSearch(sentence="All numbers are finite.")),
    ),
    profiles_of([FP32]).with_side(0, profile=PROFILE),
    Tuning(experiment=FP32, trials=TRIALS, winner=FP32, phase="over", proof=Proof(speedup=2.0)),
)
RESULTS = {
    "limit": "FP32 fits at least 8.",
    "numerics": "NaN",
    "profile": "FP32 4.00 ms a step",
    "sweep": "2 combinations, stopped",
    "tune": "2.00 times as fast as plain FP32",
    "run": "640 img/s, 50.0%",
}


@pytest.fixture
def saved(home: Path) -> dict[str, str]:
    """The ids of what is saved, by kind, the oldest first."""
    with Store() as store:
        ids: dict[str, str] = {
            answer.kind: store.studies.end(store.studies.begin(Study(answer=answer))).id for answer in ANSWERS
        }
        grid = grid_of(json.loads(FP32.to_json()), axes_of({"batch_size": (2, 4)}))
        ids["sweep"] = store.sweeps.add("Night", grid, Plan(), device_name="CPU")
        run = store.add(FP32, name="Alone")
        summary = Summary(steps=2, samples_per_second=640.0, final_validation_accuracy=0.5)
        store.record(run.id, [Finished(summary=summary)])
    return {**ids, "run": run.id}


def test_results_are_one_list_by_date(answer, capsys, saved):
    assert main(["results"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["Id", "Kind", "When", "Title", "Result"]
    assert [line.split()[:2] for line in lines] == [[i, kind] for kind, i in reversed(saved.items())]
    for line in lines:
        assert RESULTS[line.split()[1]] in line
    _, found = answer("results")
    assert [run["id"] for run in found["runs"]] == [saved["run"]]
    assert [sweep["id"] for sweep in found["sweeps"]] == [saved["sweep"]]
    assert {study["kind"]: study["id"] for study in found["studies"]}.items() < saved.items()
    _, newest = answer("results", "--limit", "2")
    assert [len(newest[key]) for key in ("runs", "sweeps", "studies")] == [1, 1, 0]


@pytest.mark.parametrize("kind", RESULTS)
def test_every_kind_is_listed_shown_exported_and_deleted(answer, capsys, saved, tmp_path, kind):
    start, path = saved[kind][:8], tmp_path / "x.html"
    assert main(["results", "--kind", kind]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == [saved[kind]]
    assert main(["show", start]) == 0
    assert capsys.readouterr().out.strip()
    _, shown = answer("show", start)
    assert shown["id"] == saved[kind]
    status, wrote = answer("export", start, "--to", str(path))
    assert status == 0 and saved[kind] in str(wrote) and path.read_text(encoding="utf-8").startswith("<!")
    assert answer("delete", start, saved[kind]) == (0, {"deleted": [saved[kind]]})
    _, left = answer("results")
    assert sum(map(len, left.values())) == len(saved) - 1


def test_what_a_kind_does_not_have_is_refused(answer, saved):
    for arguments in (
        ["show", saved["limit"], "--samples"],
        ["show", saved["sweep"], "--code"],
        ["export", saved["tune"], saved["run"], "--to", "x.html"],
        ["resume", saved["profile"]],
        ["resume", saved["tune"], "--target", "thread"],
        ["results", "--kind", "probe"],
        ["sweep", "--preset", "hello-amp"],
        ["show", "nothing"],
        ["show", " "],
    ):
        assert answer(*arguments)[0] == 2, arguments


def test_a_saved_comparison_of_scripts_shows_its_requirements_and_no_settings_of_a_model(answer, capsys):
    with Store() as store:
        group, ids = store.add_comparison("Scripts"), []
        for line in ("python train.py", "python train.py --amp"):
            script = experiment_from({"command": {"line": line, "require": "memory <= 0.9"}, "steps": 30})
            ids.append(store.add(script, comparison=group).id)
            store.begin(ids[-1])
            summary = Summary(steps=30, samples_per_second=10.0, peak_resident_mib=9.0)
            store.record(ids[-1], [started_of(script), Finished(summary=summary)])
    reason = "Each side has only one run. Use 5 repeats."
    assert main(["show", ids[1]]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Run 2: train.py --amp\n")
    assert f"\nRequirements\nCannot tell: memory <= 0.9. {reason}\n" in shown
    assert main(["results"]) == 0
    newest, oldest = capsys.readouterr().out.splitlines()[1:]
    assert "Run 2: train.py --amp  10.0 samples/s, requirements undecided" in newest
    assert "Run 1: train.py  " in oldest
    _, found = answer("show", ids[1])
    assert found["passed"] is None and [each["sentence"] for each in found["requirements"]] == [reason]
    kept = {"command", "steps", "measure", "precision", "batch_size", "device"}
    assert set(found["experiment"]) == kept and found["experiment"]["command"]["line"].endswith("--amp")


def test_nothing_saved_is_said(answer, capsys):
    assert answer("results") == (0, {"runs": [], "sweeps": [], "studies": []})
    assert main(["results"]) == 0
    assert "No saved results" in capsys.readouterr().out


def test_results_are_read_and_printed_in_pages(saved, answer, capsys, monkeypatch):
    whole = answer("results")
    monkeypatch.setattr("engine.cli.saved._PAGE_ROWS", 2)
    assert answer("results") == whole
    assert main(["results"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows if not row.startswith("Id")] == [*reversed(saved.values())]
    assert len(rows) == len(saved) + 3


def test_a_limit_counts_what_is_there_and_can_be_read(saved, answer):
    with Store() as store:
        kept, gone = (store.add(FP32).id for _ in range(2))
        store.delete([gone])
        hurt = store.add(FP32).id
    with closing(sqlite3.connect(store_path())) as file, file:
        file.execute("UPDATE runs SET created = 'yesterday' WHERE id = ?", (hurt,))
    _, listed = answer("results", "--kind", "run", "--limit", "2")
    assert [run["id"] for run in listed["runs"]] == [kept, saved["run"]]
