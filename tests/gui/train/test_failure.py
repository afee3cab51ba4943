"""The card of a failure: the place in the user's own code, the whole message, and what it offers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.own.code import Code, place_of
from engine.experiment.problem import Kind, Problem
from gui.train.outcome import FailureCard

NET = "\n".join(f"line {number}" for number in range(1, 21))
PROBLEM = Problem(kind=Kind.REQUEST, message="The last layer got too much.", remedy="Write 3136.")


def trace(*frames: tuple[str, int, str]) -> str:
    lines = "".join(f'  File "{path}", line {line}, in {name}\n    x\n' for path, line, name in frames)
    return f"Traceback (most recent call last):\n{lines}RuntimeError: mat1 and mat2\n"


@pytest.fixture
def code(tmp_path: Path) -> Code:
    (tmp_path / "net.py").write_text(NET)
    return Code(file="net.py", folder=str(tmp_path), text=NET)


def test_the_place_is_the_innermost_frame_in_the_users_own_code(code: Code, tmp_path: Path) -> None:
    detail = trace(
        ("/lib/run.py", 3, "run"), ("/tmp/kept/net.py", 14, "forward"), ("/lib/torch/nn.py", 9, "linear")
    )
    place = place_of(detail, code)
    assert place is not None and (place.path, place.line, place.function) == (
        tmp_path / "net.py",
        14,
        "forward",
    )
    assert place.first == 8 and place.lines[place.line - place.first] == "line 14"
    assert place_of(detail, None) is None and place_of(trace(("/lib/run.py", 3, "run")), code) is None


def test_it_shows_the_code_and_offers_to_open_check_and_try_again(code: Code, qtbot: QtBot) -> None:
    card = FailureCard()
    qtbot.addWidget(card)
    card.show()
    card.show_problem(PROBLEM, trace(("net.py", 14, "forward")), code)
    assert card.accessibleName() == "The last layer got too much. Write 3136."
    assert card.accessibleDescription() == "net.py:14  in forward"
    assert card.open.isVisible() and card.check.isVisible() and not card.detail.isVisible()
    card.whole.click()
    assert card.detail.isVisible() and "mat1 and mat2" in card.detail.toPlainText()
    with qtbot.waitSignal(card.open_wanted) as told:
        card.open.click()
    assert told.args == [Path(code.folder, "net.py")]
    with qtbot.waitSignals([card.check_wanted, card.again_wanted]):
        card.check.click()
        card.again.click()
    card.show_problem(PROBLEM)
    assert not card.open.isVisible() and not card.whole.isVisible(), "it failed elsewhere"
    for offers in ([], [("Try batch 8", lambda: None), ("Remove the memory cap", lambda: None)]):
        card.show_problem(PROBLEM, trace(("net.py", 14, "forward")), code, offers)
        buttons = [card.open, card.again, *card.remedies]
        assert [button.property("kind") for button in buttons].count("primary") == 1


@pytest.mark.parametrize("folder", ["//host/share", "\\\\host\\share"])
def test_a_file_on_another_machine_is_not_looked_for(qtbot: QtBot, monkeypatch, folder: str) -> None:
    card = FailureCard()
    qtbot.addWidget(card)
    monkeypatch.setattr(Path, "is_file", lambda path: pytest.fail(f"looked for {path}"))
    card.show_problem(PROBLEM, trace(("net.py", 14, "forward")), Code(file="net.py", folder=folder, text=NET))
    assert card.open.isHidden() and card.place() is not None
