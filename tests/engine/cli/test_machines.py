"""The verbs on other machines, and what is refused of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from engine.cli.app import main
from engine.experiment.catalog import Catalog, DatasetEntry, DeviceEntry, ModelEntry, PrecisionEntry
from engine.experiment.checks import most_devices, problems, resolve
from engine.experiment.experiment import experiment_from
from engine.experiment.paths import machines_path
from engine.machines.machine import Machines, keep_catalog, kept_catalog
from engine.store.saved.forecasts import Forecasts

FP32 = (PrecisionEntry(precision="fp32", available=True),)
CATALOG = Catalog(
    devices=(
        DeviceEntry(name="cpu", title="Processor there", memory_mib=1_024.0, precisions=FP32),
        DeviceEntry(name="cuda:0", title="Card there", memory_mib=1_024.0, precisions=FP32),
    ),
    models=(ModelEntry(name="linear", task="classification", family="small"),),
    datasets=(DatasetEntry(name="image-folder", title="A folder", task="classification", needs_path=True),),
    machine="far",
    cores=64,
)


@pytest.fixture
def verb(capsys: pytest.CaptureFixture[str], home: object) -> Callable[..., tuple[int, dict[str, Any]]]:
    def call(*arguments: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        end = arguments.index("--") if "--" in arguments else len(arguments)
        status = main([*arguments[:end], "--json", *arguments[end:]])
        return status, json.loads(capsys.readouterr().out)

    return call


def test_machines_are_added_listed_and_removed(verb, capsys) -> None:
    assert verb("machines", "add", "Far one", "me@far.example", "--folder", "scratch/ammeter")[0] == 0
    status, listed = verb("machines", "list")
    assert (status, [machine["host"] for machine in listed["machines"]]) == (0, ["me@far.example"])
    assert machines_path().stat().st_mode & 0o077 == 0
    keep_catalog(CATALOG.model_copy(update={"machine": "Far one"}))
    assert main(["machines", "list"]) == 0
    assert "Processor there, Card there (as of" in capsys.readouterr().out
    status, refused = verb("machines", "add", "far ONE", "elsewhere")
    assert status == 2 and "already" in refused["error"]["message"]
    assert verb("machines", "remove", "far one")[0] == 0
    assert Machines().all() == () and kept_catalog("Far one") is None


@pytest.mark.parametrize(
    ("name", "host", "folder"),
    [
        ("this machine", "far", "f"),
        ("../far", "far", "f"),
        ("far", "-oProxyCommand=touch /tmp/x", "f"),
        ("far", "far; reboot", "f"),
        ("far", "far", "../f"),
        ("far", "far", "$(reboot)"),
        ("far\n", "far\nx", "f"),
    ],
)
def test_what_could_be_more_than_a_name_is_refused(verb, name: str, host: str, folder: str) -> None:
    assert verb("machines", "add", "--folder", folder, "--", name, host)[0] == 2
    assert Machines().all() == ()


def test_a_machine_that_is_not_known_is_refused(verb) -> None:
    for words in (["run"], ["catalog"], ["machines", "check"], ["machines", "remove"]):
        named = ["nowhere"] if words[0] == "machines" else ["--machine", "nowhere"]
        status, refused = verb(*words, *named)
        assert status == 2 and "nowhere" in refused["error"]["message"], words


def test_a_thread_of_this_program_trains_on_no_other_machine(verb) -> None:
    verb("machines", "add", "far", "far.invalid")
    status, refused = verb("run", "--preset", "hello-amp", "--machine", "far", "--target", "thread")
    assert status == 2 and "thread" in refused["error"]["message"]


def _path_problem(path: str | None) -> str:
    experiment = experiment_from({"model": "linear", "dataset": "image-folder", "path": path})
    found = (each for each in problems(experiment, CATALOG) if each.key == "path")
    return next((f"{each.message} {each.remedy}" for each in found), "")


def test_a_path_there_is_not_looked_for_here(tmp_path, monkeypatch) -> None:
    assert _path_problem("/data/there") == "" and _path_problem("~/there") == ""
    assert "absolute path" in _path_problem("there/pictures")
    assert "is empty" in _path_problem(None)
    (tmp_path / "pictures").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "far, where it must also exist" in _path_problem("pictures")


def test_a_path_there_stays_as_it_was_written() -> None:
    settings = {"model": "linear", "dataset": "image-folder", "path": "~/there", "precision": "fp32"}
    assert resolve(experiment_from(settings), CATALOG).path == "~/there"


def test_the_cores_are_those_of_the_machine() -> None:
    assert most_devices(CATALOG.devices[0], CATALOG) == 64


def test_a_catalog_is_kept_for_its_machine_alone(home) -> None:
    keep_catalog(CATALOG)
    found = kept_catalog("far")
    assert found is not None and found[0] == CATALOG
    assert kept_catalog("near") is None
    path = machines_path().with_suffix("") / "far.json"
    path.write_text("{}")
    assert kept_catalog("far") is None, "a damaged one counts as none"


def test_forecasts_are_of_one_machine(tmp_path) -> None:
    experiment = experiment_from({"model": "linear", "dataset": "synthetic-regression", "device": "cpu"})
    there = Forecasts(tmp_path, "far")
    there.learn(experiment, 8, 100.0, "resident")
    assert [path.name for path in tmp_path.glob("*.json")] == ["forecasts-far.json"]
    there.forget()
    assert not list(tmp_path.glob("*.json"))


def test_a_cluster_is_added_and_what_is_of_clusters_alone_is_refused_of_others(verb, capsys) -> None:
    words = ("--slurm", "--partition", "gpu", "--time", "2:00:00", "--option", "--gres=gpu:1")
    status, added = verb("machines", "add", "Cluster", *words)
    assert status == 0 and added["slurm"]["options"] == ["--gres=gpu:1"] and added["host"] == ""
    assert main(["machines", "list"]) == 0
    assert "this machine (Slurm, partition gpu)" in capsys.readouterr().out
    status, refused = verb("machines", "add", "Other", "far", "--partition", "gpu")
    assert status == 2 and "--slurm" in refused["error"]["remedy"]
    status, refused = verb("machines", "add", "Other", "far", "--slurm", "--option", "--wrap=reboot")
    assert status == 2 and "Ammeter sets it itself" in refused["error"]["message"]
