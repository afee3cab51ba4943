"""The welcome of a fresh start, in the dock and as a page of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.experiment.problem import request_problem
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from gui.theme.theme import theme
from gui.widgets.welcome import MEANING, SENTENCE, TITLE, Welcome
from gui.window.body import ModelDrops
from gui.window.main_window import MainWindow
from gui.window.remembered import Settings


def shown(qtbot: QtBot, widget: QWidget, width: int, height: int) -> None:
    theme()
    qtbot.addWidget(widget)
    widget.resize(width, height)
    with qtbot.waitExposed(widget):
        widget.show()


def texts(widget: QWidget) -> list[str]:
    return [one.text() for one in widget.findChildren(QLabel) if one.isVisible()]


def is_whole(button: QAbstractButton, widget: QWidget) -> bool:
    room = button.rect().translated(button.mapTo(widget, QPoint(0, 0)))
    return widget.rect().contains(room) and button.width() >= button.sizeHint().width()


def cut_off(widget: QWidget) -> list[str]:
    """The labels that have less room than their words need, and the buttons that leave the widget."""
    labels = [
        one.text()
        for one in widget.findChildren(QLabel)
        if one.isVisible() and one.height() < one.heightForWidth(one.width())
    ]
    buttons = [one for one in widget.findChildren(QAbstractButton) if one.isVisible()]
    outside = [one.text() for one in buttons if not is_whole(one, widget)]
    return labels + outside


@pytest.mark.parametrize("width", [640, 724, 1_120, 3_500])
@pytest.mark.parametrize("height", [108, 168, 500])
def test_the_compact_one_fits_the_table(qtbot: QtBot, width: int, height: int) -> None:
    welcome = Welcome(is_large=False)
    shown(qtbot, welcome, width, height)
    assert texts(welcome) == [TITLE, SENTENCE] and not cut_off(welcome)


def test_lower_still_the_words_go_before_the_buttons(qtbot: QtBot) -> None:
    welcome = Welcome(is_large=False)
    shown(qtbot, welcome, 724, 90)
    assert texts(welcome) == [SENTENCE]
    welcome.resize(724, 50)
    qtbot.waitUntil(lambda: texts(welcome) == [] and not cut_off(welcome))


@pytest.mark.parametrize("size", [(960, 548), (1_024, 548), (1_280, 668), (1_440, 848), (3_840, 2_108)])
def test_the_large_one_fits_and_grows(qtbot: QtBot, size: tuple[int, int]) -> None:
    welcome = Welcome(is_large=True)
    shown(qtbot, welcome, *size)
    assert texts(welcome)[:3] == [TITLE, MEANING, SENTENCE] and len(texts(welcome)) == 6
    meaning = next(one for one in welcome.findChildren(QLabel) if one.text() == MEANING)
    assert meaning.height() < 2 * meaning.fontMetrics().height()  # one line
    assert not cut_off(welcome)
    title = next(one for one in welcome.findChildren(QLabel) if one.text() == TITLE)
    assert title.fontMetrics().height() >= size[1] / 30


def test_the_very_first_start_opens_the_welcome_and_no_later_one(
    qtbot: QtBot, store: Store, home: Path
) -> None:
    with Launcher(Target.THREAD) as launcher:
        first = MainWindow(store, launcher, Settings.load(home / "first.json"))
        qtbot.addWidget(first)
        assert (first.page, first.others.demo_panel.page) == ("show", "welcome")
        first.show_page("compare")
        first.close_without_asking()
        again = MainWindow(store, launcher, Settings.load(home / "first.json"))
        qtbot.addWidget(again)
        assert again.page == "compare"
        again.close_without_asking()
        store.add(Experiment())
        with_runs = MainWindow(store, launcher, Settings.load(home / "other.json"))
        qtbot.addWidget(with_runs)
        assert with_runs.page == "compare"
        with_runs.close_without_asking()


def test_the_programs_name_leads_to_the_welcome_and_the_tab_back(
    qtbot: QtBot, store: Store, start: Callable[[], MainWindow]
) -> None:
    store.add(Experiment())
    window = start()
    panel = window.others.demo_panel
    window.others.demo.reader.refuse(request_problem("There is nothing to race.", "Train two runs."))
    buttons = {one.accessibleName(): one for one in window.top_bar.findChildren(QPushButton)}
    buttons["Welcome"].click()
    assert (window.page, panel.page) == ("show", "welcome")
    buttons["Demo"].click()
    assert panel.page == "refused"


def dragged(*paths: Path) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return data


def drop(window: MainWindow, data: QMimeData) -> None:
    copy, left, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(window, QDropEvent(QPointF(5, 5), copy, data, left, none, QEvent.Type.Drop))


def enter(window: MainWindow, data: QMimeData) -> bool:
    copy, left, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    event = QDragEnterEvent(QPointF(5, 5).toPoint(), copy, data, left, none)
    event.ignore()
    QApplication.sendEvent(window, event)
    return event.isAccepted()


def test_a_dropped_file_becomes_the_model(start: Callable[[], MainWindow], tmp_path: Path) -> None:
    window = start()
    frame = window.findChild(ModelDrops).frame  # type: ignore[union-attr]
    path = tmp_path / "net.py"
    path.write_text("def model(): ...\ndef batch(size): ...\n")
    data = dragged(path)
    assert enter(window, data) and frame.isVisibleTo(window) and frame.size() == window.size()
    QApplication.sendEvent(window, QDragLeaveEvent())
    assert not frame.isVisibleTo(window)
    enter(window, data)
    drop(window, data)
    assert window.setup.text("model") == "net.py" and not frame.isVisibleTo(window)
    # other drags are left to others
    assert not enter(window, dragged(tmp_path / "notes.txt")) and not frame.isVisibleTo(window)
    assert not enter(window, dragged(tmp_path / "a.py", tmp_path / "b.py"))
    assert window.others
    assert enter(window, dragged(tmp_path / "runs.ammeter")) and not frame.isVisibleTo(window)


def test_a_dropped_script_is_compared_on_the_page_of_comparisons(
    start: Callable[[], MainWindow], tmp_path: Path
) -> None:
    window = start()
    window.show_page("numerics")
    (tmp_path / "train.py").write_text("loss.backward()\n")
    data = dragged(tmp_path / "train.py")
    enter(window, data)
    drop(window, data)
    assert (window.page, window.setup.question) == ("compare", "script")
    assert window.setup.scripts.draft.lines[0] == "python train.py"
    assert window.notice.text() == "train.py has no model(), so it was opened as a script."
    window.show_page("results")
    window.show_page("experiment")
    assert (window.page, window.setup.question) == ("compare", "script")
    assert window.live.empty.words().startswith("Which command trains faster on this machine?")
    buttons = {one.text(): one for one in window.notice.messages()[-1].findChildren(QPushButton)}
    buttons["Undo"].click()
    assert (window.page, window.setup.question) == ("numerics", "numerics")
