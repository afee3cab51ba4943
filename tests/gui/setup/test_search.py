"""The lists that open below a box: one look, wide enough, and for the models grouped and searched."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QComboBox, QStyle, QStyleOptionComboBox
from pytestqt.qtbot import QtBot

from engine.experiment.catalog import ModelEntry
from gui.setup.controls import ChoiceBox
from gui.setup.options import model_groups
from gui.setup.search import SearchBox
from gui.window.main_window import MainWindow

# the offscreen platform says so whenever a window or a popup is shown
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

MODELS = tuple(
    ModelEntry(name=name, task="classification", parameters=parameters, family=family)
    for name, parameters, family in (
        ("small-cnn", 260_682, "Small models"),
        ("alexnet", 61_100_840, "AlexNet"),
        ("densenet121", 7_978_856, "DenseNet"),
        ("resnet101", 44_549_160, "ResNet"),
        ("resnet18", 11_689_512, "ResNet"),
    )
)


@pytest.fixture
def box(qtbot: QtBot) -> SearchBox:
    box = SearchBox("Model", "The network that is trained.")
    qtbot.addWidget(box)
    box.set_groups(model_groups(MODELS))
    box.set_value("small-cnn")
    box.resize(288, 32)
    with qtbot.waitExposed(box):
        box.show()
    return box


def rows(box: SearchBox) -> list[str]:
    shown = box.list.model()
    texts = (shown.index(row, 0).data(Qt.ItemDataRole.AccessibleTextRole) for row in range(shown.rowCount()))
    names = [shown.index(row, 0).data() for row in range(shown.rowCount())]
    return [name or f"[{heading}]" for name, heading in zip(names, texts, strict=True)]


def test_models_stand_in_families_the_smallest_first() -> None:
    assert model_groups(MODELS)[-1] == ("ResNet", [("resnet18", "11.7 M"), ("resnet101", "44.5 M")])


def test_a_click_into_the_text_opens_the_whole_list(box: SearchBox, qtbot: QtBot) -> None:
    qtbot.mouseClick(box.field, Qt.MouseButton.LeftButton, pos=QPoint(20, 10))
    assert box.list.isVisible()
    assert rows(box)[:4] == ["[Small models]", "small-cnn", "[AlexNet]", "alexnet"]
    assert box.list.currentIndex().data() == "small-cnn"
    box.hidePopup()
    assert not box.list.isVisible()


def test_typing_replaces_the_name_and_narrows_the_open_list(box: SearchBox, qtbot: QtBot) -> None:
    qtbot.mouseClick(box.field, Qt.MouseButton.LeftButton, pos=QPoint(20, 10))
    qtbot.keyClicks(box.list, "net1")
    assert box.field.text() == "net1"
    assert rows(box) == ["densenet121", "resnet18", "resnet101"]
    with qtbot.waitSignal(box.edited, check_params_cb=lambda text: text == "resnet18"):
        place = box.list.visualRect(box.list.model().index(1, 0)).center()
        qtbot.mouseClick(box.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert box.value() == "resnet18" and not box.list.isVisible()


def test_a_heading_is_never_taken_for_a_model(box: SearchBox, qtbot: QtBot) -> None:
    box.field.selectAll()
    qtbot.keyClicks(box.field, "AlexNet")
    qtbot.keyClick(box.field, Qt.Key.Key_Return)
    assert box.value() == "alexnet"


def test_the_arrow_keys_step_over_a_heading(box: SearchBox, qtbot: QtBot) -> None:
    qtbot.keyClick(box, Qt.Key.Key_Down)
    assert box.value() == "alexnet"


def test_a_list_is_wide_enough_for_its_longest_words(qtbot: QtBot) -> None:
    words = "Fake pictures, made one by one as real ones are loaded"
    box = ChoiceBox("Dataset", "What it is trained on.", (("a", "Short"), ("b", words)))
    qtbot.addWidget(box)
    box.resize(120, 32)
    with qtbot.waitExposed(box):
        box.show()
    box.showPopup()
    assert box.view().viewport().width() >= box.view().sizeHintForColumn(0)
    box.hidePopup()


def test_every_list_of_the_window_opens_below_its_box(start: Callable[[], MainWindow]) -> None:
    boxes = start().findChildren(QComboBox)
    assert len(boxes) > 5
    for box in boxes:
        box.ensurePolished()
        hint = QStyle.StyleHint.SH_ComboBox_Popup
        assert not box.style().styleHint(hint, QStyleOptionComboBox(), box), box.accessibleName()
