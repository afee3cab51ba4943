"""The window's tests: what leaves a QThread, a QTimer or a widget behind fails, and says where it began."""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any
from weakref import ReferenceType, ref

import pytest
import shiboken6
from PySide6.QtCore import QObject, Qt, QThread, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.presets import preset
from engine.protocol.events import Environment, Epoch, Finished, Log, Samples, Summary
from engine.runner import Runner
from engine.store.record import RunRecord
from engine.store.saved import forecasts
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from gui.charts.smoothing import smoothing
from gui.window.main_window import FIRST_PRESET, MainWindow
from gui.window.remembered import Key, Settings
from tests.records import started_of


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # the offscreen platform says so whenever a window or a popup is shown
    folder = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.qt_log_ignore("This plugin does not support"))


@pytest.fixture
def launcher(request: pytest.FixtureRequest, home: Path, first_forecasts: Path) -> Iterator[Launcher]:
    """Trains in a thread of this process, where a run begins at once, or in workers of its own.

    `@pytest.mark.parametrize("launcher", [Target.PROCESS], indirect=True)` asks for workers: for what is to
    be proven of them, and for a run with a memory cap, which would hold for this whole process.
    """
    home.mkdir(parents=True, exist_ok=True)
    shutil.copy(first_forecasts, home)
    if getattr(request, "param", Target.THREAD) is Target.PROCESS:
        shared: Launcher = request.getfixturevalue("shared_launcher")
        shared.prepare()
        yield shared
    else:
        with Launcher(Target.THREAD) as launcher:
            yield launcher


@pytest.fixture(autouse=True)
def time_limits_reach_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time limit raises in whatever Python code runs next: in the slot that ends the short waits of
    `waitUntil`, Qt swallowed it, and the wait went on for ever. Qt's own wait has no slot."""
    monkeypatch.setattr(QtBot, "wait", lambda _, ms: QTest.qWait(ms))


@pytest.fixture(autouse=True)
def nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that no test answers would wait for ever, and no time limit ends Qt's own loop."""

    def unanswered(box: QMessageBox) -> int:
        raise AssertionError(f"waits for an answer: {box.text()}")

    monkeypatch.setattr(QMessageBox, "exec", unanswered)


@pytest.fixture(scope="session")
def first_forecasts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the program keeps of the first preset's memory, as on a machine where it ran before.

    Without it every window would begin with seconds of forecasting, in a worker started for that.
    """
    folder = tmp_path_factory.mktemp("known")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AMMETER_HOME", str(folder))
        with Launcher(Target.THREAD) as launcher, Store() as store:
            runner = Runner(store, launcher)
            for _, experiment in preset(FIRST_PRESET).experiments(runner.catalog().has_gpu):
                runner.forecast(experiment)
    return folder / forecasts.FILE_NAME


CARD = Environment(
    device_name="A card", device_memory_mib=24_576, torch="2.11", python="3.12", os="Linux", ammeter="0.1"
)
STEPS = 200


@pytest.fixture
def saved(tmp_path: Path) -> Iterator[Store]:
    """A store to put runs into."""
    with Store(tmp_path / "saved" / "ammeter.sqlite") as opened:
        yield opened


@pytest.fixture
def trained(saved: Store) -> Callable[..., RunRecord]:
    """Puts a run into `saved` as a worker would have told it; keywords beyond the settings are figures."""

    def make(
        precision: str,
        speed: float | None,
        *,
        losses: Sequence[float] | None = None,
        accuracies: Sequence[float] = (),
        name: str | None = None,
        stopped: bool = False,
        printed: str = "",
        machine: Environment = CARD,
        comparison: str | None = None,
        settings: dict[str, Any] | None = None,
        **figures: Any,
    ) -> RunRecord:
        experiment = Experiment.model_validate({"precision": precision, "steps": STEPS, **(settings or {})})
        losses = tuple(5.0 / step for step in range(1, STEPS + 1)) if losses is None else tuple(losses)
        count, pace = len(losses), 64 / (speed or 100.0)
        run_id = saved.add(experiment, name=name, comparison=comparison).id
        saved.begin(run_id)
        begin = started_of(experiment, STEPS, 100, machine)
        samples = Samples(
            step=tuple(range(1, count + 1)),
            seconds=tuple(step * pace for step in range(count)),
            loss=losses,
            samples_per_second=(speed or 100.0,) * count,
            learning_rate=(0.1,) * count,
        )
        epochs = [
            Epoch(epoch=n, step=50 * n, seconds=50 * n * pace, train_loss=1.0, validation_accuracy=accuracy)
            for n, accuracy in enumerate(accuracies, start=1)
        ]
        summary = Summary(
            steps=count,
            samples_per_second=speed,
            step_ms=64_000 / speed if speed else None,
            final_train_loss=losses[-1] if losses else None,
            final_validation_accuracy=figures.pop(
                "final_validation_accuracy", accuracies[-1] if accuracies else None
            ),
            seconds=count * pace,
            **figures,
        )
        logs = [Log(level="stderr", message=printed)] if printed else []
        saved.record(run_id, [begin, samples, *epochs, *logs, Finished(summary=summary, stopped=stopped)])
        return saved.run(run_id)

    return make


@pytest.fixture
def seen_before() -> Callable[[Path], Settings]:
    """What is remembered in a folder, at least that there was a window: the very first one welcomes."""

    def settings(folder: Path) -> Settings:
        path = folder / "window.json"
        return Settings.load(path) if path.exists() else Settings(path, {Key.PAGE: "experiment"})

    return settings


@pytest.fixture
def squeezed() -> Callable[[QWidget], list[str]]:
    """Names the visible parts of a widget that are lower than their content needs."""

    def lower_than_their_content(widget: QWidget) -> list[str]:
        parts = [part for part in widget.findChildren(QWidget) if part.isVisible()]
        layouts = [(part, layout) for part in parts if (layout := part.layout()) is not None]
        return [
            f"{type(part).__name__} {part.accessibleName()}: {part.height()} of {needed}"
            for part, layout in layouts
            if part.height() < (needed := layout.minimumSize().height())
        ]

    return lower_than_their_content


@pytest.fixture
def type_into(qtbot: QtBot) -> Callable[[QLineEdit, str], None]:
    """Types a text in the place of what stands in a field."""

    def type_text(edit: QLineEdit, text: str) -> None:
        edit.setFocus()
        edit.selectAll()
        qtbot.keyClick(edit, Qt.Key.Key_Delete)
        qtbot.keyClicks(edit, text)

    return type_text


@pytest.fixture
def tiny() -> Experiment:
    """Trained in a moment."""
    return experiment_from(
        {
            "model": "linear",
            "dataset": "synthetic-regression",
            "samples": 20,
            "batch_size": 10,
            "steps": 40,
            "device": "cpu",
            "measure": {"warmup_steps": 1, "block_steps": 2},
            "optimizer": {"name": "sgd", "learning_rate": 0.01},
        }
    )


@pytest.fixture
def endless(tiny: Experiment) -> Experiment:
    """Trains until it is stopped."""
    return tiny.model_copy(update={"steps": 100_000_000})


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with Store(home / "ammeter.sqlite") as opened:
        yield opened


@pytest.fixture
def start(
    qtbot: QtBot, store: Store, home: Path, seen_before: Callable[[Path], Settings]
) -> Iterator[Callable[..., MainWindow]]:
    """Opens a window that nobody sees, so that no engine is started for it.

    It has all pages, which a window that is seen makes after its first paint, unless `has_pages` is false.
    Further keywords are what it remembers.
    """
    opened: list[MainWindow] = []
    with Launcher(Target.THREAD) as launcher:

        def open_one(used: Store = store, *, has_pages: bool = True, **remembered: object) -> MainWindow:
            settings = seen_before(home)
            for key, value in remembered.items():
                settings.set(key, value)
            opened.append(MainWindow(used, launcher, settings))
            qtbot.addWidget(opened[-1])
            assert not has_pages or opened[-1].others is not None
            return opened[-1]

        yield open_one
        for window in opened:
            window.close_without_asking()


@pytest.fixture(autouse=True)
def usual_smoothing(qapp: QApplication) -> Iterator[None]:
    """The smoothing is the application's, and the application is that of all tests."""
    yield
    smoothing().set_steps(15)


