"""Several values in fields of the form, and the grid that they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from gui.setup.several import SeveralPopup
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QToolButton
from pytestqt.qtbot import QtBot

from engine.experiment.checks import Catalog
from engine.experiment.presets import all_presets
from gui.session.request import Request
from gui.setup.draft import Draft
from gui.setup.fields import split_values
from gui.setup.grid_block import GridDialog
from gui.setup.panel import SetupPanel
from gui.setup.saving import save_preset

TypeInto = Callable[[QLineEdit, str], None]


@pytest.fixture
def surveyed(panel: SetupPanel, qtbot: QtBot) -> Callable[[], Request | None]:
    """The request once the grid has been checked."""

    def surveyed() -> Request | None:
        qtbot.waitUntil(lambda: panel.survey_thread.survey() is not None)
        return panel.request()

    return surveyed


@pytest.mark.parametrize(
    ("key", "text", "values"),
    [
        ("batch_size", "32, 64, 128", ("32", "64", "128")),
        ("batch_size", "64,128", ("64,128",)),
        ("batch_size", "32,64,128", ("32", "64", "128")),
        ("batch_size", "1,024, 2,048", ("1,024", "2,048")),
        ("batch_size", "32; 64", ("32", "64")),
        ("batch_size", "32, ", ("32",)),
        ("optimizer.learning_rate", "0,5", ("0,5",)),
        ("optimizer.learning_rate", "0.1,0.01", ("0.1", "0.01")),
        ("optimizer.name", "sgd, adamw", ("sgd", "adamw")),
        ("model", "resnet18, resnet50", ("resnet18", "resnet50")),
        ("model", "/my, nets/net.py", ("/my, nets/net.py",)),
        ("step.fp32_modules", "fc, layer4.*; fc", ("fc, layer4.*", "fc")),
        ("path", "/a, b", ("/a, b",)),
        ("code", '{"a": 1; 2}', ('{"a": 1; 2}',)),
    ],
)
def test_a_text_holds_these_values(key: str, text: str, values: tuple[str, ...]) -> None:
    assert split_values(key, text) == values


def test_several_values_make_a_sweep(
    panel: SetupPanel, type_into: TypeInto, surveyed: Callable[[], Request | None]
) -> None:
    type_into(panel.form.batch_size, "32, 64, 128")
    panel.set_text("optimizer.learning_rate", "0.01; 0.1")
    assert panel.foot.run_button.text() == "Compare 12 combinations"
    request = surveyed()
    assert request is not None and request.grid is not None and request.plan is not None
    assert [axis.key for axis in request.grid.axes] == ["precision", "batch_size", "optimizer.learning_rate"]
    assert request.grid.axes[1].values == (32, 64, 128)
    assert len(request.experiments) == 2 and request.experiments[0][1].batch_size == 32
    assert panel.foot.line.text() == "12 combinations, 12 runs"
    type_into(panel.form.batch_size, "32")
    panel.set_text("optimizer.learning_rate", "0.1")
    single = panel.request()
    assert single is not None and single.grid is None
    assert panel.foot.run_button.text() == "Compare 2 precisions"


def test_the_plan_is_asked_for_only_with_a_sweep(
    panel: SetupPanel, type_into: TypeInto, surveyed: Callable[[], Request | None]
) -> None:
    assert not panel.form.within.isVisible()
    type_into(panel.form.batch_size, "32, 64")
    assert panel.form.within.isVisible()
    type_into(panel.form.repeat, "3")
    type_into(panel.form.within, "2")
    type_into(panel.form.hours, "1.5")
    request = surveyed()
    assert request is not None and request.plan is not None
    assert (request.plan.repeats, request.plan.precision_percent) == (3, 2)
    assert request.plan.time_limit_seconds == 5_400
    type_into(panel.form.within, "x")
    assert surveyed() is None
    assert panel.form.problem("within") == "To within is 'x', but it must be a number."


def test_what_is_wrong_with_some_cells_is_told_at_the_field_with_the_cell(
    panel: SetupPanel, type_into: TypeInto, surveyed: Callable[[], Request | None]
) -> None:
    type_into(panel.form.batch_size, "32, 0")
    assert not panel.run_action.isEnabled()
    assert surveyed() is None
    problem = panel.form.problem("batch_size") or ""
    assert problem.startswith("The combination FP32, batch size 0 cannot be trained: Batch size is '0'")
    assert panel.foot.line.text() == problem
    type_into(panel.form.batch_size, "32, 32")
    assert (
        surveyed() is None
        and panel.form.problem("batch_size") == "Batch size has the value 32 twice. Use every value once."
    )
    panel.set_text("batch_size", ", ".join(map(str, range(1, 5_002))))
    assert surveyed() is None
    assert panel.foot.line.text() == "The sweep would have 10,002 combinations, but the maximum is 10,000."


def test_a_cell_that_cannot_be_trained_here_is_left_out(
    panel: SetupPanel, type_into: TypeInto, surveyed: Callable[[], Request | None]
) -> None:
    type_into(panel.form.batch_size, "10,000, 64")
    assert surveyed() is not None and panel.form.problem("batch_size") is None
    assert panel.foot.line.text() == "4 combinations, 2 runs"
    block, why = panel.foot.grid, "Batch size is 10,000, but fashion has 6,000 samples."
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
    type_into(panel.form.batch_size, "10,000, 20,000")
    assert surveyed() is None
    assert panel.form.problem("batch_size") == "Batch size is 10,000, but fashion has 6,000 samples."


def test_the_values_outlast_a_restart_and_a_reset_drops_them(panel: SetupPanel, cpu: Catalog) -> None:
    panel.set_text("batch_size", "32, 64")
    panel.change(lambda draft: replace(draft, within_percent="2", most_hours="8"))
    state = panel.state()
    panel.reset_action.trigger()
    assert panel.form.batch_size.text() == "64" and panel.form.hours.text() == ""
    panel.restore(state)
    assert panel.form.batch_size.text() == "32, 64"
    assert (panel.form.within.text(), panel.form.hours.text()) == ("2", "8")


def test_a_setting_that_applies_with_any_of_the_values_is_shown(cpu: Catalog) -> None:
    draft = Draft(all_presets()[0]).with_change("optimizer.name", "adamw, sgd")
    assert draft.applies("optimizer.momentum", cpu)
    assert not draft.with_first_values.applies("optimizer.momentum", cpu)


def test_a_preset_with_a_sweep_fills_the_fields_and_is_saved_from_them(
    panel: SetupPanel, surveyed: Callable[[], Request | None]
) -> None:
    panel.choose_preset("batch-sweep")
    assert len(panel.form.batch_size.text().split(", ")) > 1
    request = surveyed()
    assert request is not None and request.grid is not None
    panel.choose_preset("fashion")
    panel.set_text("batch_size", "32, 64")
    panel.set_text("step.clip_norm", "none, 1")
    request = surveyed()
    assert request is not None
    saved = save_preset("My sweep", request.experiments, request.grid)
    draft = Draft(saved)
    assert draft.text("batch_size") == "32, 64" and draft.values("step.clip_norm") == ("none", "1")
    assert [precision.value for precision in draft.selected] == ["fp32", "bf16"]


def test_the_settings_of_a_run_replace_the_values(panel: SetupPanel) -> None:
    panel.set_text("batch_size", "32, 64")
    experiment = panel.outcome().experiments[0][1]
    panel.use_settings(experiment)
    assert panel.form.batch_size.text() == "32"
    assert panel.foot.run_button.text() == "Train in FP32"


def test_several_choices_are_ticked_in_a_list_and_a_click_keeps_the_first(
    panel: SetupPanel, qtbot: QtBot, surveyed: Callable[[], Request | None]
) -> None:
    panel.form.more.set_open(True)
    mark = panel.form.more.form.fields["optimizer.name"].findChild(QToolButton)
    assert mark is not None and mark.text() == "+"
    mark.click()
    popup = panel.findChild(SeveralPopup)
    assert popup is not None
    first = panel.text("optimizer.name")
    for row in range(popup.list.count()):
        popup.list.item(row).setCheckState(Qt.CheckState.Checked)
    popup.close()
    request = surveyed()
    assert request is not None and request.grid is not None
    axis = request.grid.axes[-1]
    assert axis.key == "optimizer.name" and len(axis.values) == 6 and axis.values[0] == first
    assert panel.form.more.form.control("optimizer.name").property("several") == "true"
    mark.click()
    assert panel.text("optimizer.name") == first
    assert panel.request() is not None and panel.foot.run_button.text() == "Compare 2 precisions"
    assert panel.form.more.form.control("optimizer.name").property("several") == "false"


def test_lengths_recipes_and_models_are_swept_too(
    panel: SetupPanel, surveyed: Callable[[], Request | None]
) -> None:
    panel.change(lambda draft: draft.with_length(draft.length_key, "1, 2"))
    panel.form.length.unit_button.click()
    assert panel.form.length.text() == "94, 188"
    panel.form.length.edited.emit("94")
    assert panel.foot.run_button.text() == "Compare 2 precisions"
    panel.reset_action.trigger()
    panel.set_text("step.recipe", "plain, fast")
    assert panel.form.recipe.several.text() == "Plain, Fast"
    panel.picker.set_model("small-cnn, resnet50")
    assert panel.form.model.currentText() == "small-cnn, resnet50"
    request = surveyed()
    assert request is not None and request.grid is not None and request.grid.size == 8


def test_all_devices_beside_the_same_number_are_one_value(
    panel: SetupPanel, gpu: Catalog, surveyed: Callable[[], Request | None]
) -> None:
    cards = (gpu.devices[0].model_copy(update={"name": f"cuda:{place}"}) for place in range(2))
    panel.set_catalog(gpu.model_copy(update={"devices": tuple(cards)}))
    panel.set_text("devices", "1, 2, all")
    request = surveyed()
    assert request is not None and request.grid is not None
    assert request.grid.axes[-1].values == (1, 2)
    combinations = f" {request.grid.size} combinations"
    assert panel.foot.run_button.text().endswith(combinations)
    assert panel.foot.line.text().startswith(combinations.strip())
