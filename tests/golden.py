"""Golden files: the words of a page, or the output of a command, in a text file that its test compares.

`pytest --regen-all` writes them again, and a change of words is then one diff to read.
"""

from __future__ import annotations

import re
import sys
from calendar import month_abbr
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pytest_regressions.file_regression import FileRegressionFixture

if TYPE_CHECKING:
    from PySide6.QtCore import QAbstractItemModel, QModelIndex
    from PySide6.QtGui import QAction
    from PySide6.QtWidgets import QMenu, QWidget

Golden = Callable[[str, str], None]
"""Compares a text with the golden file of a name."""
_CHANGING = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)?"), "<time>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "<date>"),
    (re.compile(rf"\b\d{{1,2}} (?:{'|'.join(month_abbr[1:])})(?: \d{{4}})?, \d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b(?:[0-9a-f]{32}|[0-9a-f]{12})\b"), "<id>"),
    (re.compile(r"\b0\.\d+\.\d+(?:\.dev\d+)?(?:\+[\w.]+)?\b(?=[\s,)\"]|$)", re.MULTILINE), "<version>"),
)
"""What differs from one run of the tests to the next."""


@pytest.fixture
def golden(file_regression: FileRegressionFixture, tmp_path: Path) -> Golden:
    def check(text: str, name: str) -> None:
        known = {str(tmp_path): "<folder>", sys.prefix: "<environment>", "\N{NO-BREAK SPACE}": " "}
        for part, stable in known.items():
            text = text.replace(part, stable)
        for pattern, stable in _CHANGING:
            text = pattern.sub(stable, text)
        lines = [line.rstrip() for line in text.splitlines()]
        file_regression.check("\n".join(lines) + "\n", basename=name, extension=".txt", encoding="utf-8")

    return check


def words_of(widget: QWidget) -> str:
    """Return the words of a widget and its visible children: texts, names, tooltips, choices and tables."""
    from PySide6.QtWidgets import QWidget

    shown = [widget, *(child for child in widget.findChildren(QWidget) if child.isVisibleTo(widget))]
    return "\n".join(line for one in shown for line in _lines(one))


def menu_words(menu: QMenu, indent: str = "") -> Iterator[str]:
    """Yield the actions of a menu, with their tooltips, and those of its submenus."""
    menu.aboutToShow.emit()
    for action in menu.actions():
        if action.isVisible() and action.text():
            yield indent + _action_words(action)
            if (below := action.menu()) is not None:
                yield from menu_words(below, indent + "    ")  # type: ignore[arg-type]


def _action_words(action: QAction) -> str:
    text, tip = action.text(), _bare(action.toolTip())
    said = re.sub(r"[&…]", "", text).replace("\t", " ")
    return text if tip in ("", said, text) else f"{text}    ? {tip}"


def _lines(widget: QWidget) -> Iterator[str]:
    from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QComboBox, QHeaderView

    if isinstance(widget, QHeaderView):
        return
    text = _text(widget)
    if text:
        yield text
    for mark, words in (
        ("@", widget.accessibleName()),
        ("=", widget.accessibleDescription()),
        ("?", _bare(widget.toolTip())),
        ("[]", widget.windowTitle()),
    ):
        if words and words != text:
            yield f"    {mark} {words}"
    if isinstance(widget, QComboBox):
        yield "    > " + " | ".join(widget.itemText(place) for place in range(widget.count()))
    elif isinstance(widget, QAbstractItemView) and widget.model() is not None:
        yield from (f"    {line}" for line in _table(widget.model()))
    elif isinstance(widget, QAbstractButton) and (menu := _menu(widget)) is not None:
        yield from menu_words(menu, "    > ")


def _text(widget: Any) -> str:
    from PySide6.QtWidgets import QAbstractButton, QComboBox, QLabel, QLineEdit, QPlainTextEdit, QTextEdit

    if isinstance(widget, QComboBox):
        return widget.currentText()
    if isinstance(widget, QTextEdit | QPlainTextEdit):
        return widget.toPlainText()
    if not isinstance(widget, QLabel | QAbstractButton | QLineEdit):
        return ""
    words = str(widget.whole_text() if hasattr(widget, "whole_text") else widget.text())
    if not words and isinstance(widget, QLineEdit) and widget.placeholderText():
        return f"({widget.placeholderText()})"
    return _bare(words) if "<" in words else words.strip()


def _menu(button: Any) -> QMenu | None:
    found: QMenu | None = button.menu() if hasattr(button, "menu") else None
    return found


def _table(model: QAbstractItemModel) -> Iterator[str]:
    from PySide6.QtCore import Qt

    columns = range(model.columnCount())
    heads = [model.headerData(column, Qt.Orientation.Horizontal) for column in columns]
    if any(heads):
        yield " | ".join(str(head or "") for head in heads)
    tips = [model.headerData(one, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole) for one in columns]
    yield from (f"    ? {_bare(str(tip))}" for tip in dict.fromkeys(tips) if tip)
    yield from _rows(model, None, "")


def _rows(model: QAbstractItemModel, parent: QModelIndex | None, indent: str) -> Iterator[str]:
    from PySide6.QtCore import QModelIndex, Qt

    parent = parent or QModelIndex()
    for row in range(model.rowCount(parent)):
        places = [model.index(row, column, parent) for column in range(model.columnCount(parent))]
        yield indent + " | ".join(str(place.data() or "") for place in places)
        for tip in dict.fromkeys(place.data(Qt.ItemDataRole.ToolTipRole) for place in places):
            if tip and tip not in {place.data() for place in places}:
                yield f"{indent}    ? {_bare(str(tip))}"
        yield from _rows(model, places[0], indent + "    ")


def _bare(tip: str) -> str:
    """Return a text without its markup."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", tip))).strip()
