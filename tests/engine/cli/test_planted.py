"""A file that lies on this disk runs only where somebody names it here, whatever else names it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from engine.cli.app import main
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import Code, read_code
from engine.experiment.own.trust import TrustedCode
from engine.experiment.presets import own_presets_folder
from engine.experiment.sweep import Plan, axes_of, grid_of
from engine.protocol.events import Finished, Summary
from engine.protocol.tune import Tuning, TuningPlan
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from tests.records import started_of

Capture = pytest.CaptureFixture[str]

PLANTED = """
from pathlib import Path
Path({marker!r}).touch()

import torch
from torch import nn

class Net(nn.Linear):
    def __init__(self):
        super().__init__(2, 3)

def model():
    return Net()

def batch(size):
    return torch.zeros(size, 2), torch.zeros(size, dtype=torch.int64)
"""
SHORT = ["--steps", "1", "--device", "cpu", "--set", "batch_size=2"]
THREAD = ["--target", "thread"]


class Planted:
    """A file that leaves a mark when it runs; `verb` calls the program."""

    def __init__(self, folder: Path, capsys: Capture) -> None:
        folder.mkdir(parents=True)
        self.path = folder / "evil.py"
        self.marker = folder / "was_run"
        self.path.write_text(PLANTED.format(marker=str(self.marker)), encoding="utf-8")
        self._capsys = capsys

    @property
    def was_run(self) -> bool:
        return self.marker.exists()

    @property
    def code(self) -> Code:
        return read_code(self.path)

    def experiment(self, **settings: Any) -> Experiment:
        """One that holds the text, as a run from elsewhere does."""
        own = {"model": "evil.py", "code": self.code.to_json(), "dataset": "own"}
        return experiment_from({**own, "steps": 1, "batch_size": 2, "device": "cpu", **settings})

    def verb(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """The status and the answer of a verb."""
        status = main([*arguments, "--json"])
        return status, json.loads(self._capsys.readouterr().out)

    def refused(self, *arguments: str) -> str:
        """The sentence that a verb refuses with; the file did not run."""
        status, answer = self.verb(*arguments)
        assert status == 2 and not self.was_run, answer
        return str(answer["error"]["message"])


@pytest.fixture
def planted(tmp_path: Path, capsys: Capture) -> Planted:
    return Planted(tmp_path / "planted", capsys)


def write_preset(name: str, **table: Any) -> None:
    own_presets_folder().mkdir(parents=True, exist_ok=True)
    path = own_presets_folder() / f"{name}.toml"
    path.write_text(tomli_w.dumps({"title": name, **table}), encoding="utf-8")


def toml(tmp_path: Path, **table: Any) -> str:
    path = tmp_path / "settings.toml"
    path.write_text(tomli_w.dumps(table), encoding="utf-8")
    return str(path)


UNACCEPTED = "came from elsewhere and is not yet allowed"


@pytest.mark.parametrize("named", [("--model", "{0}/evil.py:Net"), ("--set", "model=evil.py")])
def test_a_file_that_is_named_on_the_command_line_runs(planted, named, monkeypatch):
    monkeypatch.chdir(planted.path.parent)
    option, value = named
    chosen = [option, value.format(planted.path.parent)]
    assert planted.verb("run", *chosen, *SHORT, *THREAD)[0] == 0 and planted.was_run
    assert TrustedCode().is_named(planted.path), "the absolute path, as it was at that moment"


@pytest.mark.parametrize(
    ("verb", "source"),
    [
        ("run", "toml"), ("compare", "toml"), *((verb, "preset") for verb in ("run", "check", "compare")),
        *((verb, "preset") for verb in ("limit", "numerics", "profile", "tune")),
    ],
)  # fmt: skip
def test_no_verb_runs_a_file_that_a_preset_or_toml_file_names(planted, tmp_path, monkeypatch, verb, source):
    settings = {"model": str(planted.path), "device": "cpu", "steps": 1, "memory_cap_gib": 1.0}
    if source == "preset":
        write_preset("theirs", experiment=settings)
        given = ["--preset", "theirs"]
    else:
        given = ["--config", toml(tmp_path, **settings)]
    # a process takes seconds to import torch
    monkeypatch.setattr("engine.cli.session.launcher_for", lambda *_: Launcher(Target.THREAD))
    assert UNACCEPTED in planted.refused(verb, *given)
    assert not TrustedCode().is_named(planted.path)


@pytest.mark.parametrize(
    "name", ["evil.py", "evil.py:Net", "./evil.py", "../planted/evil.py", "link/evil.py"]
)
def test_nor_one_in_the_folder_where_the_program_was_started(planted, tmp_path, name, monkeypatch):
    monkeypatch.chdir(planted.path.parent)
    (planted.path.parent / "link").symlink_to(planted.path.parent, target_is_directory=True)
    write_preset("theirs", experiment={"model": name, "steps": 1})
    assert UNACCEPTED in planted.refused("run", "--preset", "theirs", *THREAD)


def test_a_preset_that_is_accepted_runs_and_asks_again_once_its_file_has_changed(planted: Planted) -> None:
    write_preset("theirs", experiment={"model": str(planted.path), "device": "cpu", "steps": 1})
    assert planted.verb("run", "--preset", "theirs", "--trust-code", *THREAD)[0] == 0 and planted.was_run
    planted.marker.unlink()
    assert planted.verb("run", "--preset", "theirs", *THREAD)[0] == 0 and planted.was_run
    planted.marker.unlink()
    planted.path.write_text(planted.path.read_text() + "\n# more\n", encoding="utf-8")
    assert UNACCEPTED in planted.refused("run", "--preset", "theirs", *THREAD)


def test_a_command_of_a_preset_a_file_or_a_run_needs_trust(planted, tmp_path, home, monkeypatch):
    """A command that is not trusted starts nothing, and is shown in full."""
    monkeypatch.chdir(tmp_path)
    table = {"line": f"{sys.executable} {planted.path}", "folder": "."}
    write_preset("theirs", experiment={"command": table, "steps": 1})
    variants = [{"label": label, "command": table} for label in ("a", "b")]
    write_preset("both", kind="compare", experiment={"steps": 1}, variants=variants)
    with Store() as store:
        run = store.add(experiment_from({"command": table}))
    sources = [
        ("run", "--preset", "theirs"),
        ("compare", "--preset", "both"),
        ("run", "--config", toml(tmp_path, command=table)),
        ("run", *(word for key, value in table.items() for word in ("--set", f"command.{key}={value}"))),
    ]
    for given in sources:
        message = planted.refused(*given, *THREAD)
        assert UNACCEPTED in message and table["line"] in message and f" in {tmp_path} came" in message
    _, shown = planted.verb("show", run.id, "--code")
    assert shown["code"]["line"] == table["line"] and shown["code"]["sha256"] == run.experiment.command.sha256


@pytest.mark.parametrize("verb", ["limit", "numerics", "profile", "tune", "sweep", "check", "compare"])
def test_what_is_not_for_scripts_is_refused_before_anything_starts(planted: Planted, verb: str) -> None:
    swept = ["--sweep", "seed=1,2"] if verb == "sweep" else []
    message = planted.refused(verb, "--set", "command.line=python train.py", *swept)
    assert message.startswith("A script")


def test_a_saved_script_is_neither_studied_nor_resumed_nor_written(planted, tmp_path, home):
    script = experiment_from({"command": {"line": "python train.py"}, "checkpoint": {"last": True}})
    with Store() as store:
        run = store.add(script)
        store.begin(run.id)
        store.record(run.id, [started_of(script), Finished(summary=Summary(steps=1), stopped=True)])
    for given in (
        ("numerics", "--run", run.id, *THREAD),
        ("profile", "--run", run.id, *THREAD),
        ("resume", run.id, *THREAD),
        ("export", run.id, "--to", str(tmp_path / "train.py")),
    ):
        assert planted.refused(*given).startswith("A script")


def test_a_model_and_a_command_are_not_both_typed(planted: Planted) -> None:
    given = ("--model", "small-cnn", "--set", "command.line=python train.py")
    assert "only one of them can train" in planted.refused("run", *given)


def test_a_file_named_beside_a_preset_does_not_make_the_presets_file_trusted(planted, tmp_path):
    named = tmp_path / "mine.py"
    named.write_text(PLANTED.format(marker=str(tmp_path / "mine_was_run")), encoding="utf-8")
    brought = {"model": "evil.py", "code": planted.code.to_json()}
    variants = [{"label": "theirs", **brought}, {"label": "mine"}]
    write_preset("theirs", kind="compare", experiment={"device": "cpu", "steps": 1}, variants=variants)
    message = planted.refused("compare", "--preset", "theirs", "--model", str(named), *THREAD)
    assert UNACCEPTED in message and "evil.py" in message


@pytest.mark.parametrize("key", ["model", "code"])
def test_no_sweep_of_a_preset_runs_a_file_that_the_preset_names(planted: Planted, key: str) -> None:
    swept = {"model": str(planted.path), "code": planted.code.to_json()}[key]
    base = {"model": "evil.py", "code": planted.code.to_json()} if key == "code" else {}
    write_preset("theirs", kind="compare", experiment={**base, "steps": 1}, sweep={key: [swept]})
    assert UNACCEPTED in planted.refused("compare", "--preset", "theirs", *THREAD)


@pytest.mark.parametrize("swept", [("model",), ("code",), ("model", "code")])
def test_a_swept_file_that_is_named_does_not_make_the_presets_files_trusted(planted, tmp_path, swept):
    (tmp_path / "evil.py").write_text(PLANTED.format(marker=str(tmp_path / "mine")), encoding="utf-8")
    brought = {"model": [str(planted.path)], "code": [planted.code.to_json()]}
    sweep = {key: brought[key] for key in swept}
    write_preset("theirs", kind="compare", experiment={"device": "cpu", "steps": 1}, sweep=sweep)
    planted.verb("compare", "--preset", "theirs", "--sweep", f"model={tmp_path / 'evil.py'}", *THREAD)
    assert not TrustedCode().has(planted.code) and not planted.was_run


def test_no_sweep_of_a_toml_file_does(planted: Planted, tmp_path: Path) -> None:
    path = toml(tmp_path, device="cpu", steps=1, sweep={"model": [str(planted.path), "small-cnn"]})
    assert UNACCEPTED in planted.refused("compare", "--config", path, *THREAD)
    assert UNACCEPTED in planted.refused("compare", "--config", path, *THREAD, "--dry-run")


def test_a_folder_of_runs_that_was_copied_here_resumes_nothing(planted, home, tmp_path, monkeypatch):
    kept = ["--set", "checkpoint.last=true", *SHORT, *THREAD]
    _, run = planted.verb("run", "--model", str(planted.path), *kept)
    planted.marker.unlink()
    with closing(sqlite3.connect(home / "ammeter.sqlite")) as connection, connection:
        connection.execute("UPDATE runs SET status = 'interrupted'")
        connection.execute("DELETE FROM events WHERE line LIKE '%finished%'")
    shutil.copytree(home, tmp_path / "copy")
    monkeypatch.setenv("AMMETER_HOME", str(tmp_path / "copy"))
    assert planted.verb("resume", run["id"], *THREAD)[1]["error"]["key"] == "trust_code"
    assert not planted.was_run
    assert planted.verb("resume", run["id"], "--trust-code", *THREAD)[0] == 0 and planted.was_run


@pytest.mark.parametrize("verb", [["numerics", "--run"], ["profile", "--run"]])
def test_no_verb_runs_the_code_of_a_run_from_elsewhere(planted: Planted, verb: list[str]) -> None:
    with Store() as store:
        run = store.add(planted.experiment())
    assert UNACCEPTED in planted.refused(*verb, run.id, *THREAD)


def test_a_sweep_or_a_search_from_elsewhere_does_not_go_on(planted: Planted) -> None:
    (axis,) = axes_of({"batch_size": (2, 4)})
    grid = grid_of(json.loads(planted.experiment().to_json()), [axis])
    with Store() as store:
        sweep = store.sweeps.add("theirs", grid, Plan(), device_name="CPU", left_out={})
        answer = Tuning(experiment=planted.experiment(), plan=TuningPlan())
        tuning = store.studies.add(Study(answer=answer, device_name="CPU")).id
    for start in (["resume", sweep], ["resume", tuning], ["tune", "--resume", tuning]):
        assert UNACCEPTED in planted.refused(*start, *THREAD)
    TrustedCode().add(planted.code)
    assert planted.verb("resume", sweep, *THREAD)[0] == 0 and planted.was_run


def test_a_path_without_a_text_runs_nothing_wherever_it_comes_from(planted: Planted, tmp_path: Path) -> None:
    experiment = Experiment(model=str(planted.path), device="cpu", steps=1)
    with Store() as store:
        run = store.add(experiment)
        (axis,) = axes_of({"batch_size": (2, 4)})
        grid = grid_of(json.loads(experiment.to_json()), [axis])
        sweep = store.sweeps.add("theirs", grid, Plan(), device_name="CPU", left_out={})
    for arguments in (["numerics", "--run", run.id], ["profile", "--run", run.id]):
        assert "the source code of that file is missing" in planted.refused(
            *arguments, "--trust-code", *THREAD
        )
    planted.verb("resume", sweep, "--trust-code", *THREAD)
    planted.verb("export", run.id, "--to", str(tmp_path / "run.py"))
    assert not planted.was_run


@pytest.mark.parametrize(
    "path", ["\\\\host\\share\\evil.py", "//host/share/evil.py", "\\??\\UNC\\host\\evil.py"]
)
def test_a_path_to_another_machine_is_not_even_opened(planted, tmp_path, path, monkeypatch):
    monkeypatch.setattr("engine.experiment.own.code._place", lambda path: pytest.fail(f"opened {path}"))
    write_preset("theirs", experiment={"model": path, "steps": 1})
    given = toml(tmp_path, device="cpu", sweep={"model": [path, "small-cnn"]})
    for arguments in (["run", "--preset", "theirs"], ["compare", "--config", given]):
        assert "is on a remote machine and was not opened" in planted.refused(*arguments, *THREAD)


def test_a_preset_that_sweeps_such_a_path_is_listed_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.experiment.own.code._place", lambda path: pytest.fail(f"opened {path}"))
    sweep = {"model": ["//host/share/evil.py"]}
    write_preset("theirs", kind="compare", experiment={}, sweep=sweep)
    assert main(["presets"]) == 0


@pytest.mark.parametrize("name", ["folder.py", "gone.py", "NET.PY", "a:b.py"])
def test_what_is_no_model_file_is_refused_in_a_sentence(planted: Planted, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.py").mkdir()
    for written in ("NET.PY", "a:b.py"):
        (tmp_path / written).write_text("def model(): ...\n")
    assert planted.refused("check", "--model", str(tmp_path / name), *THREAD)
