"""A window on saved runs that cannot be written, or not be read any more, or are of an older format."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QMessageBox, QPushButton

import gui.window.app
from engine.experiment.experiment import Experiment
from engine.store.database import older_stores
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.session.request import Request
from gui.window.main_window import MainWindow

ReadOnly = Callable[[Path], AbstractContextManager[None]]
NOTHING = "Nothing can be saved"


@pytest.fixture
def run(trained: Callable[..., RunRecord]) -> RunRecord:
    return trained("fp32", 100.0, name="whole")


def standing(window: MainWindow) -> list[str]:
    return [message.remedy for message in window.notice.messages() if message.stands]


def try_again(window: MainWindow) -> None:
    (message,) = [each for each in window.notice.messages() if each.stands]
    (button,) = [each for each in message.findChildren(QPushButton) if each.text() == "Try again"]
    button.click()


def test_what_cannot_be_written_is_shown_and_refuses_changes_until_it_can(
    saved: Store, run: RunRecord, read_only: ReadOnly, start: Callable[..., MainWindow]
) -> None:
    saved.close()
    sides = (("FP32", Experiment(steps=1)),)
    with Store(saved.path) as settled:
        assert settled.unwritable is None
    with read_only(saved.path.parent):
        store = Store(saved.path)
        window = start(store, has_pages=False)
        assert [one.name for one in window.experiments.runs.records()] == ["whole"]
        assert len(standing(window)) == 1 and standing(window)[0].startswith(NOTHING)

        window.runs.experiments.runs.rename(run.id, "other")
        assert window.notice.text().startswith(NOTHING)
        assert window.experiments.runs.name(run.id) == "whole"
        for refuse in (
            lambda: window.experiments.submit_request(Request("", sides)),
            lambda: window.others.limits.submit(Request("", sides)),
            lambda: window.runs.delete_wanted.emit((run.id,)),
        ):
            window.notice.drop()
            assert window.notice.text() == ""
            refuse()
            assert window.notice.text().startswith(NOTHING)
        assert [one.name for one in window.experiments.runs.records()] == ["whole"]

        try_again(window)
        assert len(standing(window)) == 1
    try_again(window)
    assert standing(window) == []
    window.runs.experiments.runs.rename(run.id, "other")
    assert window.experiments.runs.name(run.id) == "other"
    window.close_without_asking()
    store.close()


def test_a_store_that_is_damaged_behind_its_first_page_is_told_in_a_sentence(
    qapp: QApplication, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store() as store:
        for _ in range(50):
            store.add(Experiment())
    content = store.path.read_bytes()
    store.path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    told: list[str] = []
    monkeypatch.setattr(gui.window.app, "make_application", lambda: qapp)
    monkeypatch.setattr(QMessageBox, "exec", lambda box: told.append(box.text()))
    assert gui.window.app.run([]) == 1
    assert len(told) == 1 and "damaged" in told[0]


def test_a_store_that_cannot_be_read_any_more_is_told_once_and_the_list_stays(
    saved: Store, run: RunRecord, start: Callable[..., MainWindow]
) -> None:
    window = start(saved, has_pages=False)
    problems: list[str] = []
    runs = window.experiments.runs
    runs.problem.connect(lambda problem: problems.append(problem.message))
    letter = b"a letter to my aunt, and no database at all" * 100
    saved.path.unlink()
    saved.path.write_bytes(letter)
    for _ in range(3):
        runs._check_for_changes()
    assert len(problems) == 1 and "damaged" in problems[0]
    assert [one.name for one in runs.records()] == ["whole"]
    saved.path.unlink()
    runs._check_for_changes()
    assert len(problems) == 1 and runs.records() == ()


def test_a_store_of_an_older_format_is_set_aside_and_said(
    tmp_path: Path, start: Callable[..., MainWindow]
) -> None:
    path = tmp_path / "older.sqlite"
    Store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 16")
    with Store(path) as store:
        window = start(store)
        (aside,) = older_stores(path)
        assert str(aside) in window.notice.text() and window.notice.offers() == ("Show in folder",)
        window.close_without_asking()
