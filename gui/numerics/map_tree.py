"""The item model of a precision map: a tree of modules with the bars of their dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from PySide6.QtCore import QObject, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QLabel, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from engine.experiment.value import BYTES_PER_MIB
from engine.numerics.map_rows import OUTSIDE, MapRow, Share, kept_by
from engine.protocol.numerics import Direction
from engine.protocol.ranges import BF16, E4M3, E5M2, FP16, FP32, dtype_label
from engine.words.numbers import share_text, size_text
from gui.setup.model.tree import FILTERED_BY, SORTED_BY, Index, TreeModel, short_name
from gui.theme.theme import theme
from gui.widgets.labels import plain_tip
from gui.widgets.table.columns import width_of

MODULE, CLASS, FORWARD, BACKWARD, PARAMETERS, TIME, MOVED, CASTS = range(8)
TIME_TIP = "Time while recording, which slows training. Compare modules, not with step times."
MOVED_TIP = "Bytes that the operations read and wrote"
_NUMBERS: Mapping[int, Callable[[MapRow], float]] = {
    PARAMETERS: lambda row: row.parameters,
    TIME: lambda row: row.seconds * 1_000,
    MOVED: lambda row: row.moved_bytes / BYTES_PER_MIB,
    CASTS: lambda row: row.casts,
}
_BARS: Mapping[int, Direction] = {FORWARD: "forward", BACKWARD: "backward"}


def alike(values: Iterable[float]) -> Callable[[float], str]:
    """Return the format for a column of numbers, with as many decimals as its largest value needs."""
    most = max(values, default=0.0)
    decimals = 3 if most < 10 else 2 if most < 100 else 1
    return lambda value: f"{value:,.{decimals}f}"


def _shares_text(shares: Sequence[Share]) -> str:
    if not shares:
        return ""
    return dtype_label(shares[0][0]).removeprefix("FP8 ") + (
        f" +{len(shares) - 1}" if len(shares) > 1 else ""
    )


class MapTree(TreeModel[MapRow]):
    """The Qt model of a precision map: modules, each with a check box that keeps it in FP32.

    `toggled` carries (module, whether to keep it in FP32). The form decides and then calls `set_patterns`.
    """

    toggled = Signal(str, bool)

    headings = ("Module", "Class", "Forward", "Backward", "Parameters", "Time, ms", "Moved, MiB", "Casts")
    numbers = (PARAMETERS, TIME, MOVED, CASTS)
    tips: Mapping[int, str] = {
        FORWARD: "Dtypes of the forward pass, by share of its time",
        BACKWARD: "Dtypes of the backward pass, by share of its time",
        TIME: TIME_TIP,
        MOVED: MOVED_TIP,
        CASTS: "Number of casts by autocast",
    }

    def __init__(
        self, rows: Sequence[MapRow], patterns: Sequence[str], parent: QObject | None = None
    ) -> None:
        super().__init__(rows, parent)
        self._rows = rows
        self._formats = {column: alike(map(_NUMBERS[column], rows)) for column in (TIME, MOVED)}
        self.set_patterns(patterns)

    def widths(self) -> list[int]:
        """Return the width of each column for its longest text."""
        names = [f"{'   ' * (row.depth + 2)}{self._text(row, MODULE)}" for row in self._rows]
        others = [[self._text(row, column) for row in self._rows] for column in range(CLASS, CASTS + 1)]
        columns = zip(self.headings, (names, *others), strict=True)
        widths = [width_of((title, *texts)) for title, texts in columns]
        return [width + (_BAR if column in _BARS else _PADDING) for column, width in enumerate(widths)]

    def _text(self, row: MapRow, column: int) -> str:
        if column in _NUMBERS:
            value = _NUMBERS[column](row)
            return self._formats.get(column, "{:,.0f}".format)(value) if value else ""
        if column in _BARS:
            return _shares_text(row.shares[_BARS[column]])
        return row.class_name if column == CLASS else short_name(row.title)

    def set_patterns(self, patterns: Sequence[str]) -> None:
        """Set the modules and patterns that the form keeps in FP32."""
        self._kept = {row.name: kept_by(row.name, patterns) for row in self._rows if row.is_module}

    def kept_by(self, row: MapRow) -> str | None:
        return self._kept.get(row.name)

    def is_free(self, row: MapRow) -> bool:
        """Return True if no pattern keeps the row's module, or a module that contains it, in FP32."""
        return row.is_module and self.kept_by(row) in (None, row.name)

    def flags(self, index: Index) -> Qt.ItemFlag:
        row, flags = self.row_of(index), super().flags(index)
        is_box = row is not None and index.column() == MODULE and self.is_free(row)
        return flags | Qt.ItemFlag.ItemIsUserCheckable if is_box else flags

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        row = self.row_of(index)
        if role != Qt.ItemDataRole.CheckStateRole or row is None:
            return False
        self.toggled.emit(row.name, Qt.CheckState(value) == Qt.CheckState.Checked)
        return True

    def cell(self, row: MapRow, column: int, role: int) -> Any:
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return self._text(row, column)
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(self._tip(row, column))
            case Qt.ItemDataRole.CheckStateRole if column == MODULE and row.is_module:
                is_kept = self.kept_by(row) is not None
                return Qt.CheckState.Checked if is_kept else Qt.CheckState.Unchecked
            case _ if role == SORTED_BY:
                return _NUMBERS[column](row) if column in _NUMBERS else self._text(row, column)
            case _ if role == FILTERED_BY:
                return row.title
            case _ if role == _SHARES:
                return row.shares[_BARS[column]] if column in _BARS else ()
        return None

    def _tip(self, row: MapRow, column: int) -> str:
        if column in _BARS:
            shares = row.shares[_BARS[column]]
            return ", ".join(
                f"{dtype_label(dtype)} {share_text(share)} of the time" for dtype, share in shares
            )
        if column == CASTS and row.casts:
            moved = size_text(row.cast_bytes)
            return f"Autocast cast {row.casts:,} times and moved {moved}."
        if row.name in OUTSIDE:
            return OUTSIDE[row.name][1]
        kept, what = self.kept_by(row), f"{row.title} ({row.class_name})"
        if kept is None:
            return what
        return f"{what} stays in FP32" + (f" because of {kept}." if kept != row.name else ".")


