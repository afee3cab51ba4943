"""The card of a failure: what it shows, and that each of its buttons does what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from engine.compare.failure import FailureRemedy
from engine.experiment.experiment import Experiment, changed
from engine.store.store import Store
from gui.train.failure import FailureView
from gui.window.main_window import MainWindow
from tests.failures import CASES, OUT_OF_MEMORY, Failures
from tests.golden import Golden, words_of


@pytest.fixture
def failures(store: Store, home: Path) -> Failures:
    return Failures(store, home)


@pytest.fixture
def view(qtbot: QtBot) -> FailureView:
    view = FailureView()
    qtbot.addWidget(view)
    view.resize(1_088, 820)
    view.show()
    return view


@pytest.mark.parametrize("case", CASES)
def test_its_words_and_buttons(
    view: FailureView, failures: Failures, tmp_path: Path, qtbot: QtBot, golden: Golden, case: str
) -> None:
    failure = failures.read(failures.case(case, tmp_path))
    view.show_failure(failure)
    qtbot.waitUntil(lambda: all(button.outcome.isVisible() for button in view.card.remedies))
    golden(words_of(view), case)
    pressed: list[FailureRemedy] = []
    view.remedy_wanted.connect(pressed.append)
    for button in view.card.remedies:
        button.click()
    assert tuple(pressed) == failure.remedies
    kinds = [button.property("kind") for button in view.card.remedies]
    assert kinds.count("primary") == 1 and kinds[0] == "primary"


def test_the_whole_message_is_shown_on_demand(view: FailureView, failures: Failures, tmp_path: Path) -> None:
    view.show_failure(failures.read(failures.case("model", tmp_path)))
    assert not view.card.detail.isVisible()
    view.card.whole.click()
    assert view.card.detail.isVisible() and "RuntimeError" in view.card.detail.toPlainText()
    view.show_failure(failures.read(failures.case("nan", tmp_path)))
    assert view.card.whole.isHidden(), "there is no message"


@pytest.mark.parametrize("width", [560, 764, 1_088])
def test_buttons_are_equal_and_their_words_fit(
    view: FailureView, failures: Failures, tmp_path: Path, qtbot: QtBot, width: int
) -> None:
    view.resize(width, 900)
    for case in CASES:
        view.show_failure(failures.read(failures.case(case, tmp_path)))
        buttons = view.card.remedies
        qtbot.waitUntil(lambda buttons=buttons: all(button.width() > 100 for button in buttons))
        assert max(button.width() for button in buttons) - min(button.width() for button in buttons) <= 1
        for button in buttons:
            assert button.fontMetrics().horizontalAdvance(button.text()) <= button.width() - 20, button.text()


@pytest.mark.parametrize("folder", ["//host/share", "\\\\host\\share"])
def test_a_file_on_another_machine_is_not_looked_for(
    failures: Failures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    run = failures.case("model", tmp_path)[0]
    own = run.experiment.own_code
    assert own is not None
    code = own.model_copy(update={"folder": folder}).to_json()
    runs = failures.compared(run.problem, changed(run.experiment, {"code": code}), estimated=False)
    monkeypatch.setattr(Path, "is_file", lambda path: pytest.fail(f"looked for {path}"))
    assert [remedy.action for remedy in failures.read(runs).remedies] == ["check", "train"]


@pytest.mark.slow
def test_a_remedy_fills_the_form_and_compares_again(
    start: Callable[..., MainWindow], failures: Failures, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Experiment.model_validate({"model": "linear", "dataset": "synthetic-regression", "device": "cpu"})
    runs = failures.compared(OUT_OF_MEMORY, changed(small, {"batch_size": 256, "memory_cap_gib": 1.0}))
    window = start()
    window.experiments.queue.is_paused = True
    asked: list[Any] = []
    submit = window.experiments.submit
    monkeypatch.setattr(window.experiments, "submit", lambda *told: (asked.append(told), submit(*told))[1])
    for place in range(3):
        window.in_view.open(runs[0].id)
        button = window.live.page.failure.card.remedies[place]
        button.click()
        draft = window.setup.draft
        assert draft is not None and [entry.value for entry in draft.selected] == ["fp32", "bf16"]
        changes = (("batch_size", "100"), ("step.gradient_accumulation", "4"), ("memory_cap_gib", "3"))
        key, text = changes[place]
        assert draft.text(key) == text
        title, sides, _, repeats = asked[-1]
        assert (
            title == "FP32 against BF16 AMP"
            and repeats == 1
            and [label for label, _ in sides]
            == [
                "FP32",
                "BF16 AMP",
            ]
        )
    queued = [run for run in window.experiments.runs.records() if run.status.value == "queued"]
    assert len(queued) == 1 + 6
