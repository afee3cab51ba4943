"""What a window offers at its start: to bring deleted runs back, and to delete what cannot be read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest
from PySide6.QtWidgets import QAbstractButton

from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.protocol.events import Finished, Summary
from engine.store.store import Store
from gui.window.main_window import MainWindow

NEWER = json.dumps({**json.loads(Experiment().to_json()), "from_tomorrow": 1})


@pytest.fixture
def ended(store: Store) -> tuple[str, ...]:
    """The ids of four runs that ended."""
    ids = tuple(store.add(Experiment(seed=seed)).id for seed in range(4))
    for run_id in ids:
        store.record(run_id, [Finished(summary=Summary(steps=1))])
    return ids


def damage(store: Store, run_id: str, change: str, table: str = "runs", key: str = "id") -> None:
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {change} WHERE {key} = ?", (run_id,))


def press(window: MainWindow, name: str) -> None:
    buttons = window.notice.findChildren(QAbstractButton)
    # of two that offer the same, the newest
    next(button for button in reversed(buttons) if name in (button.text(), button.accessibleName())).click()


def test_a_run_that_cannot_be_read_hides_no_other_and_can_be_deleted(
    store: Store, ended: tuple[str, ...], start: Callable[[], MainWindow]
) -> None:
    damage(store, ended[1], f"name = 'From tomorrow', experiment = '{NEWER}'")
    damage(store, ended[2], "problem = '{'")
    window = start()
    assert len(window.runs.model.lines) == 2
    text = window.notice.text()
    assert "“From tomorrow”" in text and "“Run 3”" in text and "cannot be read and are left out" in text
    assert "from_tomorrow" in window.backstage.log.view.toPlainText()
    assert window.notice.offers() == ("Keep", "Delete")
    press(window, "Delete")
    assert window.notice.text() == "Deleted 2 runs." and store.listing().unreadable == ()
    press(window, "Undo")
    assert len(store.listing().unreadable) == 2 and len(window.runs.model.lines) == 2


def test_damaged_curves_are_told_when_they_are_asked_for(
    store: Store, ended: tuple[str, ...], start: Callable[[], MainWindow]
) -> None:
    damage(store, ended[0], "line = '{'", "events", "run")
    window = start()
    assert window.notice.text() == "" and len(window.runs.model.lines) == 4
    window.runs.open_requested.emit(ended[0])
    assert "cannot be read" in window.notice.text() and window.live.runs() == ()
    window.runs.open_requested.emit(ended[1])
    assert [run.run_id for run in window.live.runs()] == [ended[1]]


def test_what_was_deleted_before_a_crash_is_offered_back(
    store: Store, ended: tuple[str, ...], start: Callable[[], MainWindow]
) -> None:
    store.delete(ended[:3])
    window = start()
    assert window.notice.text() == "3 deleted runs can still be brought back."
    assert window.notice.offers() == ("Undo", "Delete for good") and len(window.runs.model.lines) == 1
    press(window, "Undo")
    assert window.notice.text() == "" and len(window.runs.model.lines) == 4 and store.deleted() == ()


def test_it_can_be_deleted_for_good_and_is_kept_while_nobody_answers(
    store: Store, ended: tuple[str, ...], start: Callable[[], MainWindow]
) -> None:
    store.delete(ended[:1])
    start().close_without_asking()
    assert store.deleted() == ended[:1]
    window = start()
    assert window.notice.text() == "1 deleted run can still be brought back."
    press(window, "Delete for good")
    assert store.deleted() == ()
    with pytest.raises(ProblemError, match="gone for good"):
        store.restore(ended[:1])


def test_one_offer_follows_the_other(
    store: Store, ended: tuple[str, ...], start: Callable[[], MainWindow]
) -> None:
    waiting = store.add(Experiment()).id
    damage(store, ended[0], "tags = '3'")
    store.delete([ended[1]])
    window = start()
    assert "still in the queue" in window.notice.text()
    press(window, "Close this message")
    assert "1 deleted run" in window.notice.text()
    window.runs.edits.delete((ended[2],))
    assert window.notice.text() == "Deleted “Run 3”."
    press(window, "Undo")
    assert "1 deleted run" in window.notice.text() and window.runs.model.known(ended[2]) is not None
    press(window, "Close this message")
    assert "“Run 1” cannot be read and is left out." in window.notice.text()
    press(window, "Close this message")
    assert window.notice.text() == "" and store.deleted() == (ended[1],)
    assert store.run(waiting).status.value == "queued"
