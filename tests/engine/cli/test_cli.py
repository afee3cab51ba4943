"""The command line without a worker: what it answers at once, and the verbs for saved runs."""

from __future__ import annotations

import json
import math
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import engine
from engine.cli.app import main
from engine.experiment.experiment import Experiment
from engine.experiment.paths import config_folder, data_folder, datasets_folder, store_path
from engine.experiment.presets import own_presets_folder
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Environment, Failed, Finished, Samples, Started, Summary
from engine.store.store import Store

ROOT = Path(__file__).parents[3]

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def saved(home: Path, started: Callable[..., Started], batch: Callable[..., Samples]) -> str:
    """The id of a finished run in the store."""
    samples = batch(1, 2, loss=(math.inf, math.nan), samples_per_second=(640.0, 640.5))
    summary = Summary(steps=2, samples_per_second=640.0, final_train_loss=math.nan, skipped_steps=1)
    with Store() as store:
        run = store.add(Experiment(), name="First [light]")
        store.begin(run.id)
        store.record(run.id, [started(total_steps=2), samples, Finished(summary=summary)])
    return run.id


def test_help_and_version_are_no_errors(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ammeter {engine.__version__}\n"
    assert main([]) == 2


@pytest.mark.slow
def test_it_loads_neither_qt_nor_torch(home: Path) -> None:
    script = (
        "import sys; from engine.cli.app import main; code = main(['presets']);"
        "loaded = {'torch', 'torchvision', 'PySide6', 'pyqtgraph', 'gui'} & set(sys.modules);"
        "sys.exit(code if not loaded else str(loaded))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fly"], "No such command 'fly'"),
        (["run", "--wings", "2"], "No such option: --wings"),
        (["show"], "Missing argument 'ID'"),
        (["compare", "--repeats", "0"], "--repeats"),
    ],
)
def test_what_the_parser_refuses_has_the_same_form(refused, arguments, words):
    assert words in refused(*arguments)["message"]


@pytest.mark.parametrize(
    ("arguments", "key", "value"),
    [
        (["--precision", "fp4"], "precision", "fp4"),
        (["--lr", "-1"], "optimizer.learning_rate", "-1"),
        (["--epochs", "1", "--steps", "2"], "steps", "2"),
        (["--set", "scaler.mode=maybe"], "scaler.mode", "maybe"),
        (["--preset", "fashon"], "preset", "fashon"),
        (["--set", "batch_size"], "set", "batch_size"),
    ],
)
def test_a_wrong_value_is_answered_before_a_worker_starts(refused, arguments, key, value):
    error = refused("run", *arguments)
    assert (error["kind"], error["key"], error["value"]) == ("request", key, value)
    assert not store_path().exists(), "nothing is saved"


