"""A form that is filled in from what was left behind, or from the settings of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.presets import all_presets
from gui.setup.panel import SetupPanel
from tests.gui.setup.conftest import switch_unit

FP32, FP16, BF16 = Precision.FP32, Precision.FP16, Precision.BF16

TypeInto = Callable[[QLineEdit, str], None]


def test_what_is_left_behind_survives_a_restart(
    panel: SetupPanel, qtbot: QtBot, type_into: TypeInto, cpu: Catalog
) -> None:
    type_into(panel.form.batch, "32")
    qtbot.mouseClick(panel.form.tiles.chips[FP16], Qt.MouseButton.LeftButton)
    switch_unit(panel)
    type_into(panel.form.editor("repeat"), "5")
    state = json.loads(json.dumps(panel.state()))
    again = SetupPanel()
    qtbot.addWidget(again)
    again.set_presets(all_presets())
    again.set_catalog(cpu)
    again.restore(state)
    assert again.outcome().experiments == panel.outcome().experiments
    assert again.state() == panel.state()
    assert again.text("repeat") == "5"


def test_a_preset_that_is_gone_leaves_its_settings(panel: SetupPanel, type_into: TypeInto) -> None:
    type_into(panel.form.batch, "32")
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


def test_a_runs_settings_and_its_switches_can_be_used_again(
    panel: SetupPanel, user: Any, cpu: Catalog
) -> None:
    wanted = Experiment(
        model="resnet50", dataset="synthetic", batch_size=128, steps=200, precision=FP16, image_size=64
    )
    resolved = wanted.model_copy(update={"device": "cpu", "num_classes": 1_000})
    panel.use_settings(resolved)
    assert user.experiments() == [wanted]
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
    draft = panel.draft
    assert draft is not None
    ((_, settings),) = draft.variants(cpu)
    assert Experiment.model_validate(settings) == wanted
