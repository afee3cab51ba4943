"""The axes of a sweep in the form, and the grid that they make."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from engine.experiment.checks import Catalog
from engine.experiment.optimizers import OPTIMIZERS
from engine.experiment.presets import all_presets
from gui.session.request import Request
from gui.setup.draft import Draft
from gui.setup.fields import join_values, split_values
from gui.setup.panel import SetupPanel
from gui.setup.saving import save_preset
from gui.setup.sweep.axes import ValuesBox, ValuesEdit, ValuesPopup
from gui.setup.sweep.grid_block import GridDialog

TypeInto = Callable[[QLineEdit, str], None]
SIZES = ("32", "64", "128")


@pytest.fixture
def surveyed(panel: SetupPanel, qtbot: QtBot) -> Callable[[], Request | None]:
    """The request once the grid has been checked."""
    panel.set_question("sweep")

    def surveyed() -> Request | None:
        qtbot.waitUntil(lambda: panel.survey_thread.survey() is not None)
        return panel.request()

    return surveyed


def typed(panel: SetupPanel, key: str) -> ValuesEdit:
    editor = panel.form.axes.editor(key)
    assert isinstance(editor, ValuesEdit)
    return editor


@pytest.mark.parametrize(
    ("key", "text", "values"),
    [
        ("batch_size", "32, 64, 128", SIZES),
        ("batch_size", "64,128", ("64,128",)),
        ("batch_size", "32,64,128", SIZES),
        ("batch_size", "1,024, 2,048", ("1,024", "2,048")),
        ("batch_size", "32; 64", ("32", "64")),
        ("batch_size", "32, ", ("32",)),
        ("optimizer.learning_rate", "0,5", ("0,5",)),
        ("optimizer.learning_rate", "0.1,0.01", ("0.1", "0.01")),
        ("step.clip_norm", "none, 1", ("", "1")),
        ("step.fp32_modules", "fc, layer4.*; fc", ("fc, layer4.*", "fc")),
        ("path", "/a, b", ("/a, b",)),
    ],
)
def test_a_text_holds_these_values(key: str, text: str, values: tuple[str, ...]) -> None:
    assert split_values(key, text) == values
    assert split_values(key, join_values(key, values)) == values


def test_an_axis_is_added_typed_and_removed(
    panel: SetupPanel, type_into: TypeInto, surveyed: Callable[[], Request | None]
) -> None:
    assert not panel.run_action.isEnabled() and "two or more values" in panel.foot.text()
    axes = panel.form.axes
    axes.adder.edited.emit("batch_size")
    assert typed(panel, "batch_size").text() == "32, 64, 128" and panel.text("batch_size") == "32"
    assert not panel.form.rows["batch_size"].isVisible(), "its values take its place"
    assert "batch_size" not in [key for key, _ in axes.adder.choices()]
    axes.adder.edited.emit("optimizer.learning_rate")
    assert axes.fields["optimizer.learning_rate"].hint()
    type_into(typed(panel, "optimizer.learning_rate"), "0.01; 0.1")
    assert panel.foot.run_button.text() == "Compare 12 combinations"
    request = surveyed()
    assert request is not None and request.grid is not None and request.plan is not None
    assert [axis.key for axis in request.grid.axes] == ["precision", "batch_size", "optimizer.learning_rate"]
    assert request.grid.axes[1].values == (32, 64, 128)
    assert len(request.experiments) == 2 and request.experiments[0][1].batch_size == 32
    assert panel.foot.text() == "12 combinations, 12 runs"
    for key in tuple(axes.fields):
        panel.set_axis(key, None)
    assert not axes.fields and panel.form.rows["batch_size"].isVisible()
    assert not panel.run_action.isEnabled()


def test_what_is_typed_stays_as_it_is(panel: SetupPanel, qtbot: QtBot, surveyed: object) -> None:
    panel.set_axis("batch_size", SIZES)
    editor = typed(panel, "batch_size")
    editor.selectAll()
    qtbot.keyClicks(editor, "16,  32, ")
    assert editor.text() == "16,  32, "
    assert panel.draft is not None and panel.draft.axes == {"batch_size": ("16", "32")}
    editor.setFocus()
    stops = []
    for _ in range(2):
        qtbot.keyClick(panel.focusWidget(), Qt.Key.Key_Tab)
        stops.append(panel.focusWidget())
    assert panel.form.axes.adder in stops, "it follows the axis and its cross"


def test_only_sweep_has_axes_and_none_is_lost(panel: SetupPanel, cpu: Catalog) -> None:
    panel.set_axis("batch_size", SIZES)
    assert panel.text("batch_size") == "64" and panel.foot.run_button.text() == "Compare 2 precisions"
    panel.set_question("sweep")
    assert panel.foot.run_button.text() == "Compare 6 combinations"
    panel.set_text("within", "2")
    panel.set_text("hours", "8")
    state = json.loads(json.dumps(panel.state()))
    panel.reset_action.trigger()
    assert panel.draft is not None and not panel.draft.axes and panel.text("hours") == ""
    panel.restore(state)
    assert panel.draft.axes == {"batch_size": SIZES}
    assert (panel.text("within"), panel.text("hours"), panel.question) == ("2", "8", "sweep")
    panel.restore({**state, "preset": "gone"})
    assert panel.draft.axes == {"batch_size": SIZES}
    panel.use_settings(panel.outcome().experiments[0][1])
    assert panel.question == "compare" and panel.text("batch_size") == "32"
    assert panel.foot.run_button.text() == "Train in FP32" and panel.draft.axes == {"batch_size": SIZES}


def test_the_plan_is_asked_for_only_with_a_sweep(
    panel: SetupPanel, type_into: TypeInto, surveyed: Callable[[], Request | None]
) -> None:
    panel.set_axis("batch_size", SIZES)
    for key, text in (("repeat", "3"), ("within", "2"), ("hours", "1.5")):
        editor = panel.form.editor(key)
        assert isinstance(editor, QLineEdit) and editor.isVisible()
        type_into(editor, text)
    request = surveyed()
    assert request is not None and request.plan is not None
    assert (request.plan.repeats, request.plan.precision_percent) == (3, 2)
    assert request.plan.time_limit_seconds == 5_400
    panel.set_text("within", "x")
    assert surveyed() is None
    assert panel.form.problem("within") == "To within is 'x', but it must be a number."
    panel.set_question("compare")
    assert not panel.form.rows["within"].isVisible() and panel.request() is not None


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (("32", "0"), "The combination FP32, batch size 0 cannot be trained: Batch size is '0'"),
        (("32", "32"), "Batch size has the value 32 twice. Use every value once."),
        (("10,000", "20,000"), "Batch size is 10,000, but fashion has 6,000 samples."),
    ],
)
def test_what_is_wrong_with_some_cells_is_told_at_the_axis(
    panel: SetupPanel, surveyed: Callable[[], Request | None], values: tuple[str, ...], problem: str
) -> None:
    panel.set_axis("batch_size", values)
    assert surveyed() is None and not panel.run_action.isEnabled()
    assert (panel.form.problem("batch_size") or "").startswith(problem)
    assert panel.foot.text()[:20] == problem[:20]


def test_too_many_combinations_are_refused(panel: SetupPanel, surveyed: Callable[[], Request | None]) -> None:
    panel.set_axis("batch_size", [str(size) for size in range(1, 5_002)])
    assert surveyed() is None
    assert panel.foot.text() == "The sweep would have 10,002 combinations, but the maximum is 10,000."


def test_a_cell_that_cannot_be_trained_here_is_left_out(
    panel: SetupPanel, surveyed: Callable[[], Request | None]
) -> None:
    panel.set_axis("batch_size", ("10,000", "64"))
    assert surveyed() is not None and panel.form.problem("batch_size") is None
    assert panel.foot.text() == "4 combinations, 2 runs"
    block, why = panel.form.axes.grid, "Batch size is 10,000, but fashion has 6,000 samples."
    assert block.text().startswith(
        f"2 of 4 combinations cannot be trained here. FP32, batch size 10,000: {why}"
    )
    assert block.text().endswith("The time is estimated after the pilots")
    assert block.map.cell_at(block.map.rect().topLeft()) == 0
    assert block.map.tip(0) == f"FP32, batch size 10,000\n{why}"
    block.map.click()
    dialog = panel.window().findChild(GridDialog)
    assert dialog is not None
    assert dialog.table.model().index(0, 3).data() == why
    dialog.close()


def test_a_setting_that_applies_with_any_of_the_values_is_shown(cpu: Catalog) -> None:
    draft = Draft(all_presets()[0]).with_axis("optimizer.name", ("adamw", "sgd"))
    assert draft.applies("optimizer.momentum", cpu)
    assert not draft.first.applies("optimizer.momentum", cpu)


def test_a_preset_with_a_sweep_fills_the_axes_and_is_saved_from_them(
    panel: SetupPanel, surveyed: Callable[[], Request | None]
) -> None:
    panel.set_question("compare")
    panel.choose_preset("batch-sweep")
    assert panel.question == "sweep" and len(typed(panel, "batch_size").text().split(", ")) > 1
    assert surveyed() is not None
    panel.choose_preset("fashion")
    assert panel.question == "compare"
    panel.set_question("sweep")
    panel.set_axis("batch_size", ("32", "64"))
    panel.set_axis("step.clip_norm", ("", "1"))
    request = surveyed()
    assert request is not None
    draft = Draft(save_preset("My sweep", request.experiments, request.grid))
    assert draft.axes == {"batch_size": ("32", "64"), "step.clip_norm": ("none", "1")}
    assert [precision.value for precision in draft.selected] == ["fp32", "bf16"]


def test_choices_are_ticked_in_a_list_also_by_keyboard(
    panel: SetupPanel, qtbot: QtBot, surveyed: Callable[[], Request | None]
) -> None:
    panel.form.axes.adder.edited.emit("optimizer.name")
    popup = panel.findChild(ValuesPopup)
    assert popup is not None, "one of many choices is not yet a sweep"
    for row in range(popup.list.count()):
        popup.list.item(row).setCheckState(Qt.CheckState.Checked)
    popup.close()
    request = surveyed()
    assert request is not None and request.grid is not None
    axis = request.grid.axes[-1]
    assert axis.key == "optimizer.name" and len(axis.values) == len(OPTIMIZERS) and axis.values[0] == "adamw"
    box = panel.form.axes.editor("optimizer.name")
    assert isinstance(box, ValuesBox) and box.accessibleDescription().startswith("AdamW, Adam")
    qtbot.keyClick(box, Qt.Key.Key_Down)
    qtbot.waitUntil(lambda: bool(panel.findChildren(ValuesPopup)))
    for popup in panel.findChildren(ValuesPopup):
        popup.close()


def test_lengths_recipes_and_models_are_swept_too(
    panel: SetupPanel, surveyed: Callable[[], Request | None]
) -> None:
    panel.set_axis("epochs", ("1", "2"))
    assert not panel.form.rows["length"].isVisible()
    panel.set_axis("step.recipe", ("plain", "fast"))
    panel.set_axis("model", ("small-cnn", "resnet50"))
    request = surveyed()
    assert request is not None and request.grid is not None and request.grid.size == 16
    panel.set_axis("model", ("/nets/net.py", "resnet50"))
    assert surveyed() is None and "your own model file" in (panel.form.problem("model") or "")


def test_all_devices_beside_the_same_number_are_one_value(
    panel: SetupPanel, gpu: Catalog, surveyed: Callable[[], Request | None]
) -> None:
    cards = (gpu.devices[0].model_copy(update={"name": f"cuda:{place}"}) for place in range(2))
    panel.set_catalog(gpu.model_copy(update={"devices": tuple(cards)}))
    panel.set_axis("devices", ("1", "2", "all"))
    request = surveyed()
    assert request is not None and request.grid is not None
    assert request.grid.axes[-1].values == (1, 2)
    combinations = f" {request.grid.size} combinations"
    assert panel.foot.run_button.text().endswith(combinations)
    assert panel.foot.text().startswith(combinations.strip())


@pytest.mark.parametrize("key", [Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_L, Qt.Key.Key_Space])
def test_a_key_adds_no_axis_before_one_is_selected(panel: SetupPanel, qtbot: QtBot, key: Qt.Key) -> None:
    panel.set_question("sweep")
    adder = panel.form.axes.adder
    qtbot.keyClick(adder, key)
    assert panel.draft is not None and not panel.draft.axes
    assert adder.view().isVisible() == (key != Qt.Key.Key_L)
    if adder.view().isVisible():
        qtbot.keyClick(adder.view(), Qt.Key.Key_Home)
        qtbot.keyClick(adder.view(), Qt.Key.Key_Return)
        assert list(panel.draft.axes) == ["batch_size"]
