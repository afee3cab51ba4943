"""Saved runs on their way out of the window: files, the clipboard, and what is said of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image
from PySide6.QtCore import QEventLoop, QPoint, Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision
from engine.export.formats import COMPARISON, Format
from engine.protocol.events import Finished, Summary
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.compare.head import ExportButton
from gui.runs import importing
from gui.runs.exporting import Exporting, ExportRequest, file_name
from gui.runs.importing import FileChoice, file_choice
from gui.session.background import Background
from gui.session.saved_runs import SavedRuns
from gui.theme.theme import theme
from gui.widgets.notice import Notice
from gui.window.main_window import MainWindow

Trained = Callable[..., RunRecord]


@dataclass
class Desk:
    """What exports, and what the window says of it."""

    exporting: Exporting
    background: Background
    notice: Notice
    qtbot: QtBot

    def settle(self) -> None:
        # Qt's own wait holds Python's lock, for which a thread that paints blocks waits at each of them
        loop, poll = QEventLoop(), QTimer(interval=10)
        poll.timeout.connect(lambda: None if self.background.is_busy else loop.quit())
        poll.start()
        QTimer.singleShot(60_000, loop, loop.quit)
        loop.exec()
        poll.stop()
        assert not self.background.is_busy


@pytest.fixture
def desk(qtbot: QtBot, saved: Store, pair: ExportRequest) -> Iterator[Desk]:
    window = QWidget()
    qtbot.addWidget(window)
    notice, background, runs = Notice(window), Background(), SavedRuns(saved)
    runs.reload()
    yield Desk(Exporting(saved.path, runs, background, notice, window), background, notice, qtbot)
    background.stop()


@pytest.fixture
def pair(trained: Trained) -> ExportRequest:
    runs = trained("fp32", 880.0, name="A <b> run"), trained("fp16", 1_663.0)
    return ExportRequest(tuple(run.id for run in runs), runs[0].id)


def test_what_is_written_is_told_and_what_is_there_is_replaced_only_when_a_person_says_so(
    desk: Desk, pair: ExportRequest, tmp_path: Path
) -> None:
    target = tmp_path / "report.html"
    target.write_text("mine")
    desk.exporting.write(pair, target)
    assert desk.notice.text() == "Writing report.html…"
    desk.settle()
    assert target.read_text() == "mine"
    assert "already exists" in desk.notice.text() and desk.notice.offers() == ("Replace",)
    next(one for one in desk.notice.findChildren(QAbstractButton) if one.text() == "Replace").click()
    desk.settle()
    assert desk.notice.text() == "Wrote 2 runs to report.html."
    assert desk.notice.offers() == ("Open", "Show in folder")
    assert desk.notice.messages()[-1].path == target
    assert "FP16 AMP" in target.read_text(encoding="utf-8")
    beside = "runs-runs.csv and runs-summary.csv."
    for request, place, told in (
        (pair, "runs.csv", f"Wrote 2 runs to runs.csv, with {beside}"),
        (pair, "gone/report.html", "does not exist"),
        (pair, "script.py", "A script needs exactly one run, but 2 were given."),
        (ExportRequest(pair.run_ids[:1]), "race.webp", ""),
    ):
        desk.exporting.write(request, tmp_path / place)
        desk.settle()
        assert told in desk.notice.text() and desk.notice.text()
    assert len(list(tmp_path.glob("runs*.csv"))) == 3
    assert not [*tmp_path.glob("*.py"), *tmp_path.glob("*.webp")], "what failed leaves no file"
    desk.exporting.ask("any", ExportRequest(()))
    assert desk.notice.text() == "There are no runs to export."


def test_a_table_is_put_on_the_clipboard(desk: Desk, pair: ExportRequest) -> None:
    for form, start in (("markdown", "## "), ("latex", "%")):
        desk.exporting.ask(form, pair)
        desk.settle()
        assert "to the clipboard" in desk.notice.text()
        text = QGuiApplication.clipboard().text()
        assert text.startswith(start) and "FP16 AMP" in text


@pytest.fixture
def name(saved: Store, pair: ExportRequest) -> str:
    """What a file of the pair is called."""
    return file_name([saved.run(run_id) for run_id in pair.run_ids])


def test_tensorboard_gets_a_folder_of_its_own(
    desk: Desk, pair: ExportRequest, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "ask_folder", lambda *_: tmp_path)
    desk.exporting.ask("tensorboard", pair)
    desk.settle()
    assert desk.notice.text() == f"Wrote 2 runs to {name}-tensorboard."
    assert len(list((tmp_path / f"{name}-tensorboard").rglob("events.*"))) == 2


def test_the_folder_is_remembered_and_a_person_may_think_better_of_it(
    desk: Desk, pair: ExportRequest, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Path, str]] = []

    def ask(_window: QWidget, folder: Path, offer: str, _formats: object) -> FileChoice | None:
        asked.append((folder, offer))
        return FileChoice(tmp_path / "one.json", may_replace=False) if len(asked) == 1 else None

    monkeypatch.setattr(importing, "ask_file", ask)
    for _ in range(2):
        desk.exporting.ask("json", pair)
        desk.settle()
    assert [offer for _, offer in asked] == [name] * 2
    assert asked[1][0] == tmp_path
    assert desk.exporting.state()["folder"] == str(tmp_path)


@pytest.mark.slow
def test_a_race_is_saved_in_the_windows_colours(
    desk: Desk, pair: ExportRequest, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered: list[list[str]] = []

    def ask(_window: QWidget, _folder: Path, offer: str, formats: Sequence[Format]) -> FileChoice:
        offered.append([one.name for one in formats])
        return file_choice(str(tmp_path / f"{offer}{formats[-1].suffix}"), formats[-1])

    monkeypatch.setattr(importing, "ask_file", ask)
    for form in ("card", "animation"):
        desk.exporting.ask(form, pair)
        desk.settle()
    assert offered == [["card"], ["animation", "gif"]]
    assert desk.notice.text() == f"Wrote 2 runs to {name}-replay.gif."
    with Image.open(tmp_path / f"{name}-replay.png") as card:
        assert card.size == (2_560, 1_440)
        ground = theme().palette.bg0
        assert card.getpixel((2, 2)) == tuple(bytes.fromhex(ground.removeprefix("#")))


def test_a_program_is_offered_of_a_run_that_is_no_script(
    request: pytest.FixtureRequest, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered: list[set[str]] = []
    runs = trained("fp32", 1.0), trained("fp32", 1.0, settings={"command": {"line": "python train.py"}})
    desk: Desk = request.getfixturevalue("desk")

    def ask(_window: QWidget, _folder: Path, _offer: str, formats: Sequence[Format]) -> None:
        offered.append({one.name for one in formats})

    monkeypatch.setattr(importing, "ask_file", ask)
    for run in runs:
        desk.exporting.ask("any", ExportRequest((run.id,)))
    assert offered[0] - offered[1] == {"script"}
    assert file_name([runs[1], runs[1]]).startswith("train-py-fp32-")


def test_a_name_without_an_ending_gets_that_of_the_chosen_form(tmp_path: Path) -> None:
    pdf = COMPARISON.format_named("pdf")
    there = tmp_path / "there.html"
    there.touch()
    assert file_choice(str(tmp_path / "v1.2"), pdf) == FileChoice(tmp_path / "v1.2.pdf", may_replace=False)
    assert file_choice(str(there), pdf) == FileChoice(there, may_replace=True)
    card = COMPARISON.format_named("card")
    assert file_choice(str(tmp_path / "x.png"), card) == FileChoice(tmp_path / "x.png", False, "card")
    assert file_choice(str(tmp_path / "x.pdf"), card) == FileChoice(tmp_path / "x.pdf", False)
    assert file_choice(str(tmp_path / "new.HTML"), pdf) == FileChoice(
        tmp_path / "new.HTML", may_replace=False
    )


def test_a_file_is_named_for_what_is_in_it_and_its_day(trained: Trained) -> None:
    hostile = trained("fp32", 1.0, name="../a: <b> \N{GRINNING FACE} c")
    day = f"{hostile.created.astimezone():%Y-%m-%d}"
    assert file_name([hostile]) == f"a-b-c-{day}"
    assert file_name([trained("fp32", 1.0, name="///")]) == f"run-{day}"
    pair = [hostile, trained("bf16", 1.0), trained("fp32", 1.0)]
    assert file_name(pair) == f"small-cnn-fp32-bf16-{day}"
    assert (
        file_name([*pair, trained("fp16", 1.0, settings={"model": "resnet18"})])
        == f"2-models-fp32-bf16-fp16-{day}"
    )


def test_the_export_button_opens_the_formats_or_is_dragged_but_never_both(qtbot: QtBot) -> None:
    button = ExportButton()
    qtbot.addWidget(button)
    button.show()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert button.formats.isVisible()
    with qtbot.waitSignal(button.wanted) as signal:
        next(action for action in button.formats.actions() if "CSV" in action.text()).trigger()
    assert signal.args == ["csv"]
    button.formats.close()
    with qtbot.waitSignal(button.drag_wanted):
        qtbot.mousePress(button, Qt.MouseButton.LeftButton, pos=QPoint(20, 10))
        qtbot.mouseMove(button, QPoint(60, 10))
    qtbot.mouseRelease(button, Qt.MouseButton.LeftButton, pos=QPoint(60, 10))
    assert not button.formats.isVisible()


def test_a_report_follows_what_compare_shows(
    qtbot: QtBot,
    start: Callable[[], MainWindow],
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = []
    for precision, speed in (("fp16", 900.0), ("fp32", 500.0), ("bf16", 800.0)):
        ids.append(store.add(Experiment(steps=200, precision=Precision(precision))).id)
        store.begin(ids[-1])
        store.record(ids[-1], [Finished(summary=Summary(samples_per_second=speed, steps=200))])
    window = start()
    window.experiments.load()
    window.runs.set_checked(ids)
    with qtbot.waitSignal(window.others.comparisons.reader.shown):
        window.show_page("results")
        window.others.comparisons.reader.set_in_sight(True)
    with qtbot.waitSignal(window.others.comparisons.reader.shown):
        window.others.head.set_headline(ids[2])
        window.others.head.set_baseline(ids[0])
    monkeypatch.setattr(importing, "ask_title", lambda *_: "Our new card")
    monkeypatch.setattr(importing, "ask_file", lambda *_: FileChoice(tmp_path / "x.html", False))
    export = window.others.head.export
    export.title_wanted.emit()
    export.wanted.emit("html")
    qtbot.waitUntil((tmp_path / "x.html").exists)
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    title = re.search(r"<h1>(.*?)</h1>", text, re.DOTALL)
    assert title is not None and re.sub(r"<[^>]*>", "", title[1]).strip().startswith("BF16 AMP")
    assert '<p class="name"><bdi>Our new card</bdi></p>' in text
    heads = re.findall(r"<bdi>([^<]+)</bdi></th>", text)
    assert heads[:2] == ["Rank", "Side"], heads
