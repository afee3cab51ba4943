"""Runs that were sent to MLflow are read back by its own client."""

from __future__ import annotations

import json
import math
import os
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.cli.app import main
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, ProblemError
from engine.export.content import Content, content_of
from engine.export.formats import is_mlflow
from engine.export.mlflow import EXPERIMENT, MOST_STEPS, log_runs, parse_destination
from engine.store import samples
from engine.store.store import Store
from engine.words.names import applying_settings

# before MLflow is imported by the tests themselves
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"


@pytest.fixture
def store(tmp_path: Path, fill: Callable[[Store], None]) -> Iterator[Store]:
    with Store(tmp_path / "store" / "ammeter.sqlite") as opened:
        fill(opened)
        yield opened


@pytest.fixture
def content(store: Store) -> Content:
    return content_of(store, [run.id for run in store.runs()])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # what a reader of such a folder needs as well
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return tmp_path / "mlruns"


@pytest.mark.slow
def test_settings_curves_and_environment_come_back(store: Store, content: Content, folder: Path) -> None:
    from mlflow import MlflowClient

    logged = log_runs(content, f"mlflow:{folder}")
    client = MlflowClient(tracking_uri=folder.as_uri())
    sent = dict(zip([run.id for run in content.runs], map(client.get_run, logged.run_ids), strict=True))
    first = store.runs()[-1]
    found, columns = sent[first.id], store.samples(first.id)
    assert first.started is not None and found.info.run_name == first.name
    assert found.info.status == "FINISHED"
    assert found.info.start_time == round(first.started.timestamp() * 1_000)
    assert found.data.params == {
        name: str(value) for name, value in applying_settings(first.experiment).items()
    }
    assert found.data.tags["environment.device_name"] == "a card"
    assert found.data.tags["ammeter.run"] == first.id
    history = client.get_metric_history(found.info.run_id, "train/loss")
    assert [one.step for one in history] == columns["step"].tolist()
    np.testing.assert_array_equal([one.value for one in history], columns["loss"])
    late = [one.timestamp - found.info.start_time for one in history]
    np.testing.assert_allclose(late, columns["seconds"] * 1_000, atol=1)
    (accuracy,) = client.get_metric_history(found.info.run_id, "validation/accuracy")
    assert (accuracy.step, accuracy.value) == (60, 0.5)
    assert found.data.metrics["summary/samples_per_second"] == 12.5
    assert {sent[run.id].info.status for run in content.runs} == {
        "FINISHED",
        "FAILED",
        "RUNNING",
        "SCHEDULED",
    }
    failed = client.get_metric_history(sent[store.runs()[2].id].info.run_id, "train/loss")
    np.testing.assert_array_equal([one.value for one in failed], [1.0, math.nan, -math.inf])


def test_a_long_run_sends_some_steps_and_says_so(tmp_path: Path, folder: Path) -> None:
    from mlflow import MlflowClient

    rows = 2 * MOST_STEPS + 3
    column = np.arange(1.0, rows + 1)
    with Store(tmp_path / "long.sqlite") as store:
        run = store.add(Experiment(), name="long")
        with store._connection.writing() as connection:
            columns = {"step": column, "seconds": column, "loss": column}
            samples.append(connection, run.id, columns)
        logged = log_runs(content_of(store, [run.id]), str(folder))
    assert logged.thinned == (run,) and any("long" in sentence for sentence in logged.sentences)
    client = MlflowClient(tracking_uri=folder.as_uri())
    steps = [one.step for one in client.get_metric_history(logged.run_ids[0], "train/loss")]
    assert steps == [*range(1, rows + 1, 3), rows]
    told = client.get_run(logged.run_ids[0]).data.tags["ammeter.steps_sent"]
    assert told == "1 of 3, and the last"


def test_the_verb_prints_its_one_object(
    fill: Callable[[Store], None], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store() as store:
        fill(store)
        run = store.runs()[-1]
    assert main(["export", run.id, "--to", f"mlflow:{folder}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == [run.id]


def test_a_server_that_is_not_there_is_told_in_a_sentence(content: Content) -> None:
    with socket.socket() as taken:
        # bound and not listening: nobody else can answer there
        taken.bind(("127.0.0.1", 0))
        address = f"http://name:secret@127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ProblemError, match="cannot be reached") as raised:
            log_runs(content, f"mlflow:{address}")
    problem = raised.value.problem
    assert problem.kind is Kind.REQUEST
    assert "secret" not in f"{problem.message} {problem.remedy} {problem.value}"


def test_without_the_extra_it_says_how_to_get_it(
    content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ProblemError, match="optional extra `mlflow`"):
        log_runs(content, f"mlflow:{tmp_path}/mlruns")
    assert not (tmp_path / "mlruns").exists()


def test_where_one_run_cannot_be_sent_none_is_kept(content: Content, folder: Path) -> None:
    from mlflow import MlflowClient

    first = content.runs[0].id
    with pytest.raises(KeyError):
        log_runs(replace(content, samples={first: content.samples[first]}), f"mlflow:{folder}")
    client = MlflowClient(tracking_uri=folder.as_uri())
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    assert list(client.search_runs([experiment.experiment_id])) == []


def test_what_mlflow_refuses_is_told_in_a_sentence(content: Content, folder: Path) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=folder.as_uri())
    client.delete_experiment(client.create_experiment(EXPERIMENT))
    with pytest.raises(ProblemError, match="Could not send the runs") as raised:
        log_runs(content, f"mlflow:{folder}")
    assert "\n" not in raised.value.problem.message


def test_nothing_is_told_to_the_makers_of_mlflow(
    content: Content, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.telemetry import get_telemetry_client
    from mlflow.telemetry.utils import is_telemetry_disabled

    asked: list[bool] = []
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "false")
    monkeypatch.setattr("engine.export.mlflow._tags", lambda *_: asked.append(is_telemetry_disabled()) or {})
    log_runs(content, str(folder))
    assert set(asked) == {True} and get_telemetry_client() is None
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "false"


@pytest.mark.parametrize(
    ("destination", "sentence"),
    [
        ("mlflow:", "needs a destination"),
        ("mlflow:ftp://host/runs", "does not support ftp"),
        ("mlflow:http://", "does not name a server"),
        ("mlflow:{here}/none/mlruns", "does not exist"),
        ("mlflow:{here}/file.txt", "is a file"),
        ("mlflow:{here}", "contains other files"),
    ],
)
def test_a_place_that_is_none_is_answered(tmp_path: Path, destination: str, sentence: str) -> None:
    (tmp_path / "file.txt").write_text("kept")
    with pytest.raises(ProblemError, match=sentence) as raised:
        parse_destination(destination.format(here=tmp_path))
    assert raised.value.problem.key == "to"


def test_places_are_known_by_how_they_are_written(tmp_path: Path) -> None:
    assert is_mlflow("mlflow:./mlruns") and not is_mlflow("./mlflow.zip")
    assert parse_destination("mlflow:https://host:5000").is_server
    folder = parse_destination(f"mlflow:file://{tmp_path}/runs of mine")
    assert folder.is_folder and folder.shown == f"{tmp_path}/runs of mine"
    assert folder.uri.endswith("/runs%20of%20mine")
