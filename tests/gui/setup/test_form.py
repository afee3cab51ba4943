"""The setup form: what is typed is checked at once, and the button asks for exactly what stands there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QComboBox,
    QFileDialog,
    QLabel,
    QLineEdit,
)
from pytestqt.qtbot import QtBot

from engine.experiment.checks import Catalog, DatasetEntry, DeviceEntry, ModelEntry, PrecisionEntry
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.presets import all_presets, preset
from engine.experiment.problem import Kind, Problem
from gui.setup.controls import NumberEdit
from gui.setup.draft import Draft, plain
from gui.setup.panel import Request, SetupPanel
from gui.theme.theme import theme

# the offscreen platform says so whenever a window or a popup is shown
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

FP32, TF32, FP16, BF16 = Precision.FP32, Precision.TF32, Precision.FP16, Precision.BF16


def device(name: str, *able: Precision, note: str | None = None) -> DeviceEntry:
    entries = tuple(
        PrecisionEntry(
            precision=precision,
            available=precision in able,
            reason=None if precision in able else "it has no Tensor Cores",
            note=note if precision is FP16 else None,
        )
        for precision in Precision
    )
    return DeviceEntry(name=name, title="A device", memory_mib=16_384, precisions=entries)


def catalog(*devices: DeviceEntry) -> Catalog:
    return Catalog(
        devices=devices or (device("cpu", FP32, FP16, BF16, note="slow on this CPU"),),
        models=(
            ModelEntry(name="small-cnn", task="classification", parameters=421_642, min_image_size=8),
            ModelEntry(name="resnet50", task="classification", parameters=25_557_032, min_image_size=32),
            ModelEntry(name="linear", task="regression", parameters=11),
            ModelEntry(name="gpt", task="language", parameters=5_000_000, max_sequence_length=1_024),
        ),
        datasets=(
            DatasetEntry(
                name="fashion",
                title="Fashion-MNIST, built in",
                task="classification",
                image_size=28,
                num_classes=10,
                train_samples=6_000,
                validation_samples=1_000,
            ),
            DatasetEntry(
                name="synthetic",
                title="Synthetic",
                task="classification",
                image_size=224,
                num_classes=1_000,
                any_classes=True,
            ),
            DatasetEntry(name="synthetic-regression", title="Regression", task="regression"),
            DatasetEntry(
                name="image-folder",
                title="A folder of pictures",
                task="classification",
                image_size=224,
                needs_path=True,
                can_augment=True,
                fits_device=False,
                loads=True,
            ),
            DatasetEntry(
                name="synthetic-tokens", title="Tokens", task="language", num_classes=32_000, any_classes=True
            ),
        ),
    )


@pytest.fixture
def panel(qtbot: QtBot) -> SetupPanel:
    theme()
    panel = SetupPanel()
    qtbot.addWidget(panel)
    panel.set_presets(all_presets())
    panel.choose_preset("fashion")
    panel.set_catalog(catalog())
    panel.resize(320, 848)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel


def type_into(qtbot: QtBot, edit: QLineEdit, text: str) -> None:
    edit.setFocus()
    edit.selectAll()
    qtbot.keyClick(edit, Qt.Key.Key_Delete)
    qtbot.keyClicks(edit, text)


def option(panel: SetupPanel, key: str) -> NumberEdit:
    control = panel.form.more.form.control(key)
    assert isinstance(control, NumberEdit)
    return control


def experiments(panel: SetupPanel) -> list[Experiment]:
    return [experiment for _, experiment in panel.outcome().experiments]


def test_the_preset_decides_what_is_ticked_and_what_the_button_says(panel: SetupPanel) -> None:
    ticked = [precision for precision, chip in panel.form.chips.items() if chip.isChecked()]
    assert ticked == [FP32, BF16]
    assert panel.foot.run_button.text() == "Compare 2 precisions"
    assert panel.foot.line.text() == "2 runs, 752 steps each"
    assert panel.foot.run_button.isEnabled()


def test_on_a_gpu_the_same_preset_compares_with_fp16(panel: SetupPanel) -> None:
    panel.set_catalog(catalog(device("cuda:0", *Precision)))
    assert [experiment.precision for experiment in experiments(panel)] == [FP32, FP16]


def test_the_button_waits_for_the_catalog(qtbot: QtBot) -> None:
    panel = SetupPanel()
    qtbot.addWidget(panel)
    panel.set_presets(all_presets())
    assert not panel.run_action.isEnabled()
    assert panel.foot.line.text() == "Looking at this machine…"
    panel.set_catalog(catalog())
    assert panel.run_action.isEnabled()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("abc", "Batch size is 'abc', but it must be a whole number."),
        ("0", "Batch size is '0', but it must be 1 or more."),
        ("", "Batch size is empty, but it must be a whole number."),
        ("6001", "Batch size is 6,001, but fashion has 6,000 samples."),
        ("1,5", "Batch size is '1,5', but it must be a whole number."),
    ],
)
def test_a_bad_value_is_told_under_the_field_and_at_the_button(
    panel: SetupPanel, qtbot: QtBot, text: str, reason: str
) -> None:
    type_into(qtbot, panel.form.batch_size, text)
    assert panel.form.problem("batch_size") == reason
    assert not panel.foot.run_button.isEnabled()
    assert panel.foot.run_button.toolTip() == reason
    assert panel.foot.line.text() == reason
    assert panel.request() is None
    type_into(qtbot, panel.form.batch_size, "128")
    assert panel.form.problem("batch_size") is None
    assert panel.foot.run_button.isEnabled()


def test_thousands_may_be_separated(panel: SetupPanel, qtbot: QtBot) -> None:
    type_into(qtbot, panel.form.batch_size, "1,024")
    assert {experiment.batch_size for experiment in experiments(panel)} == {1_024}


@pytest.mark.parametrize(
    ("typed", "read"), [("12,800", "12800"), ("12 800", "12800"), ("0,001", "0,001"), ("1,5", "1,5")]
)
def test_a_decimal_comma_is_never_taken_for_thousands(typed: str, read: str) -> None:
    assert plain("optimizer.learning_rate", typed) == read


def test_an_unknown_model_is_answered_with_a_near_one(panel: SetupPanel, qtbot: QtBot) -> None:
    type_into(qtbot, panel.form.model.field, "resnet5")
    problem = panel.form.problem("model")
    assert problem == "Model is 'resnet5', but there is no model of that name. Did you mean resnet50?"
    type_into(qtbot, panel.form.model.field, "resnet50")
    assert panel.form.problem("model") is None


def test_a_dataset_that_the_model_cannot_take_is_told_at_the_dataset(panel: SetupPanel, qtbot: QtBot) -> None:
    type_into(qtbot, panel.form.model.field, "linear")
    assert "which linear cannot take" in (panel.form.problem("dataset") or "")


def test_a_problem_among_the_options_folds_them_out(panel: SetupPanel, qtbot: QtBot) -> None:
    assert not panel.form.more.is_open()
    type_into(qtbot, panel.form.model.field, "resnet50")
    assert panel.form.more.is_open()
    assert "needs pictures of 32" in (panel.form.problem("image_size") or "")


def test_chips_tick_one_or_several(panel: SetupPanel, qtbot: QtBot) -> None:
    qtbot.mouseClick(panel.form.chips[BF16], Qt.MouseButton.LeftButton)
    assert panel.foot.run_button.text() == "Train in FP32"
    assert panel.foot.line.text() == "1 run, 752 steps"
    qtbot.mouseClick(panel.form.chips[FP32], Qt.MouseButton.LeftButton)
    assert panel.form.problem("precision") == "No precision is ticked. Tick one, or several to compare."
    assert not panel.run_action.isEnabled()


def test_a_precision_that_the_device_cannot_do_says_why(panel: SetupPanel) -> None:
    chip = panel.form.chips[TF32]
    assert not chip.isEnabled()
    assert "no Tensor Cores" in chip.toolTip()


def test_a_ticked_precision_that_cannot_be_used_can_be_taken_off(panel: SetupPanel, qtbot: QtBot) -> None:
    panel.use_settings(Experiment(precision=TF32))
    assert "cannot do it" in (panel.form.problem("precision") or "")
    assert panel.form.chips[TF32].isEnabled()
    qtbot.mouseClick(panel.form.chips[TF32], Qt.MouseButton.LeftButton)
    assert not panel.form.chips[TF32].isEnabled()


def test_the_request_holds_what_the_form_says(panel: SetupPanel, qtbot: QtBot) -> None:
    type_into(qtbot, panel.form.length, "2")
    with qtbot.waitSignal(panel.run_requested) as signal:
        panel.foot.run_button.click()
    request = signal.args[0]
    assert isinstance(request, Request)
    assert request.title == "FP32 against BF16 AMP"
    assert request.is_comparison
    assert request.name is None
    labels = [(label, experiment.precision, experiment.epochs) for label, experiment in request.experiments]
    assert labels == [("FP32", FP32, 2), ("BF16 AMP", BF16, 2)]


def test_a_name_goes_into_the_request(panel: SetupPanel, qtbot: QtBot) -> None:
    panel.form.more.set_open(True)
    type_into(qtbot, panel.form.more.form.name, "Before the change")
    request = panel.request()
    assert request is not None
    assert (request.title, request.name) == ("Before the change", "Before the change")


def test_repeats_are_told_by_the_button_and_go_into_the_request(panel: SetupPanel, qtbot: QtBot) -> None:
    type_into(qtbot, panel.form.repeat, "3")
    assert panel.foot.run_button.text() == "Compare 2 precisions, 3 times each"
    assert panel.foot.line.text() == "6 runs, 752 steps each"
    request = panel.request()
    assert request is not None and request.repeats == 3
    assert len(request.experiments) == 2
    panel.form.ticked.emit((FP32,))
    request = panel.request()
    assert panel.foot.run_button.text() == "Train in FP32, 3 times"
    assert request is not None and request.title == "FP32, 3 times"
    panel.reset_action.trigger()
    assert panel.form.repeat.text() == "1" and panel.foot.line.text() == "2 runs, 752 steps each"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Repeat is empty, but it must be a whole number."),
        ("0", "Repeat is '0', but it must be 1 or more."),
        ("2.5", "Repeat is '2.5', but it must be a whole number."),
        ("101", "Repeat is '101', but it must be at most 100."),
    ],
)
def test_a_number_of_repeats_that_cannot_be_is_told_under_its_field(
    panel: SetupPanel, qtbot: QtBot, text: str, reason: str
) -> None:
    type_into(qtbot, panel.form.repeat, text)
    assert panel.form.problem("repeat") == reason == panel.foot.line.text()
    assert panel.request() is None
    # the largest batch is searched once, however often its runs are to be repeated
    panel.set_on_limits(True)
    assert panel.run_action.isEnabled()


def test_repeats_beyond_the_largest_seed_are_told_at_the_seed(panel: SetupPanel, qtbot: QtBot) -> None:
    choose(panel, "seed", str(2**63 - 2))
    type_into(qtbot, panel.form.repeat, "2")
    assert panel.request() is not None
    type_into(qtbot, panel.form.repeat, "3")
    assert "3 repeats would need seeds beyond" in (panel.form.problem("seed") or "")


def test_while_a_run_trains_the_form_only_queues(panel: SetupPanel, qtbot: QtBot) -> None:
    panel.set_running(True)
    assert not panel.run_action.isEnabled()
    assert panel.foot.line.text() == "A run is training; add this one to the queue."
    with qtbot.waitSignal(panel.queue_requested):
        panel.foot.queue_button.click()
    panel.set_running(False)
    assert panel.run_action.isEnabled()


def test_a_length_that_gives_no_speed_is_told_beforehand(panel: SetupPanel, qtbot: QtBot) -> None:
    panel.form.length.unit_button.click()
    type_into(qtbot, panel.form.length, "59")
    assert panel.foot.line.text() == "2 runs, 59 steps each; a speed needs 60"
    type_into(qtbot, panel.form.length, "60")
    assert panel.foot.line.text() == "2 runs, 60 steps each"


def test_length_is_told_in_epochs_or_in_steps(panel: SetupPanel, qtbot: QtBot) -> None:
    panel.form.length.unit_button.click()
    assert panel.form.length.text() == "752"
    assert {(run.steps, run.epochs) for run in experiments(panel)} == {(752, None)}
    type_into(qtbot, panel.form.length, "")
    assert panel.form.problem("steps") == "Length is empty. Type how long to train."
    type_into(qtbot, panel.form.length, "752")
    panel.form.length.unit_button.click()
    assert panel.form.length.text() == "8"


def test_reset_takes_every_change_back(panel: SetupPanel, qtbot: QtBot) -> None:
    before = panel.outcome().experiments
    type_into(qtbot, panel.form.batch_size, "abc")
    type_into(qtbot, option(panel, "optimizer.learning_rate"), "0.5")
    qtbot.mouseClick(panel.form.chips[FP16], Qt.MouseButton.LeftButton)
    panel.reset_action.trigger()
    assert panel.form.batch_size.text() == "64"
    assert panel.outcome().experiments == before


def test_another_preset_replaces_everything(panel: SetupPanel) -> None:
    panel.choose_preset("hello-amp")
    (experiment,) = experiments(panel)
    assert (experiment.model, experiment.precision, experiment.optimizer.name) == ("linear", FP16, "sgd")
    assert panel.foot.run_button.text() == "Train in FP16 AMP"


def test_changed_options_are_counted(panel: SetupPanel, qtbot: QtBot) -> None:
    rate = option(panel, "optimizer.learning_rate")
    for text, note in (("0.5", "1 changed"), ("0.001", "all default"), ("1e-3", "all default")):
        type_into(qtbot, rate, text)
        assert panel.form.more.note() == note


def test_options_that_mean_nothing_are_hidden_and_left_out(panel: SetupPanel, qtbot: QtBot) -> None:
    panel.choose_preset("hello-amp")
    panel.form.more.set_open(True)
    momentum = option(panel, "optimizer.momentum")
    assert momentum.isVisible()
    type_into(qtbot, momentum, "0.9")
    name = panel.form.more.form.control("optimizer.name")
    name.edited.emit("adamw")
    assert not momentum.isVisible()
    assert panel.outcome().problems == {}
    assert experiments(panel)[0].optimizer.momentum == 0


def shown(panel: SetupPanel) -> set[str]:
    """The keys of the options that can be seen."""
    return {key for key, field in panel.form.more.form.fields.items() if field.isVisible()}


def choose(panel: SetupPanel, key: str, value: str) -> None:
    panel.form.more.form.control(key).edited.emit(value)


@pytest.mark.parametrize(
    ("schedule", "fields"),
    [
        ("constant", {"warmup_steps"}),
        ("cosine", {"warmup_steps", "final_fraction"}),
        ("one-cycle", {"rise_fraction"}),
        ("step", {"warmup_steps", "decay_epochs", "decay_factor"}),
    ],
)
def test_a_schedule_shows_its_own_fields(panel: SetupPanel, schedule: str, fields: set[str]) -> None:
    panel.form.more.set_open(True)
    choose(panel, "schedule.warmup_steps", "5")
    choose(panel, "schedule.name", schedule)
    of_schedule = {key for key in shown(panel) if key.startswith("schedule.")}
    assert of_schedule == {"schedule.name"} | {f"schedule.{field}" for field in fields}
    # what is hidden is left out, so that one-cycle is not refused for a warm-up nobody sees
    assert panel.outcome().problems == {}
    assert experiments(panel)[0].schedule.name == schedule


def test_what_belongs_to_autocast_is_shown_where_it_is_used(panel: SetupPanel) -> None:
    panel.form.more.set_open(True)
    choose(panel, "step.fp32_modules", "fc, layer4.*")
    assert experiments(panel)[1].step.fp32_modules == ("fc", "layer4.*")
    panel.form.ticked.emit((FP32,))
    assert not shown(panel) & {"step.fp32_modules", "step.autocast_tf32"}
    assert experiments(panel)[0].step.fp32_modules == ()


def test_a_scalers_settings_are_shown_where_a_run_has_one(panel: SetupPanel) -> None:
    panel.form.more.set_open(True)
    panel.form.ticked.emit((FP32, BF16))
    assert "scaler.init_scale" not in shown(panel)
    choose(panel, "scaler.mode", "on")
    assert "scaler.init_scale" in shown(panel)
    choose(panel, "scaler.mode", "auto")
    panel.form.ticked.emit((FP32, FP16))
    assert "scaler.init_scale" in shown(panel)


def test_a_three_way_switch_is_auto_on_or_off(panel: SetupPanel) -> None:
    found = []
    for value in ("true", "false", ""):
        choose(panel, "optimizer.fused", value)
        assert panel.form.more.form.control("optimizer.fused").currentData() == value
        found.append(experiments(panel)[0].optimizer.fused)
    assert found == [True, False, None]
    assert panel.form.more.note() == "all default"


def test_a_switch_survives_being_used_again(panel: SetupPanel) -> None:
    wanted = Experiment(
        data={"augment": True, "on_device": False, "workers": 4},
        checkpoint={"last": True, "every": 3},
        step={"recipe": "compile", "fp32_modules": ("fc",), "activation_checkpointing": True},
        dataset="image-folder",
        path="/pictures",
        model="resnet50",
        precision=FP16,
    )
    panel.use_settings(wanted)
    panel.restore(json.loads(json.dumps(panel.state())))
    draft = panel._draft
    assert draft is not None
    ((_, settings),) = draft.variants(catalog())
    assert Experiment.model_validate(settings) == wanted


def make_classes(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir()
        (folder / name / "1.png").write_bytes(b"")


def test_loader_settings_are_for_a_dataset_that_is_loaded(panel: SetupPanel, tmp_path: Path) -> None:
    make_classes(tmp_path, "cats", "dogs")
    panel.form.more.set_open(True)
    loading = {"data.on_device", "data.workers", "data.prefetch"}
    assert not shown(panel) & loading
    panel.form.edited.emit("model", "resnet50")
    panel.form.edited.emit("dataset", "image-folder")
    panel.form.edited.emit("path", str(tmp_path))
    assert loading < shown(panel) and "data.persistent_workers" not in shown(panel)
    choose(panel, "data.workers", "2")
    assert "data.persistent_workers" in shown(panel)
    assert {experiment.data.workers for experiment in experiments(panel)} == {2}
    panel.form.edited.emit("dataset", "fashion")
    panel.form.edited.emit("model", "small-cnn")
    assert {experiment.data.workers for experiment in experiments(panel)} == {0}


def test_a_folder_is_asked_for_where_the_dataset_is_one(
    panel: SetupPanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    assert not panel.form.path.isVisible()
    panel.form.edited.emit("model", "resnet50")
    panel.form.edited.emit("dataset", "image-folder")
    assert panel.form.path.isVisible()
    assert "Folder is empty" in (panel.form.problem("path") or "")
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(tmp_path))
    panel.form.path.button.click()
    assert panel.form.path.text() == str(tmp_path)
    assert "has no folders with pictures" in (panel.form.problem("path") or "")
    assert not panel.run_action.isEnabled()
    make_classes(tmp_path, "cats", "dogs")
    panel.form.path.button.click()
    assert panel.form.problem("path") is None
    assert {experiment.path for experiment in experiments(panel)} == {str(tmp_path)}
    qtbot.waitUntil(
        lambda: "2 pictures, 2 classes" in [label.text() for label in panel.form.findChildren(QLabel)]
    )


def test_text_has_a_sequence_length_and_no_pictures(panel: SetupPanel) -> None:
    panel.form.more.set_open(True)
    panel.form.edited.emit("dataset", "synthetic-tokens")
    panel.form.edited.emit("model", "gpt")
    assert "sequence_length" in shown(panel) and "image_size" not in shown(panel)
    choose(panel, "sequence_length", "2,048")
    assert "at most 1,024" in (panel.form.problem("sequence_length") or "")


def test_the_recipe_is_plain_fast_or_some_parts(panel: SetupPanel, qtbot: QtBot) -> None:
    recipe = panel.form.recipe
    assert recipe.choice.value() == "plain" and not recipe.boxes["fused"].isVisible()
    recipe.choice.button("fast").click()
    assert {experiment.step.recipe for experiment in experiments(panel)} == {"fast"}
    recipe.choice.button("parts").click()
    assert all(box.isVisible() and box.isChecked() for box in recipe.boxes.values())
    recipe.boxes["compile"].click()
    assert {experiment.step.recipe for experiment in experiments(panel)} == {"channels_last+fused+capture"}
    recipe.boxes["compile"].click()
    # all of them are fast, and the ticks stay under the hand that sets them
    assert experiments(panel)[0].step.recipe == "fast" and recipe.choice.value() == "parts"
    panel.reset_action.trigger()
    assert recipe.choice.value() == "plain" and not recipe.boxes["fused"].isVisible()


def test_a_search_asks_neither_how_long_nor_how_often(panel: SetupPanel) -> None:
    form = panel.form
    panel.set_on_limits(True)
    assert not form.length.isVisible() and not form.repeat.isVisible() and form.batch_size.isVisible()
    panel.set_on_limits(False)
    assert form.length.isVisible() and form.repeat.isVisible()
    panel.choose_preset("batch-limit")
    assert not form.length.isVisible()
    panel.use_batch(64)
    assert form.length.isVisible()


def test_accumulation_makes_fewer_steps(panel: SetupPanel) -> None:
    choose(panel, "step.gradient_accumulation", "4")
    assert panel.foot.line.text() == "2 runs, 192 steps each"


def test_checkpoints_are_counted_where_there_are_any(panel: SetupPanel) -> None:
    panel.form.more.set_open(True)
    assert "checkpoint.every" not in shown(panel)
    choose(panel, "checkpoint.last", "true")
    assert "checkpoint.every" in shown(panel)
    choose(panel, "validation.every", "0")
    assert "checkpoint.best" not in shown(panel)


def test_a_preset_says_that_it_is_smaller_without_a_gpu(panel: SetupPanel) -> None:
    name = next(found.name for found in all_presets() if found.without_gpu_note)
    panel.choose_preset(name)
    note = preset(name).without_gpu_note
    assert note and panel.form.preset_field.hint() == note
    assert note in panel.form.preset.toolTip()
    panel.set_catalog(catalog(device("cuda:0", *Precision)))
    assert panel.form.preset_field.hint() == ""


def test_what_is_left_behind_survives_a_restart(panel: SetupPanel, qtbot: QtBot) -> None:
    type_into(qtbot, panel.form.batch_size, "32")
    qtbot.mouseClick(panel.form.chips[FP16], Qt.MouseButton.LeftButton)
    panel.form.length.unit_button.click()
    type_into(qtbot, panel.form.repeat, "5")
    state = json.loads(json.dumps(panel.state()))
    again = SetupPanel()
    qtbot.addWidget(again)
    again.set_presets(all_presets())
    again.set_catalog(catalog())
    again.restore(state)
    assert again.outcome().experiments == panel.outcome().experiments
    assert again.state() == panel.state()
    assert again.form.repeat.text() == "5"


def test_what_an_older_window_left_behind_is_trained_once(panel: SetupPanel) -> None:
    older = {key: value for key, value in panel.state().items() if key != "repeats"}
    panel.restore(older)
    assert panel.form.repeat.text() == "1" and panel.request() is not None


def test_a_preset_that_is_gone_leaves_its_settings(panel: SetupPanel, qtbot: QtBot) -> None:
    type_into(qtbot, panel.form.batch_size, "32")
    state = {**panel.state(), "preset": "gone"}
    wanted = panel.outcome().experiments
    panel.choose_preset("hello-amp")
    panel.restore(state)
    assert panel.outcome().experiments == wanted


@pytest.mark.parametrize("state", [{"preset": 3}, {"preset": "fashion", "changes": 1, "name": ""}])
def test_a_broken_state_is_refused_and_changes_nothing(panel: SetupPanel, state: dict[str, object]) -> None:
    before = panel.outcome().experiments
    with pytest.raises((KeyError, TypeError, ValueError)):
        panel.restore(state)
    assert panel.outcome().experiments == before


def test_a_runs_settings_can_be_used_again(panel: SetupPanel) -> None:
    wanted = Experiment(
        model="resnet50", dataset="synthetic", batch_size=128, steps=200, precision=FP16, image_size=64
    )
    resolved = wanted.model_copy(update={"device": "cpu", "num_classes": 1_000})
    panel.use_settings(resolved)
    assert experiments(panel) == [wanted]


def test_the_wheel_over_a_control_scrolls_the_form(panel: SetupPanel) -> None:
    panel.form.batch_size.setFocus()
    before = panel.form.dataset.value()
    turn = QWheelEvent(
        QPointF(5, 5),
        QPointF(panel.form.dataset.mapToGlobal(QPoint(5, 5))),
        QPoint(),
        QPoint(0, -120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(panel.form.dataset, turn)
    assert panel.form.dataset.value() == before


def test_a_low_window_scrolls_and_keeps_the_buttons(panel: SetupPanel) -> None:
    panel.form.more.set_open(True)
    panel.resize(320, 600)
    assert panel.foot.geometry().bottom() == panel.height() - 1
    assert panel.foot.run_button.isVisible()
    assert panel.form.batch_size.width() > 120


def test_a_draft_over_a_preset_is_that_preset() -> None:
    draft = Draft(preset("fashion"))
    assert draft.changed_options == 0
    assert draft.ticked == (FP32, BF16)


def test_every_control_has_a_name_and_a_tip(panel: SetupPanel) -> None:
    panel.form.more.set_open(True)
    kinds = (QAbstractButton, QLineEdit, QComboBox, QAbstractItemView)
    controls = [widget for kind in kinds for widget in panel.findChildren(kind)]
    assert len(controls) > 30
    for control in controls:
        assert control.accessibleName(), control
        assert control.toolTip(), (control, control.accessibleName())


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_it_paints_in_both_themes(panel: SetupPanel, mode: str) -> None:
    theme().set_mode(mode)
    panel.form.more.set_open(True)
    picture = panel.grab().toImage()
    assert picture.pixelColor(4, 4).name().upper() == theme().palette.bg1


def test_what_the_engine_refuses_is_said_at_its_field_until_it_is_changed(panel: SetupPanel) -> None:
    panel.form.more.set_open(True)
    panel.form.edited.emit("step.fp32_modules", "layer9.*")
    (experiment, *_) = experiments(panel)
    panel.refuse(
        experiment,
        Problem(
            kind=Kind.REQUEST,
            message="step.fp32_modules has 'layer9.*', but no part of the model has a name like it.",
            remedy="Name one of its parts.",
            key="step.fp32_modules",
        ),
    )
    assert "Keep in FP32 has 'layer9.*'" in (panel.form.problem("step.fp32_modules") or "")
    assert not panel.run_action.isEnabled()
    panel.form.edited.emit("step.fp32_modules", "layer4.*")
    assert panel.form.problem("step.fp32_modules") is None and panel.run_action.isEnabled()


def test_a_refused_batch_size_can_be_made_smaller(panel: SetupPanel) -> None:
    (experiment, *_) = experiments(panel)
    problem = Problem(
        kind=Kind.REQUEST,
        message="batch_size is 64, but the folder has 50 pictures to train on.",
        remedy="Choose 50 or less.",
        key="batch_size",
    )
    panel.refuse(experiment, problem)
    assert panel.form.problem("batch_size") and not panel.run_action.isEnabled()
    panel.form.edited.emit("batch_size", "32")
    assert panel.form.problem("batch_size") is None and panel.run_action.isEnabled()