@pytest.fixture(autouse=True)
def nothing_of_qt_left(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    begun: list[tuple[ReferenceType[QObject], traceback.StackSummary]] = []
    for kind in (QThread, QTimer):
        monkeypatch.setattr(kind, "start", _remembering(kind.start, begun))
    widgets_before = set(map(id, QApplication.topLevelWidgets()))
    yield
    qapp.sendPostedEvents(None, 52)  # QEvent.DeferredDelete
    left = ["".join(where.format()) for reference, where in begun if _is_active(reference())]
    assert not left, "left active, begun at:\n" + "\n".join(left)
    widgets = [
        widget
        for widget in QApplication.topLevelWidgets()
        if id(widget) not in widgets_before and widget.parent() is None and widget.isVisible()
    ]
    assert not widgets, f"left open: {widgets}"


def _remembering(
    start: Callable[..., None], begun: list[tuple[ReferenceType[QObject], traceback.StackSummary]]
) -> Callable[..., None]:
    def remember(self: QObject, *arguments: object) -> None:
        if isinstance(self, QObject):
            # the lines are read where they are shown
            frames = traceback.walk_stack(sys._getframe(1))
            begun.append((ref(self), traceback.StackSummary.extract(frames, limit=5, lookup_lines=False)))
        start(self, *arguments)

    return remember


def _is_active(thing: QObject | None) -> bool:
    if thing is None or not shiboken6.isValid(thing):
        return False
    if isinstance(thing, QThread):
        return thing.isRunning()
    return isinstance(thing, QTimer) and thing.isActive()


@pytest.fixture
def goes_on(window: MainWindow) -> Iterator[Event]:
    """A study has begun, and does nothing until this is set: however fast it is, it can be looked at."""
    goes_on = Event()
    window.experiments._thread.began.connect(lambda _key: goes_on.wait(), Qt.ConnectionType.DirectConnection)
    yield goes_on
    goes_on.set()


@pytest.fixture
def only_first_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other pages are made where they are used, not after the first paint, which takes as long again."""
    monkeypatch.setattr(MainWindow, "_load_next", lambda *_: None)


@pytest.fixture
def ready_window(
    qtbot: QtBot, launcher: Launcher, store: Store, home: Path, seen_before: Callable[[Path], Settings]
) -> Iterator[MainWindow]:
    """A window that knows its machine, so that its form may be used."""
    window = MainWindow(store, launcher, seen_before(home))
    window.show()
    qtbot.waitUntil(lambda: window.setup.run_action.isEnabled(), timeout=60_000)
    yield window
    window.close_without_asking()
    window.deleteLater()


@pytest.fixture
def tiny_window(ready_window: MainWindow, tiny: Experiment) -> MainWindow:
    """A window whose form describes the tiny experiment, and may be used."""
    ready_window.setup.use_settings(tiny)
    return ready_window