_SHARES = 0x0200
"""The role of a cell's shares. Qt leaves roles from 0x0100 on to programs."""
_PRECISIONS = {FP32.name: "fp32", BF16.name: "bf16", FP16.name: "fp16", E4M3.name: "fp8", E5M2.name: "fp8"}
_BAR, _WORDS, _HEIGHT, _GAP, _PADDING = 48, 76, 8, 6, 12
"""The least width of a bar, the room of its words, and its height, all in pixels."""


def _dtype_color(dtype: str) -> QColor:
    palette, precision = theme().palette, _PRECISIONS.get(dtype)
    return QColor(palette.text3 if precision is None else palette.look(precision).color)


class SharesDelegate(QStyledItemDelegate):
    """Paints a cell as a bar of dtype shares, followed by the name of the largest."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        if QStyle.StateFlag.State_Selected in option.state:
            painter.fillRect(option.rect, QColor(theme().palette.bg2))
        room, words = QRectF(option.rect), QStyleOptionViewItem(option)
        width, left = max(_BAR, room.width() - _WORDS), room.left() + 4
        for dtype, share in index.data(_SHARES) or ():
            length = max(share * width, 2)
            painter.fillRect(
                QRectF(left, room.center().y() - _HEIGHT / 2, length, _HEIGHT), _dtype_color(dtype)
            )
            left += length
        # the style's own words have the baseline of the other cells
        words.rect = option.rect.adjusted(round(width) + _GAP, 0, 0, 0)
        super().paint(painter, words, index)


class DtypeLegend(QLabel):
    """A legend with the color and the name of each dtype in the precision map."""

    def __init__(self) -> None:
        super().__init__()
        self._dtypes: Sequence[str] = ()
        self.setToolTip("Dtypes that the operations computed in")
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setProperty("role", "legend")
        theme().changed.connect(self._write)

    def show_formats(self, dtypes: Sequence[str]) -> None:
        """Show dtypes, given by torch's names."""
        self._dtypes = dtypes
        self.setAccessibleName("Colors: " + ", ".join(map(dtype_label, dtypes)))
        self._write()

    def _write(self) -> None:
        entries = ((_dtype_color(dtype).name(), escape(dtype_label(dtype))) for dtype in self._dtypes)
        parts = (f"<span style='color:{color}'>■</span> {name}" for color, name in entries)
        self.setText("&nbsp; ".join(parts))
