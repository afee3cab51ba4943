"""A precision map as a tree of modules, with the cost of their operations and the colors of dtypes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from PySide6.QtCore import QObject, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from engine.experiment.value import BYTES_PER_MIB
from engine.protocol.numerics import Operation, PrecisionMap
from engine.protocol.ranges import (
    BF16,
    E4M3,
    E5M2,
    ELSEWHERE,
    FP16,
    FP32,
    LOSS,
    OPTIMIZER,
    dtype_label,
)
from engine.words.numbers import memory_text, number, share_text
from gui.setup.model.tree import FILTERED_BY, SORTED_BY, Index, TreeModel, short_name
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets.labels import plain_tip

Share = tuple[str, float]
"""A dtype by torch's name, and its share of a time."""

MODULE, CLASS, FORWARD, BACKWARD, PARAMETERS, TIME, MOVED, CASTS = range(8)
ROOT = "the model"
TIME_TIP = "Time while recording, which slows training. Compare modules, not with step times."
MOVED_TIP = "Bytes that the operations read and wrote"
_OUTSIDE = {
    LOSS: ("Loss", "The loss, computed from the model's outputs"),
    OPTIMIZER: ("Optimizer", "The update of the weights"),
    ELSEWHERE: ("Elsewhere", "Operations whose module is unknown"),
}


@dataclass(frozen=True)
class MapRow:
    """A row of the precision map: a module with all operations inside it, or operations outside the model.

    `shares` has the shares of the dtypes by column, the largest first. `casts` is the number of casts by
    autocast, and `cast_bytes` the memory that they read and wrote.
    """

    name: str
    class_name: str
    depth: int
    parameters: int
    operations: tuple[Operation, ...]
    shares: Mapping[int, tuple[Share, ...]]
    seconds: float
    moved_bytes: int
    casts: int
    cast_bytes: int

    @property
    def is_module(self) -> bool:
        """True if it can be kept in FP32: a module other than the model itself."""
        return bool(self.name) and self.name not in _OUTSIDE

    @property
    def title(self) -> str:
        return _OUTSIDE[self.name][0] if self.name in _OUTSIDE else self.name or ROOT


def map_rows(whole: PrecisionMap) -> tuple[MapRow, ...]:
    """Return one row per module, in the model's order, then rows for operations outside the model."""
    modules = [(module.name, module.class_name, module.depth, module.parameters) for module in whole.modules]
    names = {name for name, *_ in modules}
    inside: dict[str, list[Operation]] = defaultdict(list)
    for operation in whole.operations:
        for name in _around(operation.module):
            if name in names or name in _OUTSIDE:
                inside[name].append(operation)
    outside = [(name, "", 0, 0) for name in _OUTSIDE if inside[name]]
    return tuple(_row(*module, inside[module[0]]) for module in (*modules, *outside))


def _around(module: str) -> Iterable[str]:
    if module in _OUTSIDE:
        return (module,)
    parts = module.split(".") if module else []
    return (".".join(parts[:count]) for count in range(len(parts) + 1))


def _row(name: str, class_name: str, depth: int, parameters: int, operations: Sequence[Operation]) -> MapRow:
    casts = [operation for operation in operations if operation.by_autocast]
    spent: dict[str, dict[str, float]] = {"forward": defaultdict(float), "backward": defaultdict(float)}
    for operation in operations:
        if (dtype := operation.computed_in) is not None and operation.direction in spent:
            # what was too fast for the clock still counts
            spent[operation.direction][dtype] += operation.seconds or 1e-9
    return MapRow(
        name=name,
        class_name=class_name,
        depth=depth,
        parameters=parameters,
        operations=tuple(operations),
        shares={FORWARD: _shares(spent["forward"]), BACKWARD: _shares(spent["backward"])},
        seconds=sum(operation.seconds for operation in operations),
        moved_bytes=sum(operation.moved_bytes for operation in operations),
        casts=sum(operation.count for operation in casts),
        cast_bytes=sum(operation.moved_bytes for operation in casts),
    )


def _shares(spent: Mapping[str, float]) -> tuple[Share, ...]:
    total = sum(spent.values())
    return tuple(sorted(((dtype, part / total) for dtype, part in spent.items()), key=lambda pair: -pair[1]))


def kept_by(name: str, patterns: Sequence[str]) -> str | None:
    """Return the pattern that keeps this module, or a module around it, in FP32. None if no pattern does."""
    for around in _around(name):
        if around and (matching := [pattern for pattern in patterns if fnmatchcase(around, pattern)]):
            return name if name in patterns else matching[0]
    return None


_FIGURES: Mapping[int, Callable[[MapRow], float]] = {
    PARAMETERS: lambda row: row.parameters,
    TIME: lambda row: row.seconds,
    MOVED: lambda row: row.moved_bytes,
    CASTS: lambda row: row.casts,
}
_TEXTS: Mapping[int, Callable[[MapRow], str]] = {
    MODULE: lambda row: row.title if row.name in _OUTSIDE else short_name(row.name),
    CLASS: lambda row: row.class_name,
    FORWARD: lambda row: _shares_text(row.shares[FORWARD]),
    BACKWARD: lambda row: _shares_text(row.shares[BACKWARD]),
    PARAMETERS: lambda row: f"{row.parameters:,}" if row.parameters else "",
    TIME: lambda row: number(row.seconds * 1_000) if row.operations else "",
    MOVED: lambda row: _memory(row.moved_bytes) if row.operations else "",
    CASTS: lambda row: f"{row.casts:,}" if row.casts else "",
}


