"""What the button asks for: how many runs, how long, how often, and under which name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtWidgets import QLineEdit

from engine.experiment.experiment import Precision
from gui.session.request import Request
from gui.setup.panel import SetupPanel
from tests.gui.setup.conftest import switch_unit

FP32, BF16 = Precision.FP32, Precision.BF16

TypeInto = Callable[[QLineEdit, str], None]


def test_the_request_holds_what_the_form_says(panel: SetupPanel, asked: Any, type_into: TypeInto) -> None:
    type_into(panel.form.length, "2")
    panel.foot.run_button.click()
    ((request,),) = asked["submitted"]
    assert isinstance(request, Request)
    assert request.title == "FP32 against BF16 AMP"
    assert request.name is None
    labels = [(label, experiment.precision, experiment.epochs) for label, experiment in request.experiments]
    assert labels == [("FP32", FP32, 2), ("BF16 AMP", BF16, 2)]


def test_a_name_goes_into_the_request(panel: SetupPanel, type_into: TypeInto) -> None:
    panel.form.more.set_open(True)
    type_into(panel.form.editor("name"), "Before the change")
    request = panel.request()
    assert request is not None
    assert (request.title, request.name) == ("Before the change", "Before the change")


def test_repeats_are_told_by_the_button_and_go_into_the_request(
    panel: SetupPanel, type_into: TypeInto
) -> None:
    type_into(panel.form.editor("repeat"), "3")
    assert panel.foot.run_button.text() == "Compare 2 precisions, 3 times each"
    assert panel.foot.text() == "6 runs, 752 steps each"
    request = panel.request()
    assert request is not None and request.repeats == 3
    assert len(request.experiments) == 2
    panel.change(lambda draft: draft.with_precisions((FP32,)))
    request = panel.request()
    assert panel.foot.run_button.text() == "Train in FP32, 3 times"
    assert request is not None and request.title == "FP32, 3 times"
    panel.reset_action.trigger()
    assert panel.form.editor("repeat").text() == "1" and panel.foot.text() == "2 runs, 752 steps each"


def test_the_time_of_all_runs_is_told_where_the_time_of_each_is_known(
    panel: SetupPanel, type_into: TypeInto
) -> None:
    seconds: dict[Precision, float] = {FP32: 100.0}
    panel.expected_seconds = lambda run: seconds.get(run.precision)
    type_into(panel.form.editor("repeat"), "3")
    assert panel.foot.text() == "6 runs, 752 steps each"
    seconds[BF16] = 80.0
    type_into(panel.form.editor("repeat"), "1")
    assert panel.foot.text() == "2 runs, about 3 min"
    type_into(panel.form.editor("repeat"), "3")
    assert panel.foot.text() == "6 runs, about 9 min"


def test_all_that_is_wrong_is_told_at_once(panel: SetupPanel) -> None:
    for key, text in (("optimizer.learning_rate", "-1"), ("batch_size", "100,000"), ("step.clip_norm", "x")):
        panel.set_text(key, text)
    assert all(map(panel.form.problem, ("optimizer.learning_rate", "batch_size", "step.clip_norm")))
    panel.set_text("optimizer.learning_rate", "0.1")
    assert panel.form.problem("optimizer.learning_rate") is None and panel.form.problem("batch_size")


def test_a_number_of_repeats_that_cannot_be_is_told_under_its_field(
    panel: SetupPanel, type_into: TypeInto
) -> None:
    for text, reason in (("2.5", "a whole number"), ("101", "at most 100")):
        type_into(panel.form.editor("repeat"), text)
        assert panel.form.problem("repeat") == f"Repeats is '{text}', but it must be {reason}."
        assert panel.foot.text() == panel.form.problem("repeat") and panel.request() is None
    # the largest batch is searched once, however often its runs are to be repeated
    panel.set_question("limit")
    assert panel.run_action.isEnabled()


def test_repeats_beyond_the_largest_seed_are_told_at_the_seed(
    panel: SetupPanel, type_into: TypeInto, user: Any
) -> None:
    user.choose("seed", str(2**63 - 2))
    type_into(panel.form.editor("repeat"), "2")
    assert panel.request() is not None
    type_into(panel.form.editor("repeat"), "3")
    assert "3 repeats would need seeds above" in (panel.form.problem("seed") or "")


def test_while_a_run_trains_the_button_queues(panel: SetupPanel, asked: Any) -> None:
    panel.set_busy(True)
    assert panel.foot.run_button.text() == "Add to queue" and not panel.check_action.isEnabled()
    panel.foot.run_button.click()
    panel.foot.run_button.click()
    assert len(asked["submitted"]) == 1, "a double click queues once"
    panel.foot.set_facts(begins="begins in about 4 min")
    assert panel.foot.text() == "2 runs, 752 steps each · begins in about 4 min"
    panel.set_busy(False)
    panel.foot.set_facts(begins="")
    assert panel.run_action.text() == "Compare 2 precisions"
    assert panel.foot.text() == "2 runs, 752 steps each"


def test_a_length_is_in_epochs_or_steps_and_one_that_gives_no_speed_is_told(
    panel: SetupPanel, type_into: TypeInto, user: Any
) -> None:
    switch_unit(panel)
    assert panel.form.length.text() == "752"
    assert {(run.steps, run.epochs) for run in user.experiments()} == {(752, None)}
    type_into(panel.form.length, "")
    assert panel.form.problem("steps") == "Length is empty. Enter how long to train."
    type_into(panel.form.length, "752")
    switch_unit(panel)
    assert panel.form.length.text() == "8"
    switch_unit(panel)
    type_into(panel.form.length, "59")
    assert panel.foot.text() == "2 runs, 59 steps each (throughput needs 60)"
    type_into(panel.form.length, "60")
    assert panel.foot.text() == "2 runs, 60 steps each"
    user.choose("step.gradient_accumulation", "4")
    switch_unit(panel)
    panel.form.length.edited.emit("1")
    assert panel.foot.text().startswith("2 runs, 24 steps each")
