"""The workspace Show in the window: how one comes to it, what is hidden meanwhile, and what is remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog, QLabel, QMainWindow, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from engine.race.showcase import Showcase
from engine.store.record import RunRecord, Status
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from gui.demo.controller import FullScreen
from gui.theme.theme import reduced_motion_choice, set_reduced_motion
from gui.window.main_window import MainWindow
from gui.window.remembered import Settings

Open = Callable[[], MainWindow]


@pytest.fixture
def pair(saved: Store, trained: Callable[..., RunRecord]) -> tuple[RunRecord, RunRecord]:
    comparison = saved.add_comparison("A pair")
    return (trained("fp32", 1_000.0, comparison=comparison), trained("fp16", 2_500.0, comparison=comparison))


@pytest.fixture
def open_window(
    qtbot: QtBot, saved: Store, tmp_path: Path, seen_before: Callable[[Path], Settings]
) -> Iterator[Open]:
    """Opens a window on the saved runs whose engine is never started."""
    opened: list[MainWindow] = []

    def close_last() -> None:
        if opened:
            opened.pop().close_without_asking()

    with Launcher(Target.THREAD) as launcher:

        def start() -> MainWindow:
            close_last()
            window = MainWindow(saved, launcher, seen_before(tmp_path))
            window.experiments._has_started = True
            window.resize(1_280, 800)
            with qtbot.waitSignal(window.painted):
                window.show()
            qtbot.addWidget(window)
            opened.append(window)
            return window

        yield start
        close_last()


def until_raced(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.waitUntil(lambda: window.others.demo_panel.page == "race")


@pytest.mark.slow
def test_the_workspace_has_all_the_room_and_gives_it_back(
    qtbot: QtBot, open_window: Open, pair: tuple[RunRecord, RunRecord]
) -> None:
    window = open_window()
    sizes = window.body.sizes()
    window.show_page("show")
    assert not window.setup.isVisible()
    qtbot.waitUntil(lambda: window.others.demo_panel.width() == window.width())
    until_raced(qtbot, window)
    assert window.others.demo_panel.hasFocus(), "Space is to play the race"
    window.show_page("compare")
    assert window.setup.isVisible()
    qtbot.waitUntil(lambda: window.body.sizes() == sizes)
    window.resize(window.minimumSize())
    assert window.top_bar.minimumSizeHint().width() <= window.minimumWidth()
    window.resize(1_024, 600)
    window.show_page("show")
    assert (window.width(), window.height()) == (1_024, 600), "there is room in the narrowest window"


@pytest.mark.slow
def test_a_window_that_was_closed_in_show_opens_there_again_with_its_race_as_it_was(
    qtbot: QtBot, open_window: Open, pair: tuple[RunRecord, RunRecord], trained: Callable[..., RunRecord]
) -> None:
    other = trained("bf16", 1_500.0)
    window = open_window()
    window.body.setSizes([400, 880])
    side = window.body.sizes()[0]
    window.others.demo.show_runs([pair[0].id, other.id])
    until_raced(qtbot, window)
    set_reduced_motion(True)
    window.close_without_asking()
    set_reduced_motion(None)
    again = open_window()
    assert reduced_motion_choice() is True
    set_reduced_motion(None)
    assert again.page == "show"
    until_raced(qtbot, again)
    race = again.others.demo_panel.race.race
    assert race is not None and race.lanes[1].run.id == other.id
    again.show_page("compare")
    qtbot.waitUntil(lambda: again.body.sizes()[0] == side)


@pytest.mark.slow
def test_compare_hands_its_pair_to_show_and_takes_it_back(
    qtbot: QtBot, open_window: Open, pair: tuple[RunRecord, RunRecord]
) -> None:
    window = open_window()
    window.runs.set_checked([run.id for run in pair])
    with qtbot.waitSignal(window.others.comparisons.reader.shown):
        window.show_page("results")
    window.others.head.set_baseline(pair[1].id)
    qtbot.waitUntil(lambda: window.others.head.baseline() == pair[1].id)
    qtbot.mouseClick(window.others.head.show_button, Qt.MouseButton.LeftButton)
    assert window.page == "show"
    until_raced(qtbot, window)
    race = window.others.demo_panel.race.race
    assert race is not None and (race.lanes[0].run.id, race.lanes[1].run.id) == (pair[1].id, pair[0].id)
    window.runs.set_checked([])
    window.others.demo_panel.compare_wanted.emit()
    assert window.page == "results" and set(window.runs.checked()) == {run.id for run in pair}


def test_the_menu_of_a_run_shows_it_beside_what_it_was_trained_to_be_compared_with(
    qtbot: QtBot, open_window: Open, pair: tuple[RunRecord, RunRecord], trained: Callable[..., RunRecord]
) -> None:
    alone = trained("fp32", 900.0)
    window = open_window()

    def entry(run: RunRecord):
        actions = window.runs.menu_for(run).actions()
        return next(action for action in actions if action.text() == "Replay")

    assert not entry(alone).isEnabled() and "Select two" in entry(alone).toolTip()
    entry(pair[1]).trigger()
    until_raced(qtbot, window)
    race = window.others.demo_panel.race.race
    assert race is not None and race.lanes[0].run.id == pair[0].id
    window.runs.set_checked([alone.id, pair[1].id])
    entry(alone).trigger()
    qtbot.waitUntil(lambda: window.others.demo_panel.race.race.lanes[0].run.id == alone.id)
    # one that is not ticked is meant by itself
    entry(pair[0]).trigger()
    qtbot.waitUntil(lambda: window.others.demo_panel.race.race.lanes[0].run.id == pair[0].id)


@pytest.mark.slow
def test_f11_brings_show_to_the_full_screen_and_another_workspace_ends_it(
    qtbot: QtBot, open_window: Open, pair: tuple[RunRecord, RunRecord]
) -> None:
    window = open_window()
    keys = {action.shortcut().toString(): action for action in window.actions()}
    keys["F11"].trigger()
    assert window.page == "show" and window.isFullScreen() and not window.top_bar.isVisible()
    keys["Ctrl+3"].trigger()
    assert window.isFullScreen()
    keys["Ctrl+1"].trigger()
    assert window.page == "compare" and not window.isFullScreen() and window.top_bar.isVisible()
    for page in ("show", "compare", "results"):
        window.show_page(page)
        keys["Ctrl+F"].trigger()
        assert window.page == "results" and window.runs.filter.isVisible(), "it is not typed into unseen"


def test_the_welcome_leads_on_and_a_wish_in_a_busy_moment_is_answered(
    qtbot: QtBot, open_window: Open, pair: tuple[RunRecord, RunRecord]
) -> None:
    window = open_window()
    window.runs.welcome.experiment_wanted.emit()
    assert window.page == "compare"
    window.runs.welcome.limit_wanted.emit()
    assert window.page == "limit"
    window.others.demo.present()
    assert window.isFullScreen()
    window.others.demo.measurement.busy.emit("A run is training.")
    assert not window.isFullScreen() and window.notice.isVisible(), "a question would be hidden"
    assert window.notice.offers() == ("Start next", "Stop it and start")
    # the engine of this window never starts, so that this waits for the machine to be known
    window.runs.welcome.demo_wanted.emit()
    assert window.page == "show" and window.others.demo_panel.page == "measuring"
    window.others.demo.show_runs([run.id for run in pair])
    assert "demo is running" in window.notice.text() and window.others.demo_panel.page == "measuring"
    window.others.demo_panel.stop_wanted.emit()
    until_raced(qtbot, window)


def test_a_window_that_opens_elsewhere_makes_no_page_of_show(
    qtbot: QtBot, open_window: Open, pair: tuple[RunRecord, RunRecord]
) -> None:
    window = open_window()
    window.others.demo.set_frame_ms(200)
    window.others.demo.set_frame_ms(None)
    assert (
        window.others.demo_panel.page is None
        and not {"race", "welcome", "measuring"} & vars(window.others.demo_panel).keys()
    )
    window.others.demo.present()
    until_raced(qtbot, window)
    button = window.others.demo_panel.race.transport.full_screen
    assert button.accessibleName() == "Leave full screen", "a page made late knows where it stands"
    clock = window.others.demo_panel.race.clock
    window.others.demo.set_frame_ms(200)
    assert clock.is_playing and clock._timer.interval() == 200, "as rarely as curves beside a measured run"
    window.others.demo.set_frame_ms(None)
    assert clock._timer.interval() < 20


BUSY = "other programs used 69% of the CPU"


@pytest.mark.slow
def test_a_disturbed_pair_is_measured_again_by_show_me_or_queued_once_for_compare(
    qtbot: QtBot,
    open_window: Open,
    saved: Store,
    trained: Callable[..., RunRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disturbed = [
        trained(name, speed, speed_note=BUSY) for name, speed in (("fp32", 1_000.0), ("fp16", 700.0))
    ]
    window = open_window()
    window.others.demo.show_runs([run.id for run in disturbed])
    until_raced(qtbot, window)
    race = window.others.demo_panel.race
    qtbot.mouseClick(race.transport.again, Qt.MouseButton.LeftButton)
    assert window.page == "results" and not window.others.demo.measurement.is_at_work
    assert "2 runs queued" in window.notice.text()
    window.show_page("show")
    qtbot.mouseClick(race.transport.again, Qt.MouseButton.LeftButton)
    queued = [run.experiment for run in saved.runs() if run.status is Status.QUEUED]
    assert sorted(queued, key=repr) == sorted((run.experiment for run in disturbed), key=repr)
    own = Showcase("Demo", tuple((run.name, run.experiment) for run in disturbed), "")
    monkeypatch.setattr("gui.demo.measurement.GuidedMeasurement.case", own)
    window.show_page("show")
    begun: list[str] = []
    monkeypatch.setattr(window.others.demo.measurement, "start", lambda: begun.append("begun"))
    qtbot.mouseClick(race.transport.again, Qt.MouseButton.LeftButton)
    assert begun == ["begun"]


class Stage:
    """A window with a bar, a notice that is hidden, and the panel that is presented."""

    def __init__(self, qtbot: QtBot) -> None:
        self.window = QMainWindow()
        qtbot.addWidget(self.window)
        self.bar, self.notice, self.panel = QLabel("bar"), QLabel("notice"), QLabel("panel")
        middle = QWidget()
        column = QVBoxLayout(middle)
        for one in (self.bar, self.notice, self.panel):
            column.addWidget(one)
        self.notice.hide()
        self.window.setCentralWidget(middle)
        self.window.resize(640, 400)
        with qtbot.waitExposed(self.window):
            self.window.show()
        self.presenting = FullScreen(self.window, (self.bar, self.notice))


@pytest.fixture
def stage(qtbot: QtBot) -> Iterator[Stage]:
    stage = Stage(qtbot)
    yield stage
    stage.presenting.leave()


def test_it_takes_the_full_screen_hides_the_rest_and_escape_brings_the_window_back(
    stage: Stage, qtbot: QtBot
) -> None:
    size, presenting = stage.window.size(), stage.presenting
    with qtbot.assertNotEmitted(presenting.changed):
        qtbot.keyClick(stage.window, Qt.Key.Key_Escape)
    with qtbot.waitSignal(presenting.changed) as told:
        presenting.toggle()
    assert told.args == [True] and presenting.is_on and stage.window.isFullScreen()
    assert stage.bar.isHidden() and stage.panel.isVisible()
    with qtbot.waitSignal(presenting.changed) as told:
        qtbot.keyClick(stage.window, Qt.Key.Key_Escape)
    assert told.args == [False] and not presenting.is_on and not stage.window.isFullScreen()
    assert stage.bar.isVisible() and stage.notice.isHidden()
    qtbot.waitUntil(lambda: stage.window.size() == size)
    presenting.enter()
    stage.notice.show()
    assert stage.notice.isHidden()
    presenting.toggle()
    assert not presenting.is_on and stage.notice.isVisible(), "what was told meanwhile is told afterwards"


def test_a_maximized_window_is_maximized_again_and_the_desktops_own_way_out_ends_it(
    stage: Stage, qtbot: QtBot
) -> None:
    stage.presenting.enter()
    with qtbot.waitSignal(stage.presenting.changed) as told:
        stage.window.showNormal()
    assert told.args == [False] and stage.bar.isVisible()
    stage.window.showMaximized()
    stage.presenting.enter()
    stage.presenting.leave()
    assert stage.window.isMaximized() and not stage.window.isFullScreen()


def test_the_pointer_is_hidden_while_it_lies_still_and_shown_once_it_moves(
    stage: Stage, qtbot: QtBot
) -> None:
    stage.presenting.enter()
    pointer = stage.presenting.pointer
    assert QGuiApplication.overrideCursor() is None
    pointer.still.setInterval(1)
    QTest.mouseMove(stage.panel, QPoint(5, 5))
    qtbot.waitUntil(lambda: QGuiApplication.overrideCursor() is not None)
    assert QGuiApplication.overrideCursor().shape() is Qt.CursorShape.BlankCursor
    pointer.still.setInterval(60_000)
    QTest.mouseMove(stage.panel, QPoint(9, 9))
    qtbot.waitUntil(lambda: QGuiApplication.overrideCursor() is None)
    pointer.still.setInterval(1)
    qtbot.waitUntil(lambda: QGuiApplication.overrideCursor() is not None)
    stage.presenting.leave()
    assert QGuiApplication.overrideCursor() is None


def test_the_pointer_stays_while_another_window_is_in_front(stage: Stage, qtbot: QtBot) -> None:
    stage.presenting.enter()
    stage.presenting.pointer.still.setInterval(60_000)
    dialog = QDialog(stage.window)
    qtbot.addWidget(dialog)
    dialog.open()
    qtbot.waitUntil(dialog.isActiveWindow)
    stage.presenting.pointer.still.timeout.emit()
    assert QGuiApplication.overrideCursor() is None
    dialog.close()
    stage.window.activateWindow()
    qtbot.waitUntil(stage.window.isActiveWindow)
    stage.presenting.pointer.still.timeout.emit()
    assert QGuiApplication.overrideCursor() is not None
    dialog.open()
    qtbot.waitUntil(lambda: QGuiApplication.overrideCursor() is None)


def test_a_screen_smaller_than_the_window_may_be_is_filled_and_not_overrun(stage: Stage) -> None:
    stage.window.setMinimumSize(600, 380)
    stage.presenting.enter()
    assert stage.window.minimumSize().isEmpty()
    stage.presenting.leave()
    assert stage.window.minimumSize() == QSize(600, 380)