def _memory(amount: int) -> str:
    return memory_text(amount / BYTES_PER_MIB)


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

    headings = ("Module", "Class", "Forward", "Backward", "Parameters", "Time ms", "Moved", "Casts")
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
        self.set_patterns(patterns)

    def set_patterns(self, patterns: Sequence[str]) -> None:
        """Set the modules and patterns that the form keeps in FP32."""
        self._kept = {row.name: kept_by(row.name, patterns) for row in self._rows if row.is_module}

    def kept_by(self, row: MapRow) -> str | None:
        return self._kept.get(row.name)

    def is_free(self, row: MapRow) -> bool:
        """Return True if no pattern and no module around it keeps the row in FP32."""
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
                return _TEXTS[column](row)
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(self._tip(row, column))
            case Qt.ItemDataRole.CheckStateRole if column == MODULE and row.is_module:
                is_kept = self.kept_by(row) is not None
                return Qt.CheckState.Checked if is_kept else Qt.CheckState.Unchecked
            case _ if role == SORTED_BY:
                return _FIGURES.get(column, _TEXTS[column])(row)
            case _ if role == FILTERED_BY:
                return row.title
            case _ if role == _SHARES:
                return row.shares.get(column)
        return None

    def _tip(self, row: MapRow, column: int) -> str:
        if column in row.shares:
            shares = row.shares[column]
            return ", ".join(
                f"{dtype_label(dtype)} {share_text(share)} of the time" for dtype, share in shares
            )
        if column == CASTS and row.casts:
            return f"Autocast cast {row.casts:,} times and moved {_memory(row.cast_bytes)}."
        if row.name in _OUTSIDE:
            return _OUTSIDE[row.name][1]
        kept, what = self.kept_by(row), f"{row.title} ({row.class_name})"
        if kept is None:
            return what
        return f"{what} stays in FP32" + (f" because of {kept}." if kept != row.name else ".")


_SHARES = 0x0200
"""The role of a cell's shares. Qt leaves roles from 0x0100 on to programs."""
_PRECISIONS = {FP32.name: "fp32", BF16.name: "bf16", FP16.name: "fp16", E4M3.name: "fp8", E5M2.name: "fp8"}
_BAR, _HEIGHT, _GAP, _PADDING = 36, 8, 6, 8


def _dtype_color(dtype: str) -> QColor:
    palette, precision = theme().palette, _PRECISIONS.get(dtype)
    return QColor(palette.text3 if precision is None else palette.look(precision).color)


class SharesDelegate(QStyledItemDelegate):
    """Paints a cell as a bar of dtype shares, with the name of the largest."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        palette = theme().palette
        if QStyle.StateFlag.State_Selected in option.state:
            painter.fillRect(option.rect, QColor(palette.bg2))
        shares = index.data(_SHARES) or ()
        room = QRectF(option.rect)
        left, top = room.left() + 4, room.center().y() - _HEIGHT / 2
        for dtype, share in shares:
            painter.fillRect(QRectF(left, top, max(share * _BAR, 2), _HEIGHT), _dtype_color(dtype))
            left += max(share * _BAR, 2)
        painter.setFont(font(12))
        painter.setPen(QColor(palette.text))
        words = room.adjusted(4 + _BAR + _GAP, 0, 0, 0)
        painter.drawText(words, option.displayAlignment, _shares_text(shares))

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(_BAR + _GAP + 60, 28)


class DtypeLegend(QWidget):
    """A legend with the color and the name of each dtype in the precision map."""

    def __init__(self) -> None:
        super().__init__()
        self._labels: dict[str, str] = {}
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setToolTip("Dtypes that the operations computed in")
        theme().changed.connect(self.update)

    def show_formats(self, dtypes: Sequence[str]) -> None:
        """Show dtypes, given by torch's names."""
        self._labels = {dtype: dtype_label(dtype) for dtype in dtypes}
        self.setAccessibleName("Colors: " + ", ".join(self._labels.values()))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        metrics = QFontMetricsF(font(12))
        widths = (_HEIGHT + _GAP + metrics.horizontalAdvance(label) for label in self._labels.values())
        return QSize(round(sum(widths)) + 2 * _PADDING * max(0, len(self._labels) - 1) + 2, 20)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, metrics, left = QPainter(self), QFontMetricsF(font(12)), 0.0
        painter.setFont(font(12))
        painter.setPen(QColor(theme().palette.text2))
        middle = self.height() / 2
        for dtype, label in self._labels.items():
            square = QRectF(left, middle - _HEIGHT / 2, _HEIGHT, _HEIGHT)
            painter.fillRect(square, _dtype_color(dtype))
            left += _HEIGHT + _GAP
            painter.drawText(QPointF(left, middle + 4), label)
            left += metrics.horizontalAdvance(label) + 2 * _PADDING
        painter.end()