def test_each_layer_holds_over_the_one_before(refused, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("seed = 1\nbatch_size = 0\n", encoding="utf-8")
    layers = ["run", "--preset", "hello-amp", "--config", str(path)]
    assert refused(*layers)["value"] == "0"
    assert refused(*layers, "--batch-size", "-1")["value"] == "-1"
    assert refused(*layers, "--batch-size", "-1", "--set", "batch_size=-2")["value"] == "-2"


@pytest.mark.parametrize("precisions", [["fp32"], ["fp32", "fp32"]])
def test_a_comparison_of_one_thing_with_itself_is_refused(refused, precisions):
    flags = [part for one in precisions for part in ("--precision", one)]
    assert refused("compare", *flags)["key"] == "precision"


def test_a_saved_run_is_listed_and_shown_whole(answer, saved):
    status, listed = answer("results", "--limit", "5")
    assert status == 0
    status, shown = answer("show", saved[:6])
    assert status == 0 and listed["runs"] == [shown]
    assert (shown["id"], shown["name"], shown["status"]) == (saved, "First [light]", "finished")
    assert set(shown["experiment"]) == set(Experiment.model_fields)
    assert set(shown["environment"]) == set(Environment.model_fields)
    assert set(shown["summary"]) == set(Summary.model_fields)
    assert shown["summary"]["final_train_loss"] == "NaN"
    assert shown["summary"]["peak_allocated_mib"] is None
    assert "samples" not in shown


def test_show_samples_adds_the_curves_with_nan_and_infinity(answer, saved, capsys):
    _, shown = answer("show", saved, "--samples")
    assert shown["samples"] == {
        "step": [1, 2],
        "seconds": [0.01, 0.02],
        "loss": ["Infinity", "NaN"],
        "samples_per_second": [640.0, 640.5],
        "learning_rate": [0.001, 0.001],
    }
    assert main(["show", saved, "--samples"]) == 0
    assert "2 of 2 steps" in capsys.readouterr().out


def test_a_failed_run_is_shown_with_its_problem(answer, capsys):
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It did not fit.", remedy="Take less.")
    with Store() as store:
        run = store.add(Experiment())
        store.begin(run.id)
        store.record(run.id, [Failed(problem=problem)])
    assert answer("show", run.id)[1]["problem"]["message"] == "It did not fit."
    assert main(["show", run.id]) == 0
    assert "- Use batch 32: Half of it." in capsys.readouterr().out


def test_what_was_written_on_a_run_is_shown(answer, capsys, saved):
    with Store() as store:
        store.set_tags(saved, ["paper", "figure 2"])
        store.set_note(saved, "Clocks were locked.")
    assert main(["show", saved]) == 0
    shown = capsys.readouterr().out
    assert "Tags: paper, figure 2" in shown and "Clocks were locked." in shown
    assert answer("results")[1]["runs"][0]["tags"] == ["paper", "figure 2"]


def test_deleting_takes_the_run_away_and_a_wrong_id_takes_nothing(answer, refused, saved):
    assert refused("delete", saved, "zzz")["key"] == "id"
    assert answer("delete", saved, saved[:8]) == (0, {"deleted": [saved]})
    assert answer("results")[1]["runs"] == []


def test_presets_are_listed_with_what_is_wrong_with_ones_own(answer, capsys):
    own_presets_folder().mkdir(parents=True)
    (own_presets_folder() / "wrong.toml").write_text("title = 3", encoding="utf-8")
    status, found = answer("presets")
    assert status == 0
    kinds = {one["name"]: one["kind"] for one in found["presets"]}
    assert kinds["hello-amp"] == "run" and kinds["fashion"] == "compare"
    assert len(found["broken"]) == 1
    assert main(["presets"]) == 0
    assert "Preset 'wrong'" in capsys.readouterr().out


def test_a_store_that_cannot_be_opened_exits_1(answer, home):
    home.mkdir()
    store_path().write_text("not a database at all", encoding="utf-8")
    status, found = answer("results")
    assert (status, found["error"]["kind"]) == (1, "store")


def test_the_environment_moves_the_store_and_the_datasets(home, tmp_path, monkeypatch):
    assert store_path() == home / "ammeter.sqlite"
    assert data_folder() == config_folder() == home
    assert datasets_folder() == tmp_path / "data"
    monkeypatch.delenv("AMMETER_HOME")
    monkeypatch.setenv("AMMETER_DATA", " ")
    assert data_folder().name == config_folder().name == "Ammeter"
    assert datasets_folder() == data_folder() / "datasets"


@pytest.mark.slow
def test_a_reader_that_has_read_enough_is_no_error(home: Path) -> None:
    command = [sys.executable, "-m", "engine", "presets", "--json"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_a_run_that_cannot_be_read_does_not_hide_the_others(answer, home, capsys):
    with Store() as store:
        newer, kept = store.add(Experiment(), name="from tomorrow"), store.add(Experiment())
    with closing(sqlite3.connect(store_path())) as file, file:
        settings = json.dumps({**json.loads(kept.experiment.to_json()), "from_tomorrow": 1})
        file.execute("UPDATE runs SET experiment = ? WHERE id = ?", (settings, newer.id))
    status, told = answer("results")
    assert status == 0 and [run["id"] for run in told["runs"]] == [kept.id]
    assert [run["id"] for run in told["unreadable"]] == [newer.id]
    assert main(["results"]) == 0
    shown = capsys.readouterr()
    assert kept.id in shown.out and f"from tomorrow ({newer.id}) is skipped." in shown.err
    status, told = answer("show", newer.id)
    assert status == 1 and "cannot be read" in told["error"]["message"]
    assert answer("delete", newer.id[:9]) == (0, {"deleted": [newer.id]})
