"""What is changed of saved runs in the table: written to the store at once, and a deletion can be undone."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from PySide6.QtWidgets import QAbstractButton, QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.protocol.events import Finished, Summary
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from gui.runs.controller import RunsController
from gui.runs.panel import RunsPanel
from gui.session.experiments import Experiments
from gui.widgets.notice import Notice
from gui.window.main_window import MainWindow


class Table:
    """The runs table with what it needs of the window around it, on a store with three runs that ended."""

    def __init__(self, store: Store, launcher: Launcher, parent: QWidget) -> None:
        self.store = store
        self.runs = RunsPanel(parent)
        self.notice = Notice(parent)
        self.experiments = Experiments(store, launcher, parent)
        self.edits = RunsController(self.runs, self.experiments, self.notice, parent)
        saved = self.experiments.runs
        saved.list_changed.connect(lambda: self.runs.set_runs(saved.records()))
        saved.run_changed.connect(lambda run_id: self.runs.update_run(store.run(run_id)))
        self.ids = tuple(store.add(Experiment()).id for _ in range(3))
        for run_id in self.ids:
            store.record(run_id, [Finished(summary=Summary(steps=1))])
        saved.reload()


@pytest.fixture
def table(qtbot: QtBot, home: Path) -> Iterator[Table]:
    parent = QWidget()
    qtbot.addWidget(parent)
    with Launcher(Target.THREAD) as launcher, Store(home / "ammeter.sqlite") as store:
        made = Table(store, launcher, parent)
        yield made
        made.experiments.shut_down()


def test_a_deletion_is_not_asked_about_and_can_be_undone(table: Table) -> None:
    first, second, third = table.ids
    table.runs.set_checked([first, second])
    table.edits.delete((first, third))
    assert [run.id for run in table.store.runs()] == [second] and table.runs.checked() == (second,)
    assert table.notice.text() == "Deleted 2 runs." and table.notice.offers() == ("Undo",)
    table.edits.undo()
    assert {run.id for run in table.store.runs()} == set(table.ids)
    assert len(table.runs.model.lines) == 3 and table.runs.checked() == (first, second)
    assert table.notice.text() == ""


def test_deletions_are_undone_one_after_the_other_and_the_rest_is_gone_for_good_at_the_end(
    table: Table,
) -> None:
    first, second, third = table.ids
    table.edits.delete((first,))
    assert table.notice.text() == "Deleted “FP32, small-cnn, batch 64”."
    table.edits.delete((second,))
    table.edits.undo()
    assert {run.id for run in table.store.runs()} == {second, third}
    for _ in range(2):
        table.edits.undo()
    assert len(table.store.runs()) == 3
    table.edits.delete((first,))
    table.experiments.shut_down()
    assert len(table.store.runs()) == 2
    with pytest.raises(ProblemError, match="permanently deleted"):
        table.store.restore([first])


def test_a_deletion_that_another_program_made_final_is_told(table: Table, qtbot: QtBot) -> None:
    first = table.ids[0]
    table.edits.delete((first,))
    table.store.purge([first])
    with qtbot.waitSignal(table.experiments.problem) as signal:
        table.edits.undo()
    assert "permanently deleted" in signal.args[0].message


def test_tags_a_note_and_a_name_are_written_to_the_store_and_what_it_refuses_is_told(
    table: Table, qtbot: QtBot
) -> None:
    first, second, _ = table.ids
    edit = table.experiments.runs
    edit.set_tags({first: ("paper",), second: ("paper", "again")})
    edit.set_note(first, "Clocks were locked.")
    edit.rename(first, "Best")
    kept = table.store.run(first)
    assert (kept.tags, kept.note, kept.name) == (("paper",), "Clocks were locked.", "Best")
    assert table.runs.model.lines[first].run == kept and table.runs.model.tags == ("paper", "again")
    with qtbot.waitSignal(table.experiments.problem) as signal:
        edit.set_note(first, "x" * 10_001)
    assert "10,001 characters" in signal.args[0].message


def test_a_pin_is_saved(table: Table) -> None:
    first, *_ = table.ids
    table.experiments.runs.set_pinned((first,), True)
    assert table.store.run(first).is_pinned and table.runs.model.rows[1].key == first


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
    damage(store, ended[1], f"name = 'From tomorrow', experiment = '{NEWER}', checksum = NULL")
    damage(store, ended[2], "problem = '{'")
    window = start()
    assert len(window.runs.model.lines) == 2
    text = window.notice.text()
    assert "“From tomorrow”" in text and "“Run 3”" in text and "cannot be read and are skipped" in text
    assert "from_tomorrow" in window.backstage.log.view.toPlainText()
    assert window.notice.offers() == ("Keep", "Delete")
    press(window, "Delete")
    assert window.notice.text() == "Deleted 2 runs." and store.listing().unreadable == ()
    press(window, "Undo")
    assert len(store.listing().unreadable) == 2 and len(window.runs.model.lines) == 2


def test_damaged_curves_are_told_when_they_are_asked_for(
    store: Store, ended: tuple[str, ...], start: Callable[[], MainWindow]
) -> None:
    damage(store, ended[0], "line = '{', checksum = NULL", "events", "run")
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
    assert window.notice.text() == "3 deleted runs can still be restored."
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
    assert window.notice.text() == "1 deleted run can still be restored."
    press(window, "Delete for good")
    assert store.deleted() == ()
    with pytest.raises(ProblemError, match="permanently deleted"):
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
    window.runs.delete_wanted.emit((ended[2],))
    assert window.notice.text() == "Deleted “FP32, small-cnn, batch 64”."
    press(window, "Undo")
    assert "1 deleted run" in window.notice.text() and ended[2] in window.runs.model.lines
    press(window, "Close this message")
    assert "“Run 1” cannot be read and is skipped." in window.notice.text()
    press(window, "Close this message")
    assert window.notice.text() == "" and store.deleted() == (ended[1],)
    assert store.run(waiting).status.value == "queued"
