"""The one table: sorted, filtered and copied, told to a screen reader, fitted to its room."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAccessible, QGuiApplication
from PySide6.QtWidgets import QApplication, QScrollArea, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.catalog import Precision
from gui.theme.theme import theme
from gui.widgets.table import Column, ColumnGroup, FilteredTable, Look, ResultTable
from gui.widgets.table.columns import GROWS, fitted_widths
from gui.widgets.table.result_table import copy_lines


class Fruit(NamedTuple):
    name: str
    grams: float | None


FRUITS = (Fruit("pear", 180), Fruit("apple", 90), Fruit("melon", 2_000), Fruit("lost apple", None))
COLUMNS = (
    Column[Fruit]("Fruit", lambda fruit: fruit.name, tip="Its name", width=80, widest=GROWS),
    Column[Fruit](
        "Weight",
        lambda fruit: "–" if fruit.grams is None else f"{fruit.grams:,.0f} g",
        lambda fruit: fruit.grams,
        is_number=True,
        is_dispensable=True,
        look=lambda fruit: Look(
            600, "text2", mark="check" if fruit.grams else Precision.FP16, is_struck=True
        ),
    ),
)


@pytest.fixture
def table(qtbot: QtBot) -> ResultTable[Fruit]:
    table = ResultTable[Fruit](
        "Fruits",
        COLUMNS,
        key=lambda fruit: fruit.name,
        about=lambda fruit: f"A <{fruit.name}>",
        empty="No fruit.",
    )
    qtbot.addWidget(table)
    table.resize(400, 200)
    table.show_rows(FRUITS)
    with qtbot.waitExposed(table):
        table.show()
    return table


def names(table: ResultTable[Fruit]) -> list[str]:
    return [fruit.name for fruit in table.rows()]


def click_heading(table: ResultTable[Fruit], qtbot: QtBot, column: int) -> None:
    header = table.horizontalHeader()
    place = QPoint(header.sectionViewportPosition(column) + 20, header.height() - 8)
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_a_heading_sorts_by_value_the_largest_first_and_a_third_click_takes_it_back(
    table: ResultTable[Fruit], qtbot: QtBot
) -> None:
    given = names(table)
    for expected in (
        ["melon", "pear", "apple", "lost apple"],
        ["apple", "pear", "melon", "lost apple"],
        given,
    ):
        click_heading(table, qtbot, 1)
        assert names(table) == expected
    click_heading(table, qtbot, 0)
    assert names(table) == sorted(given)


def test_what_is_selected_stays_so_in_another_order_with_a_filter_and_with_new_rows(
    table: ResultTable[Fruit], qtbot: QtBot
) -> None:
    with qtbot.waitSignal(table.selected) as selected:
        table.selectRow(2)
    assert selected.args == [(FRUITS[2],)]
    table.sortByColumn(0, Qt.SortOrder.AscendingOrder)
    assert table.selected_rows() == (FRUITS[2],)
    with qtbot.assertNotEmitted(table.selected):
        table.set_filter("melon")
        table.show_rows((Fruit("melon", 1.0), Fruit("fig", 2.0)))
    assert table.selected_rows() == (Fruit("melon", 1.0),)
    table.select_keys(("pear",))
    assert table.selected_rows() == ()


def test_a_filter_looks_for_every_word_and_for_what_its_owner_keeps(table: ResultTable[Fruit]) -> None:
    table.set_filter("90 APPLE")
    assert names(table) == ["apple"]
    table.set_filter("apple", lambda fruit: fruit.grams is None)
    assert names(table) == ["lost apple"]


def test_rows_are_copied_below_their_headings_and_all_of_them_if_none_is_selected(
    table: ResultTable[Fruit], qtbot: QtBot
) -> None:
    def copied() -> list[str]:
        qtbot.keyClick(table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
        return QGuiApplication.clipboard().text().split("\n")

    assert copied() == ["Fruit\tWeight", "pear\t180 g", "apple\t90 g", "melon\t2,000 g", "lost apple\t–"]
    table.selectRow(1)
    assert copied() == ["Fruit\tWeight", "apple\t90 g"]
    menu = table.menu_at(table.model().index(2, 1))
    next(action for action in menu.actions() if action.text() == "Copy cell").trigger()
    assert QGuiApplication.clipboard().text() == "2,000 g"


def test_no_copied_cell_is_a_formula_or_two_cells(qapp: QApplication) -> None:
    copy_lines([["Run", "Loss"], ["=cmd|'/C calc'!A0", "a\t=1\n=2"], ["＝1", 0.5]])
    assert QGuiApplication.clipboard().text() == "Run\tLoss\n'=cmd|'/C calc'!A0\ta =1 =2\n'＝1\t0.5"


def test_a_screen_reader_is_told_cells_headings_and_that_there_is_nothing(table: ResultTable[Fruit]) -> None:
    reader = QAccessible.queryAccessibleInterface(table)
    assert reader.text(QAccessible.Text.Name) == "Fruits"
    told = [reader.child(place).text(QAccessible.Text.Name) for place in range(reader.childCount())]
    assert [text for text in told if text][:4] == ["Fruit", "Weight", "pear", "180 g"]
    assert table.model().index(0, 0).data(Qt.ItemDataRole.AccessibleDescriptionRole) == "A <pear>"
    assert "&lt;pear&gt;" in table.model().index(0, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert not table.accessibleDescription()
    table.show_rows(())
    assert table.accessibleDescription() == "No fruit."


def test_a_column_gives_way_where_there_is_no_room_and_the_users_own_width_stays(
    table: ResultTable[Fruit], qtbot: QtBot
) -> None:
    assert table.columnWidth(0) + table.columnWidth(1) == table.viewport().width()
    table.horizontalHeader().resizeSection(1, 90)
    table.resize(300, 200)
    assert table.columnWidth(1) == 90 and table.columnWidth(0) == table.viewport().width() - 90
    table.resize(150, 200)
    assert table.isColumnHidden(1) and table.columnWidth(0) == table.viewport().width()


def test_columns_share_what_is_left_after_their_texts() -> None:
    def column(title: str, width: int, widest: int) -> Column[str]:
        return Column(title, str, width=width, widest=widest)

    columns = (column("a", 50, 100), column("b", 50, GROWS), column("c", 40, 0), column("d", 50, GROWS))
    wanted = {0: 90, 1: 70, 3: 60}
    assert fitted_widths(columns, wanted, {}, 300) == {0: 90, 1: 90, 2: 40, 3: 80}
    assert fitted_widths(columns, wanted, {}, 200) == {0: 60, 1: 50, 2: 40, 3: 50}
    assert fitted_widths(columns, wanted, {("c", None): 80}, 300) == {0: 90, 1: 70, 2: 80, 3: 60}


def test_the_same_rows_written_otherwise_do_not_scroll_away(table: ResultTable[Fruit], qtbot: QtBot) -> None:
    table.resize(300, 80)
    table.verticalScrollBar().setValue(table.verticalScrollBar().maximum())
    place = table.verticalScrollBar().value()
    with qtbot.assertNotEmitted(table.model().modelReset):
        table.show_rows([fruit._replace(grams=5.0) for fruit in FRUITS])
    assert table.verticalScrollBar().value() == place > 0
    assert table.lines()[4] == ["lost apple", "5 g"]


def test_groups_marks_pictures_and_short_texts_are_painted(table: ResultTable[Fruit]) -> None:
    painted: list[str] = []
    group = ColumnGroup("Eaten", Precision.BF16)
    picture = Column[Fruit](
        "",
        lambda fruit: "",
        paint=lambda painter, room, fruit: painted.append(fruit.name),
        paint_heading=lambda painter, room: painted.append("heading"),
        group=group,
    )
    narrow = Column[Fruit](
        "All", lambda fruit: "whole " * 20, short=lambda fruit: painted.append("short") or "s"
    )
    table.show_rows(FRUITS[:2], (*COLUMNS, picture, narrow))
    for mode in ("dark", "light"):
        theme().set_mode(mode)
        painted.clear()
        table.grab()
        assert {"pear", "apple", "heading", "short"} == set(painted)
    # a column of pictures is not copied
    assert table.lines()[0] == ["Fruit", "Weight", "All"]
    assert (
        table.model().headerData(2, Qt.Orientation.Horizontal, Qt.ItemDataRole.AccessibleTextRole) == "Eaten "
    )


def test_a_whole_table_is_as_high_as_its_rows_and_its_page_follows_the_keys(qtbot: QtBot) -> None:
    page, inner = QScrollArea(), QWidget()
    table = ResultTable[Fruit]("Fruits", COLUMNS, key=lambda fruit: fruit.name, whole=True)
    column = QVBoxLayout(inner)
    column.addWidget(table)
    page.setWidget(inner)
    page.setWidgetResizable(True)
    qtbot.addWidget(page)
    page.resize(400, 120)
    page.show()
    page.activateWindow()
    qtbot.waitUntil(page.isActiveWindow)
    table.show_rows([Fruit(f"plum {number}", number) for number in range(30)])
    assert table.height() > 30 * 28 and not table.verticalScrollBar().maximum()
    table.setFocus()
    qtbot.waitUntil(lambda: page.verticalScrollBar().maximum() > 0)
    for key in (Qt.Key.Key_Home, Qt.Key.Key_End):
        qtbot.keyClick(table, key, Qt.KeyboardModifier.ControlModifier)
    assert page.verticalScrollBar().value() > 500


def test_a_filtered_table_counts_its_rows(qtbot: QtBot) -> None:
    table = ResultTable[Fruit]("Fruits", COLUMNS, key=lambda fruit: fruit.name)
    view = FilteredTable(table, "fruit", "All of these words")
    qtbot.addWidget(view)
    table.show_rows(FRUITS)
    view.show_count("There is no fruit.")
    assert view.count_text() == "4 fruits"
    qtbot.keyClicks(view.filter, "apple")
    assert view.count_text() == "2 of 4 fruits"
    view.keep(lambda fruit: False, "Nothing is kept.")
    assert table.accessibleDescription() == "Nothing is kept."
    table.show_rows(())
    view.show_count("There is no fruit.")
    assert table.accessibleDescription() == "There is no fruit."
