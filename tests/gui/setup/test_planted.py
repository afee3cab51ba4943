"""The form reads a file that somebody else names, and trusts only one that the user names here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from pytestqt.qtbot import QtBot

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import OWN_DATA, Code, read_code
from engine.experiment.own.trust import TrustedCode
from engine.experiment.presets import all_presets, own_presets_folder
from engine.protocol.advice import Advice, AdviceKind
from gui.setup.panel import SetupPanel

NET = "def model(): ...\ndef batch(size): ...\n"


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    folder = tmp_path / "planted"
    folder.mkdir()
    (folder / "evil.py").write_text(NET, encoding="utf-8")
    return folder / "evil.py"


@pytest.fixture
def never_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("engine.experiment.own.code._place", "gui.setup.model.picker._changed"):
        monkeypatch.setattr(name, lambda path: pytest.fail(f"looked at {path}"))


def code(panel: SetupPanel) -> Code | None:
    """The code of the model that the form would train."""
    experiments = panel.outcome().experiments
    return experiments[0][1].own_code if experiments else None


def is_trusted(panel: SetupPanel) -> bool:
    own = code(panel)
    assert own is not None, panel.outcome().reason
    return TrustedCode().has(own)


def kept(code: Code) -> Experiment:
    return experiment_from({"model": code.file, "code": code.to_json(), "dataset": OWN_DATA, "steps": 1})


def write_preset(panel: SetupPanel, **settings: Any) -> None:
    own_presets_folder().mkdir(parents=True, exist_ok=True)
    path = own_presets_folder() / "theirs.toml"
    path.write_text(tomli_w.dumps({"title": "Theirs", "experiment": settings}), encoding="utf-8")
    panel.set_presets(all_presets())


def type_model(panel: SetupPanel, text: str) -> None:
    panel.form.model.field.textEdited.emit(text)


@pytest.mark.parametrize("is_typed", [False, True])
def test_what_the_user_opens_or_types_is_trusted_as_it_changes(
    panel: SetupPanel, planted: Path, is_typed: bool
) -> None:
    if is_typed:
        type_model(panel, str(planted))
    else:
        panel.picker.open(str(planted))
    assert is_trusted(panel)
    planted.write_text(NET + "# changed\n", encoding="utf-8")
    panel.reread()
    own = code(panel)
    assert own is not None and own.text.endswith("# changed\n") and is_trusted(panel)


@pytest.mark.parametrize("class_name", ["", ":Net"])
def test_the_path_of_a_run_is_read_and_not_trusted(panel: SetupPanel, planted: Path, class_name: str) -> None:
    text = NET + "import torch\nclass Net(torch.nn.Module): ...\n"
    planted.write_text(text, encoding="utf-8")
    panel.use_settings(Experiment(model=f"{planted}{class_name}", steps=1))
    own = code(panel)
    assert own is not None and own.text == text and not is_trusted(panel)
    panel.run_action.trigger()
    assert panel.state()["recent_models"] == [], "it would be offered as if the user had named it"
    planted.write_text(text + "# changed\n", encoding="utf-8")
    panel.reread()
    assert not is_trusted(panel)


def test_a_link_to_a_file_is_another_path(panel: SetupPanel, planted: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(planted.parent, target_is_directory=True)
    panel.picker.open(str(tmp_path / "link" / "evil.py"))
    assert is_trusted(panel)
    planted.write_text(NET + "# changed\n", encoding="utf-8")
    panel.use_settings(Experiment(model=str(planted), steps=1))
    assert not is_trusted(panel)


def test_a_path_that_is_not_whole_leads_nowhere(
    panel: SetupPanel, planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(planted.parent)
    for name in ("evil.py", "./evil.py", "../planted/evil.py:Net"):
        panel.use_settings(Experiment(model=name, steps=1))
        assert code(panel) is None and panel.request() is None
        assert "the source code of that file is missing" in (panel.form.problem("model") or "")
    type_model(panel, "evil.py")
    assert is_trusted(panel), "typed, it is in the folder of that moment"


def test_neither_the_path_of_a_preset_nor_the_name_of_a_class_is_trusted(
    panel: SetupPanel, planted: Path
) -> None:
    write_preset(panel, model=str(planted), steps=1)
    panel.choose_preset("theirs")
    assert not is_trusted(panel)
    planted.write_text(NET + "import torch\nclass Net(torch.nn.Module): ...\n", encoding="utf-8")
    panel.use_settings(Experiment(model=str(planted), steps=1))
    type_model(panel, "evil.py:Net")
    assert panel.text("model") == "evil.py:Net" and not is_trusted(panel)


def test_the_file_beside_a_runs_code_is_not_trusted(panel: SetupPanel, planted: Path) -> None:
    text = "def model(): return 1\ndef batch(size): ...\n"
    harmless = read_code(planted).model_copy(update={"text": text})
    TrustedCode().add(harmless)
    panel.use_settings(kept(harmless))
    assert is_trusted(panel) and "has changed since" in panel.form.kept_code.text()
    panel.run_action.trigger()
    assert panel.state()["recent_models"] == []
    panel.form.kept_code.button.click()
    own = code(panel)
    assert own is not None and own.text == NET and not is_trusted(panel)


def test_escape_brings_back_a_name_and_no_other_file_of_that_name(
    panel: SetupPanel, planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(planted.parent)
    panel.use_settings(kept(Code(file="evil.py", folder="/elsewhere", text=NET + "# of a run\n")))
    type_model(panel, "small-cnn")
    panel.picker.set_model("evil.py")
    assert code(panel) is None
    assert not TrustedCode().has(read_code(planted))


def test_a_name_stands_for_a_recent_file_and_not_for_one_where_the_window_was_started(
    panel: SetupPanel, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine" / "evil.py"
    mine.parent.mkdir()
    mine.write_text(NET + "# mine\n", encoding="utf-8")
    panel.picker.open(str(mine))
    type_model(panel, "small-cnn")
    monkeypatch.chdir(planted.parent)
    type_model(panel, "evil.py")
    own = code(panel)
    assert own is not None and own.place == mine


def test_a_window_that_is_restored_from_a_copied_folder_trusts_nothing(
    panel: SetupPanel, planted: Path, cpu: Catalog, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel.picker.open(str(planted))
    state = json.loads(json.dumps(panel.state()))
    assert state["recent_models"] == [str(planted)]
    panel.reset_action.trigger()
    panel.restore(state)
    assert is_trusted(panel) and panel.state()["recent_models"] == [str(planted)]
    monkeypatch.setenv("AMMETER_HOME", str(planted.parent))
    again = SetupPanel()
    qtbot.addWidget(again)
    again.set_presets(all_presets())
    again.set_catalog(cpu)
    again.restore(state)
    assert not is_trusted(again) and again.state()["recent_models"] == []


def test_a_restored_text_is_not_trusted_for_a_named_file_that_is_gone(
    panel: SetupPanel, planted: Path
) -> None:
    panel.picker.open(str(planted))
    state = json.loads(json.dumps(panel.state()).replace("def model", "def  model"))
    planted.unlink()
    panel.reset_action.trigger()
    panel.restore(state)
    kept = Code(file=planted.name, folder=str(planted.parent), text=NET)
    other = Code(**{**kept.model_dump(), "text": NET.replace("def model", "def  model")})
    assert "def  model" in json.dumps(state)
    assert TrustedCode().has(kept) and not TrustedCode().has(other)


@pytest.mark.usefixtures("never_opened")
@pytest.mark.parametrize("path", [r"\\host\share\evil.py", "//host/share/evil.py"])
def test_a_path_to_another_machine_is_not_even_looked_at(panel: SetupPanel, path: str) -> None:
    panel.use_settings(Experiment(model=path, steps=1))
    assert "is on a remote machine" in (panel.form.problem("model") or "")
    write_preset(panel, model=path, steps=1)
    panel.choose_preset("theirs")
    assert "is on a remote machine" in (panel.form.problem("model") or "")
    folder = path.removesuffix("/evil.py").removesuffix(r"\evil.py")
    panel.use_settings(kept(Code(file="evil.py", folder=folder, text=NET)))
    assert not panel.form.kept_code.text() and not is_trusted(panel)


def test_advice_sets_how_is_trained_and_never_what(panel: SetupPanel, planted: Path, asked: Any) -> None:
    before = panel.state()
    forbidden = (
        ("model", str(planted)), ("code", read_code(planted).to_json()), ("dataset", OWN_DATA),
        ("path", "/etc"), ("device", "cpu"), ("unknown", "1"),
    )  # fmt: skip
    panel.use_changes(forbidden)
    assert panel.state() == before and not asked["changed_itself"]
    panel.use_changes((*forbidden, ("optimizer.learning_rate", "0.5"), ("step.fp32_modules", "fc")))
    assert [words for words, _undo in asked["changed_itself"]] == [
        "Changed in the form: Learning rate: 0.5 · Modules kept in FP32: fc."
    ]
    assert (panel.text("model"), panel.text("optimizer.learning_rate")) == ("small-cnn", "0.5")
    advice = Advice(kind=AdviceKind.RANGE, message="Try it.", evidence="", changes=forbidden)
    assert advice.changes == ()
