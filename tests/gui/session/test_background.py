"""Work in a thread: in job, told about in the window's own, and never the end of the window."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.problem import Kind, Problem, ProblemError, request_problem
from gui.session.background import Background


@pytest.fixture
def background(qtbot: QtBot) -> Iterator[Background]:
    made = Background()
    yield made
    made.stop()


def test_it_is_done_elsewhere_in_order_and_told_here(qtbot: QtBot, background: Background) -> None:
    here, told = threading.get_ident(), []

    def tell(where: int) -> None:
        told.append((where != here, threading.get_ident() == here))

    for _ in range(3):
        background.do(threading.get_ident, tell, pytest.fail)
    qtbot.waitUntil(lambda: len(told) == 3)
    assert told == [(True, True)] * 3
    assert not background.is_busy


def test_what_fails_is_told_as_a_problem_and_the_next_is_done(qtbot: QtBot, background: Background) -> None:
    told: list[Problem | str] = []

    def refuse() -> None:
        raise ProblemError(request_problem("No such run.", "Choose another."))

    background.do(refuse, pytest.fail, told.append)
    background.do(lambda: "done", told.append, pytest.fail)
    qtbot.waitUntil(lambda: len(told) == 2)
    assert isinstance(told[0], Problem) and told[0].message == "No such run."
    assert told[1] == "done"


def test_an_error_of_ours_is_logged_and_told(
    qtbot: QtBot, background: Background, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Problem] = []
    background.do(lambda: 1 // 0, pytest.fail, told.append)
    qtbot.waitUntil(lambda: bool(told))
    assert told[0].kind is Kind.INTERNAL
    assert "ZeroDivisionError" in caplog.text


def test_after_it_was_stopped_nothing_is_told(qtbot: QtBot, background: Background) -> None:
    may_end, told = threading.Event(), []
    background.do(lambda: may_end.wait(10), told.append, told.append)
    background.do(lambda: "never begun", told.append, told.append)
    may_end.set()
    background.stop()
    qtbot.wait(1)
    assert told == []
