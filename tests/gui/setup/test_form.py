"""The setup form: what is typed is checked at once, and the button says what it begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.presets import all_presets, preset
from engine.experiment.problem import Kind, Problem
from gui.setup.fields import clean
from gui.setup.panel import SetupPanel

FP32, TF32, FP16, BF16 = Precision.FP32, Precision.TF32, Precision.FP16, Precision.BF16

TypeInto = Callable[[QLineEdit, str], None]


def test_the_preset_decides_what_is_ticked_on_a_cpu_and_on_a_gpu(
    panel: SetupPanel, user: Any, gpu: Catalog
) -> None:
    ticked = [precision for precision, chip in panel.form.tiles.chips.items() if chip.isChecked()]
    assert ticked == [FP32, BF16]
    assert panel.foot.run_button.text() == "Compare 2 precisions"
    assert panel.foot.text() == "2 runs, 752 steps each"
    assert panel.foot.run_button.isEnabled()
    panel.set_catalog(gpu)
    assert [experiment.precision for experiment in user.experiments()] == [FP32, FP16]


def test_the_button_waits_for_the_catalog(qtbot: QtBot, cpu: Catalog) -> None:
    panel = SetupPanel()
    qtbot.addWidget(panel)
    panel.set_presets(all_presets())
    assert not panel.run_action.isEnabled()
    assert panel.foot.text() == "Looking at this machine…"
    panel.set_catalog(cpu)
    assert panel.run_action.isEnabled()


def test_a_bad_value_is_told_under_the_field_and_at_the_button(
    panel: SetupPanel, type_into: TypeInto
) -> None:
    for text, reason in (
        ("6001", "Batch size is 6,001, but fashion has 6,000 samples."),
        ("1,5", "Batch size is '1,5', but it must be a whole number."),
    ):
        type_into(panel.form.batch, text)
        assert panel.form.problem("batch_size") == panel.foot.text() == reason
        assert panel.foot.run_button.toolTip() == reason
        assert not panel.foot.run_button.isEnabled() and panel.request() is None
    type_into(panel.form.batch, "128")
    assert panel.form.problem("batch_size") is None
    assert panel.foot.run_button.isEnabled()


@pytest.mark.parametrize(
    ("key", "typed"), [("repeat", "1.5"), ("optimizer.learning_rate", "0.0015"), ("batch_size", "064")]
)
def test_a_value_like_the_presets_stays_as_it_is_typed(
    panel: SetupPanel, type_into: TypeInto, key: str, typed: str
) -> None:
    panel.form.more.set_open(True)
    panel.activateWindow()
    editor = panel.form.editor(key)
    assert isinstance(editor, QLineEdit)
    for length in range(len(typed) + 1):
        type_into(editor, typed[:length])
        assert editor.text() == typed[:length]


@pytest.mark.parametrize("text", ["", " ", "none"])
def test_a_run_has_a_length(panel: SetupPanel, type_into: TypeInto, text: str) -> None:
    type_into(panel.form.length, text)
    assert panel.foot.text() == "Length is empty."
    assert panel.form.problem("epochs") == "Length is empty. Enter how long to train."


@pytest.mark.parametrize(
    ("typed", "read"), [("12,800", "12800"), ("12 800", "12800"), ("0,001", "0,001"), ("1,5", "1,5")]
)
def test_a_decimal_comma_is_never_taken_for_thousands(typed: str, read: str) -> None:
    assert clean("optimizer.learning_rate", typed) == read


def test_what_does_not_fit_the_model_is_told_at_its_field_which_is_unfolded(
    panel: SetupPanel, type_into: TypeInto
) -> None:
    assert not panel.form.more.is_open()
    type_into(panel.form.model.field, "resnet50")
    assert panel.form.more.is_open()
    assert "needs images of 32" in (panel.form.problem("image_size") or "")
    type_into(panel.form.model.field, "resnet5")
    problem = panel.form.problem("model")
    assert problem == "There is no model named 'resnet5'. Did you mean resnet50?"
    type_into(panel.form.model.field, "resnet50")
    assert panel.form.problem("model") is None
    type_into(panel.form.model.field, "linear")
    assert "which linear cannot use" in (panel.form.problem("dataset") or "")


def test_chips_tick_one_or_several(panel: SetupPanel, qtbot: QtBot) -> None:
    qtbot.mouseClick(panel.form.tiles.chips[BF16], Qt.MouseButton.LeftButton)
    assert panel.foot.run_button.text() == "Train in FP32"
    assert panel.foot.text() == "1 run, 752 steps"
    qtbot.mouseClick(panel.form.tiles.chips[FP32], Qt.MouseButton.LeftButton)
    assert panel.form.problem("precision") == "No precision is selected. Select one, or several to compare."
    assert not panel.run_action.isEnabled()


def test_a_question_about_one_precision_selects_one(panel: SetupPanel, qtbot: QtBot) -> None:
    def selected() -> set[Precision]:
        return {precision for precision, chip in panel.form.tiles.chips.items() if chip.isChecked()}

    panel.change(lambda draft: draft.with_precisions((FP32, BF16)))
    panel.set_question("numerics")
    assert selected() == {BF16} and panel.run_action.text() == "Examine BF16 AMP"
    qtbot.mouseClick(panel.form.tiles.chips[BF16], Qt.MouseButton.LeftButton)
    assert selected() == {BF16}
    panel.set_question("compare")
    assert selected() == {FP32, BF16}
    panel.set_question("numerics")
    qtbot.mouseClick(panel.form.tiles.chips[FP16], Qt.MouseButton.LeftButton)
    assert selected() == {FP16} and panel.run_action.text() == "Examine FP16 AMP"


def test_a_precision_that_the_device_cannot_do_says_why_and_can_only_be_taken_off(
    panel: SetupPanel, qtbot: QtBot
) -> None:
    chip = panel.form.tiles.chips[TF32]
    assert not chip.isEnabled()
    assert "no Tensor Cores" in chip.toolTip()
    panel.use_settings(Experiment(precision=TF32))
    assert "is not available" in (panel.form.problem("precision") or "")
    assert panel.form.tiles.chips[TF32].isEnabled()
    qtbot.mouseClick(panel.form.tiles.chips[TF32], Qt.MouseButton.LeftButton)
    assert not panel.form.tiles.chips[TF32].isEnabled()


def test_reset_takes_every_change_back(
    panel: SetupPanel, qtbot: QtBot, type_into: TypeInto, user: Any
) -> None:
    before = panel.outcome().experiments
    type_into(panel.form.batch, "abc")
    type_into(user.option("optimizer.learning_rate"), "0.5")
    qtbot.mouseClick(panel.form.tiles.chips[FP16], Qt.MouseButton.LeftButton)
    panel.reset_action.trigger()
    assert panel.form.batch.text() == "64"
    assert panel.outcome().experiments == before


def test_another_preset_replaces_everything(panel: SetupPanel, user: Any) -> None:
    panel.choose_preset("hello-amp")
    (experiment,) = user.experiments()
    assert (experiment.model, experiment.precision, experiment.optimizer.name) == ("linear", FP16, "sgd")
    assert panel.foot.run_button.text() == "Train in FP16 AMP"


def test_a_preset_says_that_it_is_smaller_without_a_gpu(panel: SetupPanel, gpu: Catalog) -> None:
    name = next(found.name for found in all_presets() if found.without_gpu_note)
    panel.choose_preset(name)
    note = preset(name).without_gpu_note
    assert note and panel.form.rows["preset"].hint() == note
    assert note in panel.form.editor("preset").toolTip()
    panel.set_catalog(gpu)
    assert panel.form.rows["preset"].hint() == ""


def test_what_the_engine_refuses_is_said_at_its_field_until_it_is_changed(
    panel: SetupPanel, user: Any
) -> None:
    panel.form.more.set_open(True)
    panel.set_text("step.fp32_modules", "layer9.*")
    (experiment, *_) = user.experiments()
    panel.show_refusal(
        experiment,
        Problem(
            kind=Kind.REQUEST,
            message="Modules kept in FP32 has 'layer9.*', but no part of the model has a name like it.",
            remedy="Name one of its parts.",
            key="step.fp32_modules",
        ),
    )
    assert "Modules kept in FP32 has 'layer9.*'" in (panel.form.problem("step.fp32_modules") or "")
    assert not panel.run_action.isEnabled()
    panel.set_text("step.fp32_modules", "layer4.*")
    assert panel.form.problem("step.fp32_modules") is None and panel.run_action.isEnabled()


def test_the_wheel_over_a_control_scrolls_the_form(panel: SetupPanel) -> None:
    panel.form.batch.setFocus()
    before = panel.form.editor("dataset").value()
    turn = QWheelEvent(
        QPointF(5, 5),
        QPointF(panel.form.editor("dataset").mapToGlobal(QPoint(5, 5))),
        QPoint(),
        QPoint(0, -120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(panel.form.editor("dataset"), turn)
    assert panel.form.editor("dataset").value() == before


def test_every_control_has_a_name_and_a_tip(panel: SetupPanel) -> None:
    panel.form.more.set_open(True)
    kinds = (QAbstractButton, QLineEdit, QComboBox, QAbstractItemView)
    controls = [widget for kind in kinds for widget in panel.findChildren(kind)]
    assert len(controls) > 30
    for control in controls:
        assert control.accessibleName(), control
        assert control.toolTip(), (control, control.accessibleName())


def test_fp8_is_told_at_once_where_it_does_nothing_or_promises_nothing(
    panel: SetupPanel, gpu: Catalog, type_into: TypeInto
) -> None:
    models = (gpu.models[0].model_copy(update={"is_convolutional": True}), *gpu.models[1:])
    panel.set_catalog(gpu.model_copy(update={"models": models}))

    tip = panel.form.tiles.chips[Precision.FP8].toolTip
    assert "has no effect" not in tip()
    panel.use_settings(Experiment(precision=Precision.FP8))
    assert "has no effect on small-cnn, because convolutions are not converted" in tip().lower()
    assert panel.form.tiles.chips[Precision.FP8].isVisible(), "a selected one is unfolded"
    language = {"model": "gpt", "dataset": "synthetic-tokens", "precision": "fp8"}
    panel.use_settings(Experiment.model_validate(language))
    assert "is unlikely to be faster without compile in optimizations" in tip().lower()
    panel.use_settings(Experiment.model_validate({**language, "step": {"recipe": "compile"}}))
    assert "faster" not in tip()


def test_a_low_window_has_everything_but_options_in_sight(panel: SetupPanel, qtbot: QtBot) -> None:
    def lowest(control: QWidget) -> int:
        return control.mapTo(panel, QPoint(0, control.height())).y()

    panel.resize(304, 648)
    panel.set_compact(True)
    shown = (*panel.form.tiles.chips.values(), *(row for row in panel.form.rows.values() if row.isVisible()))
    qtbot.waitUntil(lambda: max(map(lowest, shown)) <= panel.foot.y())
    assert panel.foot.height() == 112
    assert not any(
        label.isVisible() for label in panel.form.rows["model"].findChildren(QLabel) if label.text()
    )
    panel.resize(304, 1_200)
    rows = [panel.form.rows[key] for key in ("batch_size", "length", "repeat")]
    qtbot.waitUntil(lambda: [lowest(row) - lowest(rows[0]) for row in rows] == [0, 40, 80])
    panel.set_compact(False)
    panel.resize(320, 848)
    qtbot.waitUntil(lambda: max(map(lowest, shown)) <= panel.foot.y())
    assert panel.foot.height() == 112


def test_the_busy_machine_clips_nothing_of_the_foot(panel: SetupPanel, qtbot: QtBot) -> None:
    load = "This machine is busy: other programs use 96% of the CPU, mostly pytest."
    panel.foot.set_facts(load=load, may_wait=True)
    button = panel.foot.run_button
    busy = panel.foot.busy
    qtbot.waitUntil(lambda: busy.height() >= busy.heightForWidth(busy.width()))
    bottom = button.mapTo(panel, QPoint(0, button.height())).y()
    assert panel.height() - bottom == 12
