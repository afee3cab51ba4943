"""What the window says and offers where it has nothing to show."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QLabel, QPushButton

from engine.experiment.experiment import Experiment
from engine.protocol.events import Finished, Summary
from engine.store.store import Store
from gui.window.main_window import MainWindow

Open = Callable[[], MainWindow]


def trained(store: Store, count: int, title: str | None = None) -> tuple[str, ...]:
    """The ids of runs that ended; those with a title were started to be compared."""
    comparison = store.add_comparison(title) if title else None
    labels = [f"side {n}" if comparison else None for n in range(count)]
    ids = tuple(store.add(Experiment(seed=0), comparison=comparison, label=label).id for label in labels)
    for run_id in ids:
        store.record(run_id, [Finished(summary=Summary(steps=1))])
    return ids


def told(window: MainWindow) -> list[str]:
    """What the runs table says in its place."""
    page = window.runs.pages.currentWidget()
    assert page is not None
    return [one.text() for one in page.findChildren(QLabel) if one.isVisibleTo(page)]


def test_with_one_press_those_are_compared_that_were_trained_to_be_else_the_newest_two(
    store: Store, start: Open
) -> None:
    pair, alone = trained(store, 2, title="A pair"), trained(store, 3)
    window = start()
    window.others.compare.offer.click()
    assert set(window.runs.checked()) == set(pair)
    window.runs.set_checked([])
    store.delete(pair)
    window.experiments.runs.reload()
    window.others.compare.offer.click()
    assert set(window.runs.checked()) == set(alone[1:])


def test_after_the_last_deletion_the_runs_can_be_brought_back_where_they_stood(
    store: Store, start: Open
) -> None:
    ids = trained(store, 2)
    window = start()
    window.runs.delete_wanted.emit(ids)
    assert "All runs are deleted." in told(window)
    window.runs.undo_wanted.emit()
    assert len(window.runs.model.lines) == 2 and window.runs.pages.currentIndex() == 0


def test_a_deletion_for_good_leaves_the_welcome(store: Store, start: Open) -> None:
    store.delete(trained(store, 1))
    window = start()
    assert "All runs are deleted." in told(window)
    buttons = window.notice.findChildren(QPushButton)
    next(button for button in buttons if button.text() == "Delete for good").click()
    assert "All runs are deleted." not in told(window)
