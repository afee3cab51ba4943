"""One reader: only in sight, the newest request, and nothing that was dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.problem import request_error
from gui.session.reader import Reader


class Source:
    """What is to be read next. A read waits until `may_end` is set."""

    def __init__(self) -> None:
        self.next: Any = 0
        self.begun: list[Any] = []
        self.told: list[Any] = []
        self.may_end = threading.Event()
        self.may_end.set()
        self.reader = Reader(self.work)
        self.reader.read.connect(self.told.append)
        self.reader.failed.connect(lambda problem: self.told.append(problem.message))

    def work(self) -> Callable[[], Any] | None:
        value = self.next
        if value is None:
            return None
        self.begun.append(value)

        def read() -> Any:
            self.may_end.wait(10)
            if value == "broken":
                raise request_error("It cannot be read.", "Try again.")
            return value

        return read

    def ask(self, value: Any) -> None:
        self.next = value
        self.reader.refresh()


@pytest.fixture
def source() -> Iterator[Source]:
    made = Source()
    yield made
    made.may_end.set()
    made.reader.stop()


@pytest.mark.parametrize(
    ("asked", "begun", "told"),
    [
        ((1,), [1], [1]),
        ((1, 2, 3), [1, 3], [3]),
        (("broken",), ["broken"], ["It cannot be read."]),
        (("broken", 2), ["broken", 2], [2]),
        ((1, None), [1], []),
    ],
)
def test_what_is_asked_for_last_is_told(
    qtbot: QtBot, source: Source, asked: tuple[Any, ...], begun: list[Any], told: list[Any]
) -> None:
    source.may_end.clear()
    for value in asked:
        source.ask(value)
    source.may_end.set()
    qtbot.waitUntil(lambda: not source.reader.is_busy)
    assert (source.begun, source.told) == (begun, told)


def test_out_of_sight_nothing_is_read(qtbot: QtBot, source: Source) -> None:
    source.reader.set_in_sight(False)
    source.ask(1)
    assert source.begun == []
    source.reader.set_in_sight(True)
    qtbot.waitUntil(lambda: source.told == [1])


@pytest.mark.parametrize(("then", "told"), [((), []), ((2,), [2])])
def test_what_was_dropped_is_not_told(
    qtbot: QtBot, source: Source, then: tuple[int, ...], told: list[int]
) -> None:
    source.may_end.clear()
    source.ask(1)
    source.reader.drop()
    for value in then:
        source.ask(value)
    source.may_end.set()
    qtbot.waitUntil(lambda: not source.reader.is_busy)
    assert source.told == told
