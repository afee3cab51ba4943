"""The verbs that ask a question: what they find, print, save and export, and what they refuse."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.experiment.catalog import Catalog
from engine.limit.driver import LimitDriver
from engine.store.store import Store
from engine.worker.launcher import Launcher
from tests.engine.cli.conftest import Answer
from tests.engine.limit.test_driver import PRELUDE

HERE = ["--target", "thread"]
SMALL = ["--model", "small-cnn", "--dataset", "fashion", "--device", "cpu"]
TINY = ["--model", "small-cnn", "--dataset", "synthetic", "--image-size", "8", "--device", "cpu"]
TINY += ["--batch-size", "8", "--set", "num_classes=4", "--set", "samples=64"]
DIVERGES = ["--steps", "4", "--precision", "fp16-unscaled", "--optimizer", "sgd", "--lr", "1000"]
SCRIPTED = """
import warnings

import torch
from torch import nn

def model():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(nn.Flatten(), torch.jit.script(nn.Linear(64, 4)))

def batch(size):
    return torch.zeros(size, 64), torch.zeros(size, dtype=torch.long)
"""


@pytest.fixture
def limit(answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answer]:
    """Searches with workers to which batches up to 64 fit; the exit status and the answer."""
    monkeypatch.chdir(tmp_path)
    Path("worker.py").write_text(f"{PRELUDE}    tried(batch, None if batch <= 64 else 'memory')")
    with Launcher(command=(sys.executable, "worker.py")) as workers:

        def driver(store: Store, _: object, catalog: Catalog, **limit: float) -> LimitDriver:
            return LimitDriver(store, workers, catalog, **limit)

        monkeypatch.setattr("engine.cli.questions.LimitDriver", driver)
        yield lambda *more: answer("limit", *SMALL, "--memory-gib", "0.1", "--granularity", "64", *more)


@pytest.mark.slow
def test_each_precision_has_its_largest_batch_and_its_trials(limit):
    chosen = ["--precision", "fp32", "--precision", "bf16"]
    status, found = limit(*chosen, "--to", "x.csv", "--to", "x.html")
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


def test_a_largest_batch_whose_time_is_over_is_not_verified(limit):
    Path("worker.py").write_text(f"{PRELUDE}    time.sleep(1.1)\n    tried(batch)")
    _, found = limit("--precision", "fp32", "--time-limit", "1s")
    (result,) = found["results"]
    assert not result["verified"] and len(result["trials"]) <= 1
    assert result["note"].startswith("Stopped early. The largest batch is ")


def test_both_strategies_of_several_devices_have_their_largest_batch(limit):
    chosen = ["--devices", "2", "--strategy", "ddp", "--strategy", "fsdp", "--precision", "bf16"]
    status, found = limit(*chosen)
    assert status == 0 and [each["largest_batch"] for each in found["results"]] == [64, 64]
    with Store() as store:
        sides = store.studies.find(found["id"]).answer.sides
    assert [side.label for side in sides] == ["BF16 AMP, DDP", "BF16 AMP, FSDP2"]
    assert [side.experiment.ranks.strategy for side in sides] == ["ddp", "fsdp"]


def test_the_usual_parts_are_one_object_saved_and_exported(answer, tmp_path: Path) -> None:
    to = tmp_path / "x.csv"
    status, found = answer("numerics", *TINY, "--precision", "bf16", "--to", str(to), *HERE)
    assert status == 0
    assert {"bfloat16"} in [set(row["outputs"]) for row in found["map"]]
    assert {row["quantity"] for row in found["range"]} == {"activation", "gradient", "weight"}
    assert found["first_nonfinite"] is None and found["ladder"] is None and found["fp32_modules"] is None
    assert found["about"]["nan"]["steps"] == 1 and isinstance(found["advice"], list)
    with Store() as store:
        (entry,) = store.studies.newest("numerics")
        parts = store.studies.find(entry.id).answer.parts
    assert (entry.id, parts) == (found["id"], ("map", "range", "nan"))
    with to.open(encoding="utf-8", newline="") as file:
        assert {row["part"] for row in csv.DictReader(file)} >= {"Ranges", "Precision map"}


@pytest.mark.slow
def test_a_run_without_a_checkpoint_is_looked_through_from_its_start(answer) -> None:
    status, run = answer("run", *TINY, *DIVERGES, *HERE)
    assert status == 0 and run["summary"]["first_nan_step"]
    status, found = answer("numerics", "--run", run["id"], "--nan", *HERE)
    assert status == 1
    assert found["first_nonfinite"]["step"] <= run["summary"]["first_nan_step"]
    assert {"module", "operation", "direction"} <= set(found["first_nonfinite"])
    with Store() as store:
        assert store.studies.find(found["id"]).answer.run_id == run["id"]


def test_sides_are_one_object_saved_and_exported_with_their_traces(answer, trains, tmp_path: Path) -> None:
    to, trace = tmp_path / "x.html", tmp_path / "x.json.gz"
    status, found = answer("profile", *TINY, "--to", str(to), "--trace", str(trace))
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


def test_a_run_is_profiled_with_its_own_settings(answer, trains) -> None:
    _, run = answer("run", *TINY, "--steps", "3", "--seed", "5")
    assert answer("profile", "--run", run["id"][:6])[0] == 0
    with Store() as store:
        (entry,) = store.studies.newest("profile")
        (side,) = store.studies.find(entry.id).answer.sides
    assert side.run_id == run["id"] and side.experiment.seed == 5


@pytest.mark.slow
def test_a_tuning_is_saved_and_exported(answer, trains, tmp_path):
    to = tmp_path / "x.html"
    options = ["--steps", "60", "--change", "precision", "--repeats", "2", "--to", str(to)]
    status, found = answer("tune", *TINY, *options)
    assert status == 0 and found["phase"] == "over"
    assert found["experiment"]["precision"] == "fp32" and found["runs"] >= len(found["trials"])
    assert found["command"].startswith("ammeter run --set") and found["sentences"]
    with Store() as store:
        (saved,) = store.studies.newest("tune")
    assert saved.id == found["id"] and saved.is_over
    assert "The fastest settings of small-cnn" in to.read_text(encoding="utf-8")
    status, refused = answer("tune", "--resume", saved.id)
    assert status == 2 and "is finished" in refused["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["limit", *SMALL, "--to", "x.docx"], "is not a format for"),
        (["limit", *SMALL, "--strategy", "fsdp"], "Strategy applies to multiple devices"),
        (["limit", *SMALL, "--devices", "2", "--strategy", "zero"], "zero"),
        (["limit", *SMALL, "--margin", "1"], "--margin"),
        (["limit", *SMALL, "--precision", "fp32", "--precision", "fp32"], "may be given only once"),
        (["limit", *SMALL, "--precision", "fp32"], "emory"),
        (["numerics", "--run", "beef"], "No run id starts with 'beef'"),
        (["numerics", "--run", "beef", "--model", "small-cnn"], "--run uses the settings of the saved run"),
        (["numerics", *TINY, "--set", "step.fp32_modules=nope", "--map", *HERE], "'nope'"),
        (["profile", "--trace", "x.json"], "is not a format for traces"),
        (["tune", "--change", "colour"], "not a kind of change"),
        (["tune", "--time-limit", "soon"], "--time-limit is 'soon'"),
        (["tune", "--resume", "beef", *HERE], "No run, sweep or study id starts with 'beef'"),
        (["tune", "--resume", "beef", "--model", "linear"], "--resume uses the settings"),
        (["tune", *TINY, "--set", "batch_size=65", *HERE], "has 64 samples"),
    ],
)
def test_a_wrong_request_leaves_nothing_behind(refused, arguments, said):
    error = refused(*arguments)
    assert said in error["message"]
    if error["key"] == "memory_cap_gib":
        assert "--memory-gib" in error["remedy"]


def test_a_model_that_refuses_hooks_is_refused_by_name(refused, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(SCRIPTED)
    error = refused("numerics", "--model", str(tmp_path / "net.py"), "--device", "cpu", *HERE)
    assert "1 is scripted, which hides its operations" in error["message"]
