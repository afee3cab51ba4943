"""The lists that open below a box: one look, wide enough, and for the models grouped and searched."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QComboBox, QStyle, QStyleOptionComboBox
from pytestqt.qtbot import QtBot

from engine.experiment.catalog import Catalog, DeviceEntry, ModelEntry
from gui.setup.controls import ChoiceBox
from gui.setup.model.choices import ChoiceGroup, Row, model_choices, narrowed
from gui.setup.model.search import SearchBox
from gui.setup.panel import SetupPanel

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


LIBRARY = tuple(
    ModelEntry(name=f"timm:{name}", task="classification", parameters=None, family="timm")
    for name in ("resnet18.a1_in1k", "ecaresnet26t", "seresnet18")
)
CATALOG = Catalog(
    devices=(DeviceEntry(name="cpu", title="A CPU", memory_mib=1, precisions=()),),
    models=MODELS,
    datasets=(),
    library_models=LIBRARY,
)


@pytest.fixture
def box(qtbot: QtBot) -> SearchBox:
    box = SearchBox("Model", "The network to train.")
    qtbot.addWidget(box)
    box.set_groups(model_choices(CATALOG, ("resnet101", "/nets/mine.py:Net"), None))
    box.set_value("small-cnn")
    box.resize(288, 32)
    with qtbot.waitExposed(box):
        box.show()
    return box


def rows(box: SearchBox) -> list[str]:
    shown = box.list.model()
    texts = [shown.index(row, 0).data(Qt.ItemDataRole.AccessibleTextRole) for row in range(shown.rowCount())]
    names = [shown.index(row, 0).data() for row in range(shown.rowCount())]
    return [name or f"[{heading}]" for name, heading in zip(names, texts, strict=True)]


def names(groups: list[ChoiceGroup]) -> list[str]:
    return [row.shown for group in groups for row in group.rows]


def test_models_are_found_by_family_by_recent_use_and_by_parts_of_their_names() -> None:
    group = model_choices(CATALOG, (), None)[-2]
    assert group == ChoiceGroup("ResNet", [Row("resnet18", "11.7 M"), Row("resnet101", "44.5 M")])
    groups = model_choices(CATALOG, ("resnet101", "/nets/mine.py:Net", "gone"), None)
    assert groups[1] == ChoiceGroup(
        "Recent", [Row("resnet101", "44.5 M"), Row("/nets/mine.py:Net", "/nets", "mine.py:Net")], turn=-1
    )
    assert names(narrowed(groups, "resnet"))[:2] == ["resnet101", "resnet18"]
    assert names(narrowed(groups, "MINE net")) == ["mine.py:Net"]
    groups = model_choices(CATALOG, (), None)
    assert names(narrowed(groups, "resnet18")) == ["resnet18", "timm:resnet18.a1_in1k", "timm:seresnet18"]
    assert names(narrowed(groups, "timm 26t")) == ["timm:ecaresnet26t"]
    assert names(narrowed(groups, "resnet 18"))[:2] == ["resnet18", "timm:resnet18.a1_in1k"]
    assert names(narrowed(groups, "dense 18")) == []
    assert names(narrowed(groups, "template")) == ["New from template…"]


def test_a_click_into_the_text_opens_the_whole_list(box: SearchBox, qtbot: QtBot) -> None:
    qtbot.mouseClick(box.field, Qt.MouseButton.LeftButton, pos=QPoint(20, 10))
    assert box.list.isVisible()
    assert rows(box)[:7] == [
        "Open a file…",
        "New from template…",
        "Check this model",
        "[Recent]",
        "resnet101",
        "mine.py:Net",
        "[Small models]",
    ]
    assert box.list.currentIndex().data() == "small-cnn"
    box.hidePopup()
    assert not box.list.isVisible()


def test_a_list_of_thousands_opens_at_the_chosen_name(box: SearchBox) -> None:
    box.set_groups([ChoiceGroup("timm", [Row(f"timm:net{number}") for number in range(2_000)])])
    box.set_value("timm:net1500")
    box.showPopup()
    current = box.list.currentIndex()
    assert current.data() == "timm:net1500"
    assert box.list.viewport().rect().contains(box.list.visualRect(current))
    box.hidePopup()


def test_typing_replaces_the_name_and_narrows_the_open_list(box: SearchBox, qtbot: QtBot) -> None:
    qtbot.mouseClick(box.field, Qt.MouseButton.LeftButton, pos=QPoint(20, 10))
    qtbot.keyClicks(box.list, "net1")
    assert box.field.text() == "net1"
    assert rows(box)[:5] == ["[Recent]", "resnet101", "[DenseNet]", "densenet121", "[ResNet]"]
    with qtbot.waitSignal(box.edited, check_params_cb=lambda text: text == "resnet18"):
        place = box.list.visualRect(box.list.model().index(5, 0)).center()
        qtbot.mouseClick(box.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert box.value() == "resnet18" and not box.list.isVisible()


def test_enter_takes_the_best_match_and_the_arrows_another(box: SearchBox, qtbot: QtBot) -> None:
    for typed, chosen in (("dense", "densenet121"), ("net", "alexnet")):
        qtbot.mouseClick(box.field, Qt.MouseButton.LeftButton, pos=QPoint(20, 10))
        qtbot.keyClicks(box.list, typed)
        if chosen == "alexnet":
            names_below = [row for row in rows(box) if not row.startswith("[")]
            for _ in range(names_below.index(chosen) + 1):
                qtbot.keyClick(box.list, Qt.Key.Key_Down)
        qtbot.keyClick(box.list, Qt.Key.Key_Return)
        assert box.value() == chosen and not box.list.isVisible()
    qtbot.keyClick(box, Qt.Key.Key_Down)
    assert box.value() == "densenet121", "the arrow keys step over a heading"


def test_escape_brings_back_the_model_an_offer_leaves_it_alone_and_no_heading_is_taken(
    box: SearchBox, qtbot: QtBot
) -> None:
    qtbot.mouseClick(box.field, Qt.MouseButton.LeftButton, pos=QPoint(20, 10))
    qtbot.keyClicks(box.list, "dense")
    with qtbot.waitSignal(box.edited, check_params_cb=lambda text: text == "small-cnn"):
        qtbot.keyClick(box.list, Qt.Key.Key_Escape)
    assert box.value() == "small-cnn" and not box.list.isVisible()
    qtbot.mouseClick(box.field, Qt.MouseButton.LeftButton, pos=QPoint(20, 10))
    qtbot.keyClicks(box.list, "mine")
    with qtbot.waitSignal(box.picked) as picked:
        qtbot.keyClick(box.list, Qt.Key.Key_Return)
    assert picked.args == ["/nets/mine.py:Net"] and box.value() == "small-cnn"
    box.field.selectAll()
    qtbot.keyClicks(box.field, "AlexNet")
    qtbot.keyClick(box.field, Qt.Key.Key_Return)
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


def test_every_list_of_the_form_opens_below_its_box(panel: SetupPanel) -> None:
    boxes = panel.findChildren(QComboBox)
    assert len(boxes) >= 5
    for box in boxes:
        box.ensurePolished()
        hint = QStyle.StyleHint.SH_ComboBox_Popup
        assert not box.style().styleHint(hint, QStyleOptionComboBox(), box), box.accessibleName()
