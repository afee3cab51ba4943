"""The preset's name stands while its settings hold; one's own are saved, renamed and deleted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QInputDialog

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.presets import own_presets_folder, preset
from gui.setup.draft import Draft
from gui.setup.facts import preset_caption
from gui.setup.panel import SetupPanel
from gui.setup.saving import save_preset

BF16 = Precision.BF16
Answer = Callable[..., list[str]]


def offered(panel: SetupPanel) -> list[str]:
    box = panel.form.editor("preset")
    return [box.itemText(row) for row in range(box.count())]


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Triggers what asks for a title and answers with each, then cancels. Returns the hints."""

    def answer(action: QAction, *titles: str) -> list[str]:
        hints: list[str] = []

        def get_text(_parent: object, _heading: str, hint: str, text: str) -> tuple[str, bool]:
            hints.append(hint)
            return (titles[len(hints) - 1], True) if len(hints) <= len(titles) else ("", False)

        monkeypatch.setattr(QInputDialog, "getText", get_text)
        action.trigger()
        return hints

    return answer


def change(panel: SetupPanel, text: str) -> None:
    panel.form.batch.setText(text)
    panel.form.batch.edited.emit(text)


def test_the_name_goes_when_a_setting_changes_and_comes_back_with_it(panel: SetupPanel) -> None:
    box = panel.form.editor("preset")
    whole = box.grab().toImage()
    change(panel, "32")
    assert box.accessibleDescription() == "Modified: Fashion-MNIST, FP32 against AMP"
    assert box.grab().toImage() != whole
    change(panel, "64")
    assert box.accessibleDescription() == "" and box.grab().toImage() == whole


def test_a_preset_with_axes_is_unchanged_on_any_question(panel: SetupPanel) -> None:
    panel.choose_preset("batch-sweep")
    panel.set_question("profile")
    assert panel.form.editor("preset").accessibleDescription() == ""
    panel.set_axis("batch_size", None)
    assert panel.form.editor("preset").accessibleDescription().startswith("Modified: ")


def test_saving_keeps_what_is_no_setting_of_a_run(panel: SetupPanel, answer: Answer) -> None:
    kept = {"repeat": "3", "within": "5", "hours": "2", "name": "mine"}
    for key, text in kept.items():
        panel.set_text(key, text)
    panel.set_axis("seed", ("0", "1"))
    answer(panel.own_presets.save_action, "Mine")
    assert panel.draft is not None and panel.draft.preset.title == "Mine"
    assert {key: panel.text(key) for key in kept} == kept
    assert panel.draft.axes == {"seed": ("0", "1")}


def test_what_has_no_effect_is_no_change() -> None:
    draft = Draft(preset("fashion"))
    assert preset_caption(draft.with_change("name", "mine").with_change("repeat", "3"), None) == ""
    unused = draft.with_change("optimizer.momentum", "0.5")
    assert draft.text("optimizer.name") == "adamw" and preset_caption(unused, None) == ""
    assert preset_caption(unused.with_change("optimizer.name", "sgd"), None)
    assert preset_caption(draft.with_precisions([BF16]), None)


def test_the_chosen_preset_chosen_again_takes_the_changes_back(panel: SetupPanel) -> None:
    change(panel, "32")
    panel.form.editor("preset").activated.emit(panel.form.editor("preset").currentIndex())
    assert panel.text("batch_size") == "64"


def test_the_form_is_saved_as_a_preset_and_only_ones_own_can_be_renamed_and_deleted(
    panel: SetupPanel, answer: Answer
) -> None:
    change(panel, "32")
    wanted = panel.outcome().experiments
    answer(panel.own_presets.save_action, "My own")
    assert preset("my-own").kind == "compare"
    assert panel.state()["preset"] == "my-own"
    assert panel.outcome().experiments == wanted
    assert panel.form.editor("preset").accessibleDescription() == ""
    panel.choose_preset("fashion")
    actions = (panel.own_presets.rename_action, panel.own_presets.delete_action)
    assert not any(action.isVisible() for action in actions)
    answer(panel.own_presets.save_action, "Mine")
    assert all(action.isVisible() for action in actions)
    panel.choose_preset("fashion")
    assert not any(action.isVisible() for action in actions)


def test_a_renamed_preset_keeps_what_the_form_says(panel: SetupPanel, answer: Answer) -> None:
    answer(panel.own_presets.save_action, "Mine")
    change(panel, "128")
    answer(panel.own_presets.rename_action, "Mine, larger")
    assert "Mine, larger" in offered(panel) and "Mine" not in offered(panel)
    assert panel.state()["preset"] == "mine-larger" and panel.text("batch_size") == "128"
    assert [path.name for path in own_presets_folder().iterdir()] == ["mine-larger.toml"]


def test_a_deleted_preset_leaves_its_settings_and_can_be_brought_back(
    panel: SetupPanel, answer: Answer, asked: Any
) -> None:
    change(panel, "32")
    answer(panel.own_presets.save_action, "Mine")
    panel.own_presets.delete_action.trigger()
    ((text, undo),) = asked["changed_itself"]
    assert text == "Deleted the preset “Mine”."
    assert "Mine" not in offered(panel) and not list(own_presets_folder().iterdir())
    assert panel.state()["preset"] == "fashion" and panel.text("batch_size") == "32"
    undo()
    assert panel.state()["preset"] == "mine" and preset("mine").title == "Mine"
    assert offered(panel).count("Mine") == 1


def test_a_taken_title_is_told_and_asked_for_again(panel: SetupPanel, answer: Answer) -> None:
    hints = answer(panel.own_presets.save_action, "Fashion", "Fashion, mine")
    assert len(hints) == 2 and "already a preset named 'fashion'" in hints[1]
    assert panel.state()["preset"] == "fashion-mine"


def test_an_own_title_is_replaced_knowingly(
    panel: SetupPanel, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_preset("Mine", [("FP32", Experiment())])
    change(panel, "8")
    for is_agreed, size in ((False, 64), (True, 8)):
        monkeypatch.setattr("gui.setup.saving.ask", lambda *_, agreed=is_agreed: agreed)
        answer(panel.own_presets.save_action, "Mine")
        assert preset("mine").experiments(False)[0][1].batch_size == size


def test_a_preset_that_cannot_be_written_is_a_problem(
    panel: SetupPanel, answer: Answer, asked: Any, home: Path
) -> None:
    home.mkdir(exist_ok=True)
    own_presets_folder().write_text("in the way")
    answer(panel.own_presets.save_action, "Mine")
    ((problem,),) = asked["reported"]
    assert "could not be saved" in problem.message


def test_saved_variants_read_back_the_same() -> None:
    base = Experiment(batch_size=8)
    other = Experiment(
        batch_size=16, precision=BF16, step={"clip_norm": 1.0}, steps=20, optimizer={"name": "sgd"}
    )
    for pair in ((("A", base), ("B", other)), (("B", other), ("A", base))):
        saved = save_preset("Pair", pair, replace=True)
        assert saved.experiments(False) == pair
        assert preset("pair").experiments(False) == pair
