"""Values whose names are markup, and a look at every text of a window that Qt would take for markup."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from PySide6.QtCore import QAbstractItemModel, QAbstractListModel, QAbstractTableModel, QModelIndex, Qt
from PySide6.QtGui import Qt as QtText
from PySide6.QtWidgets import QAbstractItemView, QComboBox, QLabel, QTreeView, QWidget

MARKUP = '<h1>x</h1><img src="file:///x.png">'

_Model = TypeVar("_Model", bound=BaseModel)
_OWN_TIP = re.compile(r'<p style="white-space: pre-wrap">[^<]*</p>')
_OWN_LABEL = re.compile(r"</?(span|div)( style='[^<>']*')?>|<br>")
_TIP = Qt.ItemDataRole.ToolTipRole


def poisoned(value: _Model, *, kept: Callable[[str], bool] = lambda _text: False) -> _Model:
    """The value with `MARKUP` before each text that may be any, wherever it recurs."""
    kind, tree = type(value), json.loads(value.model_dump_json())
    for text in sorted(set(_texts(tree))):
        if not kept(text):
            changed = _replaced(tree, text, MARKUP + text)
            try:
                kind.model_validate_json(json.dumps(changed))
            except ValidationError:
                continue
            tree = changed
    return kind.model_validate_json(json.dumps(tree))


def _texts(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from _texts(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _texts(value)


def _replaced(tree: Any, text: str, other: str) -> Any:
    if isinstance(tree, dict):
        return {key: _replaced(value, text, other) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_replaced(value, text, other) for value in tree]
    return other if tree == text else tree


def markup_in(root: QWidget) -> set[tuple[str, str]]:
    """The widget and the text of each tooltip or label that would be rendered, but for our own markup."""
    return {
        (f"{type(widget).__name__}: {what}", text)
        for widget in (root, *root.findChildren(QWidget))
        for what, text, own in _shown_by(widget)
        if text and QtText.mightBeRichText(text) and not own.fullmatch(text)
    } | {
        (f"{type(label).__name__}: rich text", label.text())
        for label in root.findChildren(QLabel)
        if label.textFormat() == Qt.TextFormat.RichText and "<" in _OWN_LABEL.sub("", label.text())
    }


def names_in(root: QWidget) -> int:
    """How many texts below `root` hold `MARKUP`, as it is or escaped."""
    texts = [text for widget in root.findChildren(QWidget) for _, text, _ in _shown_by(widget)]
    texts += [label.text() for label in root.findChildren(QLabel)]
    return sum("<h1>" in text or "&lt;h1&gt;" in text for text in texts)


_Shown = Iterator[tuple[str, str, re.Pattern[str]]]


def _shown_by(widget: QWidget) -> _Shown:
    yield "tooltip", widget.toolTip(), _OWN_TIP
    for action in widget.actions():
        yield "action", action.toolTip(), _OWN_TIP
    if isinstance(widget, QLabel) and widget.textFormat() == Qt.TextFormat.AutoText:
        yield "text", widget.text(), _OWN_LABEL
    if isinstance(widget, QAbstractItemView | QComboBox) and widget.model() is not None:
        for text in _tips_of(widget.model()):
            yield "item", text, _OWN_TIP
    if isinstance(widget, QTreeView) and widget.header().model() is not None:
        for text in _tips_of(widget.header().model()):
            yield "heading", text, _OWN_TIP


def _tips_of(model: QAbstractItemModel, above: QModelIndex | None = None) -> Iterator[str]:
    is_list = isinstance(model, QAbstractListModel)
    parent = above or QModelIndex()
    rows, columns = model.rowCount(parent), 1 if is_list else model.columnCount(parent)
    if above is None:
        for orientation, count in ((Qt.Orientation.Horizontal, columns), (Qt.Orientation.Vertical, rows)):
            yield from (str(model.headerData(section, orientation, _TIP) or "") for section in range(count))
    for row in range(rows):
        for column in range(columns):
            index = model.index(row, column, parent)
            yield str(index.data(_TIP) or "")
        if not isinstance(model, QAbstractListModel | QAbstractTableModel):
            yield from _tips_of(model, model.index(row, 0, parent))
