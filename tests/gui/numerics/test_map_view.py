"""The precision map: its tree, the operations of a module, and modules kept in FP32 by a tick."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QModelIndex, QPoint, Qt
from pytestqt.qtbot import QtBot

from engine.protocol.numerics.nonfinite import MappedModule, Operation, PrecisionMap
from gui.numerics.map_tree import BACKWARD, CASTS, CLASS, FORWARD, MODULE, TIME, kept_by, rows_of
from gui.numerics.map_view import KEY, MapView


@pytest.fixture
def view(qtbot: QtBot, precision_map: PrecisionMap) -> MapView:
    view = MapView()
    qtbot.addWidget(view)
    view.resize(900, 560)
    view.show_map(precision_map)
    with qtbot.waitExposed(view):
        view.show()
    return view


def found(view: MapView, name: str, column: int = MODULE) -> QModelIndex:
    model = view.tree.proxy
    hits = model.match(
        model.index(0, 0),
        Qt.ItemDataRole.DisplayRole,
        name,
        1,
        Qt.MatchFlag(0x0040),  # MatchRecursive
    )
    return hits[0].siblingAtColumn(column)


def rows(view: MapView) -> list[list[str]]:
    model = view.operations.model()
    shown = [column for column in range(model.columnCount()) if not view.operations.isColumnHidden(column)]
    return [[model.index(row, column).data() for column in shown] for row in range(model.rowCount())]


def test_a_module_has_its_formats_both_ways_and_what_they_cost(view: MapView) -> None:
    assert found(view, "classifier", FORWARD).data() == "FP16"
    assert found(view, "classifier", CASTS).data() == "2"
    assert found(view, "features", FORWARD).data() == "FP16 +1"
    assert found(view, "features", BACKWARD).data() == "FP16 +1"
    assert found(view, "Loss", FORWARD).data() == "FP32"
    assert view.legend.accessibleName() == "Colours: FP16, FP32"


def test_a_click_on_a_module_lists_its_operations(view: MapView, qtbot: QtBot) -> None:
    place = view.tree.visualRect(found(view, "classifier", TIME)).center()
    qtbot.mouseClick(view.tree.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert view.title.whole_text() == "Operations of classifier"
    assert [(row[0], row[2], row[6]) for row in rows(view)] == [
        ("aten._to_copy", "FP32 → FP16", "by autocast"),
        ("aten.addmm", "FP16 → FP16", ""),
        ("aten.mm", "FP16 → FP16", ""),
    ]


def test_a_tick_or_the_space_bar_asks_the_form_and_patterns_are_kept(view: MapView, qtbot: QtBot) -> None:
    view.show_kept(("head.*",))
    box = view.tree.visualRect(found(view, "classifier"))
    with qtbot.waitSignal(view.changes_wanted) as asked:
        qtbot.mouseClick(
            view.tree.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(box.left() + 8, box.center().y())
        )
    assert asked.args == [((KEY, "head.*, classifier"),)]
    # the form decides: nothing is ticked until it says so
    assert found(view, "classifier").data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Unchecked
    view.show_kept(("head.*", "classifier"))
    assert found(view, "classifier").data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
    view.tree.setCurrentIndex(found(view, "classifier", TIME))
    with qtbot.waitSignal(view.changes_wanted) as asked:
        qtbot.keyClick(view.tree, Qt.Key.Key_Space)
    assert asked.args == [((KEY, "head.*"),)]


def test_what_a_pattern_or_a_module_around_keeps_cannot_be_let_go_alone(view: MapView) -> None:
    view.show_kept(("feat*",))
    view.tree.expandAll()
    index = found(view, "0")
    assert index.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
    assert not index.flags() & Qt.ItemFlag.ItemIsUserCheckable
    assert "because of feat*" in index.data(Qt.ItemDataRole.ToolTipRole)
    assert kept_by("features.0", ("features",)) == "features" and kept_by("classifier", ("features",)) is None


def test_it_sorts_by_time_and_filters_by_name(view: MapView, qtbot: QtBot) -> None:
    view.tree.sortByColumn(TIME, Qt.SortOrder.DescendingOrder)
    model = view.tree.proxy
    inside = model.index(0, 0)
    assert [model.index(row, 0, inside).data() for row in range(model.rowCount(inside))] == [
        "features",
        "classifier",
    ]
    qtbot.keyClicks(view.filter, "features.3")
    features = model.index(0, 0, model.index(0, 0))
    assert (model.rowCount(), model.rowCount(features)) == (1, 1)
    qtbot.keyClick(view.filter, Qt.Key.Key_Escape)
    assert model.rowCount() == 2


def test_a_large_model_is_shown_whole() -> None:
    names = [f"blocks.{block}.{layer}" for block in range(1_000) for layer in ("a", "b")]
    modules = [MappedModule(name=name, class_name="Linear") for name in ("", "blocks", *names)]
    modules += [MappedModule(name=f"blocks.{block}", class_name="Block") for block in range(1_000)]
    modules.sort(key=lambda module: module.name)
    operations = tuple(
        Operation(module=name, name="aten.mm", direction="forward", outputs=("float16",), seconds=1e-6)
        for name in names * 5
    )
    whole = rows_of(PrecisionMap(modules=tuple(modules), operations=operations))
    assert len(whole) == 3_002
    assert len(whole[0].operations) == 10_000 and whole[0].shares[FORWARD] == (("float16", 1.0),)


def test_without_a_map_it_says_what_it_answers(qtbot: QtBot) -> None:
    view = MapView()
    qtbot.addWidget(view)
    assert view.empty.words().startswith("Which module computes in which number format?")
    with qtbot.waitSignal(view.wanted):
        view.empty.button.click()


def test_in_a_narrow_tree_the_classes_give_their_room_to_the_names(view: MapView, qtbot: QtBot) -> None:
    assert not view.tree.isColumnHidden(CLASS)
    view.resize(700, 560)
    qtbot.waitUntil(lambda: view.tree.isColumnHidden(CLASS))
    assert "(Linear)" in found(view, "classifier").data(Qt.ItemDataRole.ToolTipRole)
