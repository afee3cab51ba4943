"""A model that is a file of the user's own: opened, followed on disk, kept with a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import experiment_from
from engine.experiment.own.code import OWN_DATA
from gui.session.request import Request
from gui.setup.model.choices import NEW
from gui.setup.panel import SetupPanel

NET = """
from torch import nn
from layers import WIDTH

class Net(nn.Module): pass

class Other(nn.Module): pass

def model(): return Net()
def batch(size): return None
"""

LINEAR = {"model": "linear", "dataset": "synthetic-regression", "device": "cpu"}


@pytest.fixture
def net(tmp_path: Path) -> Path:
    (tmp_path / "layers.py").write_text("WIDTH = 8\n")
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


def requested(panel: SetupPanel) -> Request:
    request = panel.request()
    assert request is not None, panel.outcome().reason
    return request


def code(panel: SetupPanel) -> str:
    own = requested(panel).experiments[0][1].own_code
    assert own is not None
    return own.text


def test_a_file_brings_its_code_and_data_and_runs_as_it_is_on_disk(
    panel: SetupPanel, net: Path, asked: Any
) -> None:
    panel.picker.open(str(net))
    experiment = requested(panel).experiments[0][1]
    assert (experiment.model, experiment.dataset) == ("net.py", OWN_DATA)
    assert experiment.own_code is not None and set(experiment.own_code.beside) == {"layers.py"}
    assert panel.form.model.value() == "net.py"
    panel.picker.open(str(net))
    net.write_text(NET + "# changed\n")
    panel.run_action.trigger()
    ((request,),) = asked["submitted"]
    assert request.experiments[0][1].own_code.text.endswith("# changed\n")
    (net.parent / "layers.py").write_text("WIDTH = 16\n")
    panel.reread()
    own = requested(panel).experiments[0][1].own_code
    assert own is not None and own.beside == {"layers.py": "WIDTH = 16\n"}


def test_settings_that_the_file_takes_over_are_hidden(panel: SetupPanel, net: Path) -> None:
    panel.form.more.set_open(True)
    fields = panel.form.more.form.rows
    assert fields["optimizer.name"].isVisible() and fields["image_size"].isVisible()
    net.write_text(NET + "def optimizer(model): return None\n")
    panel.picker.open(str(net))
    assert not fields["optimizer.name"].isVisible() and not fields["image_size"].isVisible()


def test_another_model_takes_the_place_of_the_file_and_its_data(panel: SetupPanel, net: Path) -> None:
    panel.picker.open(str(net))
    panel.picker.set_model("small-cnn")
    experiment = requested(panel).experiments[0][1]
    assert (experiment.code, experiment.dataset) == (None, "fashion")
    panel.picker.set_model("net.py:Net")
    assert requested(panel).experiments[0][1].model == "net.py:Net", "the folder is a recent one"


def test_a_file_that_cannot_be_read_is_a_problem_of_the_model(panel: SetupPanel, net: Path) -> None:
    panel.picker.open(str(net))
    net.write_text("def model(:\n")
    panel.run_action.trigger()
    assert "line 1" in (panel.form.problem("model") or "") and panel.request() is None
    net.unlink()
    panel.reread()
    assert "does not exist" in (panel.form.problem("model") or "")
    net.write_text(NET)
    panel.reread()
    assert panel.form.problem("model") is None


def test_a_run_keeps_its_code_until_the_file_is_wanted(panel: SetupPanel, net: Path) -> None:
    panel.picker.open(str(net))
    experiment = requested(panel).experiments[0][1]
    panel.use_settings(experiment)
    assert not panel.form.kept_code.text()
    net.write_text(NET + "# changed\n")
    panel.reread()
    panel.use_settings(experiment)
    assert code(panel) == NET
    assert panel.form.kept_code.text() == "Uses the run's code. net.py has changed since."
    state = panel.state()
    panel.reset_action.trigger()
    panel.restore(state)
    assert code(panel) == NET
    panel.form.kept_code.button.click()
    assert code(panel).endswith("# changed\n") and not panel.form.kept_code.text()
    net.unlink()
    panel.use_settings(experiment)
    assert code(panel) == NET and not panel.form.kept_code.text(), "a run can be repeated without its file"


def test_a_file_without_model_has_its_only_class_or_offers_all(panel: SetupPanel, net: Path) -> None:
    classes = NET.partition("def model")[0]
    net.write_text(classes.replace("class Other(nn.Module): pass", ""))
    panel.picker.open(str(net))
    assert panel.text("model") == "net.py:Net"
    net.write_text(classes)
    panel.picker.open(str(net))
    assert panel.form.problem("model") is not None
    shown = [panel.form.model.list.model().index(row, 0).data() for row in range(6)]
    assert panel.form.model.list.isVisible() and shown[4:] == ["net.py:Net", "net.py:Other"]
    panel.form.model.hidePopup()


def test_a_typed_path_is_taken_and_remembered(panel: SetupPanel, net: Path) -> None:
    panel.picker.set_model(str(net.with_name("missing.py")))
    assert "does not exist" in (panel.form.problem("model") or "")
    panel.form.model.field.textEdited.emit(str(net))
    assert panel.text("model") == "net.py"
    panel.run_action.trigger()
    assert panel.state()["recent_models"] == [str(net)]


def test_a_path_is_judged_once_it_is_typed(panel: SetupPanel, net: Path, qtbot: QtBot) -> None:
    field, before, dataset = panel.form.model.field, panel.text("model"), panel.form.editor("dataset").value()
    for end in range(1, len(str(net))):
        field.setText(str(net)[:end])
        field.textEdited.emit(field.text())
        assert panel.form.problem("model") is None and panel.form.editor("dataset").value() == dataset
        assert panel.text("model") == before
    panel.change(lambda draft: draft.with_change("batch_size", "32"))
    assert field.text() == str(net)[:-1], "a refresh does not take back what is being typed"
    field.textEdited.emit(str(net))
    assert panel.text("model") == "net.py"


def test_a_file_that_was_made_after_its_path_was_typed_is_taken(panel: SetupPanel, net: Path) -> None:
    later = net.with_name("later.py")
    panel.form.model.field.textEdited.emit(str(later))
    later.write_text(net.read_text(encoding="utf-8"), encoding="utf-8")
    assert panel.request() is not None and panel.text("model") == "later.py"


def test_another_model_takes_the_place_of_a_path_that_is_being_typed(panel: SetupPanel, net: Path) -> None:
    field = panel.form.model.field
    for choose, shown in (
        (lambda: panel.picker.open(str(net)), "net.py"),
        (lambda: panel.use_settings(experiment_from(LINEAR)), "linear"),
    ):
        field.setText(f"{net}x.p")
        field.textEdited.emit(field.text())
        choose()
        assert field.text() == panel.text("model") == shown
        assert panel.request() is not None and panel.text("model") == shown


def test_a_path_without_a_file_is_refused_when_it_is_finished(panel: SetupPanel, net: Path) -> None:
    field = panel.form.model.field
    # Save shows no dialog: what is shown is not what would be saved
    for finish in (field.editingFinished.emit, panel.request, panel.own_presets.save_action.trigger):
        panel.reset_action.trigger()
        field.setText(f"{net}x.p")
        field.textEdited.emit(field.text())
        assert panel.form.problem("model") is None
        finish()
        assert panel.form.problem("model") is not None


def test_the_template_is_written_and_becomes_the_model(
    panel: SetupPanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "mine"), ""))
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()))
    panel.form.model.picked.emit(NEW)
    path = tmp_path / "mine.py"
    assert panel.text("model") == "mine.py" and requested(panel).experiments[0][1].dataset == OWN_DATA
    assert opened == [str(path)]
