"""Check: what is wrong with a model is shown in a window of its own, with the tree of its modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QPushButton, QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import request_problem
from engine.protocol.advice import Checked, Finding, FindingKind, ModuleRow
from gui.setup.model.report import CheckController, CheckReport
from gui.setup.model.tree import PARAMETERS, ModuleTree, ModuleView
from gui.window.main_window import MainWindow

ROWS = (
    ModuleRow(name="", class_name="Net", parameters=30, output="2×10", dtype="float16"),
    ModuleRow(name="body", class_name="Sequential", parameters=10),
    ModuleRow(name="body.0", class_name="Linear", parameters=10, own=("weight 2×5 float32",)),
    ModuleRow(name="head", class_name="Linear", parameters=20),
)
HALF = Finding(
    kind=FindingKind.NOT_FLOAT32,
    severity="error",
    message="Two parameters are float16 before training.",
    remedy="Remove .half().",
    file="net.py",
    line=7,
)


@pytest.fixture
def report(qtbot: QtBot) -> Iterator[CheckReport]:
    parent = QWidget()
    qtbot.addWidget(parent)
    yield CheckReport(parent)


def close_button(report: CheckReport) -> QPushButton:
    return next(button for button in report.findChildren(QPushButton) if button.text() == "Close")


def names(view: ModuleView, parent: QModelIndex | None = None) -> list[str]:
    model = view.model()
    above = QModelIndex() if parent is None else parent
    return [model.index(row, 0, above).data() for row in range(model.rowCount(above))]


def test_findings_come_with_their_place_and_remedy(report: CheckReport) -> None:
    experiment = Experiment(model="net.py", precision=Precision.FP16)
    report.show_checking(experiment)
    assert "Passing two" in report.text()
    report.show_answer(experiment, Checked(findings=(HALF,), tree=ROWS, parameters=30, loss="2.303"))
    words = report.text()
    assert words.startswith("1 error. 30 parameters, loss 2.303.")
    assert all(part in words for part in ("net.py:7", HALF.message, HALF.remedy))
    report.show_answer(experiment, Checked(tree=ROWS, parameters=30))
    assert report.text() == "No mistakes found. 30 parameters."
    report.show_answer(experiment, request_problem("There is no model.", "Define it."))
    assert "There is no model." in report.text() and not report.tree.isVisibleTo(report)


@pytest.mark.parametrize(
    "close",
    [
        lambda qtbot, report: report.close(),
        lambda qtbot, report: qtbot.keyClick(report, Qt.Key.Key_Escape),
        lambda qtbot, report: close_button(report).click(),
        lambda qtbot, report: report.parentWidget().hide(),
    ],
    ids=["its frame", "Escape", "its button", "with its window"],
)
def test_it_closes_which_ends_a_check_in_progress(
    report: CheckReport, qtbot: QtBot, close: Callable[[QtBot, CheckReport], object]
) -> None:
    report.show_answer(Experiment(), Checked(tree=ROWS))
    report.parentWidget().show()
    report.show()
    with qtbot.waitSignal(report.finished):
        close(qtbot, report)
    assert not report.isVisible()


def test_the_tree_is_in_the_models_order_and_can_be_sorted_by_parameters(report: CheckReport) -> None:
    report.tree.show_rows(ROWS)
    model = report.tree.model()
    root = model.index(0, 0)
    assert names(report.tree) == ["the model"] and names(report.tree, root) == ["body", "head"]
    assert names(report.tree, model.index(0, 0, root)) == ["0"]
    assert "weight 2×5" in model.index(0, 0, model.index(0, 0, root)).data(Qt.ItemDataRole.ToolTipRole)
    report.tree.sortByColumn(PARAMETERS, Qt.SortOrder.DescendingOrder)
    assert names(report.tree, model.index(0, 0)) == ["head", "body"]
    report.tree.sortByColumn(-1, Qt.SortOrder.DescendingOrder)
    assert names(report.tree, model.index(0, 0)) == ["body", "head"]
    tree = ModuleTree((ROWS[0], ROWS[2]))
    assert tree.rowCount(tree.index(0, 0)) == 1


@pytest.fixture
def window(start: Callable[[], MainWindow], qtbot: QtBot) -> Iterator[MainWindow]:
    window = start()
    with qtbot.waitSignal(window.experiments.catalog_known, timeout=60_000):
        window.show()
    yield window
    window.close_without_asking()


def test_the_form_s_model_is_checked_and_a_cancelled_check_is_not_answered(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    report = window.findChild(CheckController).report  # type: ignore[union-attr]
    with qtbot.waitSignal(window.experiments.checked, timeout=60_000):
        window.setup.check_action.trigger()
    assert report.isVisible() and "float32" in report.text()
    assert names(report.tree, report.tree.model().index(0, 0))
    report.close()
    report = window.findChild(CheckController).report  # type: ignore[union-attr]
    answers: list[object] = []
    window.experiments.checked.connect(lambda _experiment, answer: answers.append(answer))
    window.setup.check_action.trigger()
    report.close()
    with qtbot.waitSignal(window.experiments.checked, timeout=60_000):
        window.setup.check_action.trigger()
    assert len(answers) == 1 and isinstance(answers[0], Checked)
    report.close()
