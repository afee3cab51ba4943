"""A precision map as a tree of modules, with what their operations cost together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal

from engine.experiment.value import BYTES_PER_MIB
from engine.protocol.numerics.nonfinite import (
    ELSEWHERE,
    LOSS,
    OPTIMIZER,
    Direction,
    Operation,
    PrecisionMap,
)
from engine.words.numbers import memory_text, number
from gui.numerics.map.look import MOVED_TIP, SHARES, TIME_TIP, Share, shares_text, shares_tip
from gui.setup.model.tree import FILTERED_BY, SORTED_BY, Index, TreeModel, short_name
from gui.widgets.labels import plain_tip

MODULE, CLASS, FORWARD, BACKWARD, PARAMETERS, TIME, MOVED, CASTS = range(8)
ROOT = "the model"
_OUTSIDE = {
    LOSS: ("Loss", "What the loss computes of the model's outputs"),
    OPTIMIZER: ("Optimizer", "The update of the weights"),
    ELSEWHERE: ("Elsewhere", "Operations whose module is unknown"),
}


@dataclass(frozen=True)
class MapRow:
    """A module with the operations in it and in the modules inside it; or what is outside of the model.

    `casts` counts those of autocast; `cast_bytes` is what they moved.
    """

    name: str
    class_name: str
    depth: int
    parameters: int
    operations: tuple[Operation, ...]
    forward: tuple[Share, ...]
    backward: tuple[Share, ...]
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


_FIGURES: Mapping[int, Callable[[MapRow], float]] = {
    PARAMETERS: lambda row: row.parameters,
    TIME: lambda row: row.seconds,
    MOVED: lambda row: row.moved_bytes,
    CASTS: lambda row: row.casts,
}


def rows_of(whole: PrecisionMap) -> tuple[MapRow, ...]:
    """The modules in the model's order, then what is outside of them."""
    names = {module.name for module in whole.modules}
    inside: dict[str, list[Operation]] = defaultdict(list)
    for operation in whole.operations:
        for name in _around(operation.module):
            if name in names or name in _OUTSIDE:
                inside[name].append(operation)
    rows = [
        _row(module.name, module.class_name, module.depth, module.parameters, inside[module.name])
        for module in whole.modules
    ]
    rows += [_row(name, "", 0, 0, inside[name]) for name in _OUTSIDE if inside[name]]
    return tuple(rows)


def _around(module: str) -> Iterable[str]:
    """A module's name and those of the modules around it."""
    if module in _OUTSIDE:
        return (module,)
    parts = module.split(".") if module else []
    return (".".join(parts[:count]) for count in range(len(parts) + 1))


def _row(name: str, class_name: str, depth: int, parameters: int, operations: Sequence[Operation]) -> MapRow:
    casts = [operation for operation in operations if operation.by_autocast]
    return MapRow(
        name=name,
        class_name=class_name,
        depth=depth,
        parameters=parameters,
        operations=tuple(operations),
        forward=_shares(operations, "forward"),
        backward=_shares(operations, "backward"),
        seconds=sum(operation.seconds for operation in operations),
        moved_bytes=sum(operation.moved_bytes for operation in operations),
        casts=sum(operation.count for operation in casts),
        cast_bytes=sum(operation.moved_bytes for operation in casts),
    )


def _shares(operations: Sequence[Operation], direction: Direction) -> tuple[Share, ...]:
    spent: dict[str, float] = defaultdict(float)
    for operation in operations:
        dtype = operation.computed_in
        if dtype is not None and operation.direction == direction:
            # what was too fast for the clock still counts
            spent[dtype] += operation.seconds or 1e-9
    total = sum(spent.values())
    return tuple(sorted(((dtype, part / total) for dtype, part in spent.items()), key=lambda pair: -pair[1]))


def kept_by(name: str, patterns: Sequence[str]) -> str | None:
    """The cause of FP32 in a module: a pattern, or a module around it; None if nothing does."""
    for around in _around(name):
        if around and (matching := [pattern for pattern in patterns if fnmatchcase(around, pattern)]):
            return name if name in patterns else matching[0]
    return None


class MapTree(TreeModel[MapRow]):
    """The rows of a map, with a check box at each module: ticked, it stays in FP32.

    `toggled` carries (module, whether it is to stay in FP32): the form decides, and `set_patterns` says so.
    """

    toggled = Signal(str, bool)

    headings = ("Module", "Class", "Forward", "Backward", "Parameters", "Time ms", "Moved", "Casts")
    numbers = (PARAMETERS, TIME, MOVED, CASTS)
    tips: Mapping[int, str] = {
        FORWARD: "The number formats of the forward pass, by their share of its time",
        BACKWARD: "The number formats of the backward pass, by their share of its time",
        TIME: TIME_TIP,
        MOVED: MOVED_TIP,
        CASTS: "How often autocast changed a number format",
    }

    def __init__(
        self, rows: Sequence[MapRow], patterns: Sequence[str], parent: QObject | None = None
    ) -> None:
        super().__init__(rows, parent)
        self._rows = rows
        self.set_patterns(patterns)

    def set_patterns(self, patterns: Sequence[str]) -> None:
        """Takes what the form keeps in FP32."""
        self._kept = {row.name: kept_by(row.name, patterns) for row in self._rows if row.is_module}

    def kept_by(self, row: MapRow) -> str | None:
        return self._kept.get(row.name)

    def flags(self, index: Index) -> Qt.ItemFlag:
        row, flags = self.row_of(index), super().flags(index)
        if row is None or not row.is_module or index.column() != MODULE:
            return flags
        # what a pattern or a module around it keeps cannot be taken out alone
        is_free = self.kept_by(row) in (None, row.name)
        return flags | Qt.ItemFlag.ItemIsUserCheckable if is_free else flags

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        row = self.row_of(index)
        if role != Qt.ItemDataRole.CheckStateRole or row is None:
            return False
        self.toggled.emit(row.name, Qt.CheckState(value) == Qt.CheckState.Checked)
        return True

    def cell(self, row: MapRow, column: int, role: int) -> Any:
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return _text(row, column)
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(self._tip(row, column))
            case Qt.ItemDataRole.CheckStateRole if column == MODULE and row.is_module:
                is_kept = self.kept_by(row) is not None
                return Qt.CheckState.Checked if is_kept else Qt.CheckState.Unchecked
            case _ if role == SORTED_BY:
                figure = _FIGURES.get(column)
                return _text(row, column) if figure is None else figure(row)
            case _ if role == FILTERED_BY:
                return row.title
            case _ if role == SHARES and column in (FORWARD, BACKWARD):
                return row.forward if column == FORWARD else row.backward
        return None

    def _tip(self, row: MapRow, column: int) -> str:
        if column == FORWARD:
            return shares_tip(row.forward)
        if column == BACKWARD:
            return shares_tip(row.backward)
        if column == CASTS and row.casts:
            return f"Autocast changed formats {row.casts:,} times and moved {_memory(row.cast_bytes)} for it."
        if row.name in _OUTSIDE:
            return _OUTSIDE[row.name][1]
        kept, what = self.kept_by(row), f"{row.title} ({row.class_name})"
        if kept is None:
            return what
        return f"{what} stays in FP32" + (f" because of {kept}." if kept != row.name else ".")


def _text(row: MapRow, column: int) -> str:
    match column:
        case 0:
            return row.title if row.name in _OUTSIDE else short_name(row.name)
        case 1:
            return row.class_name
        case 2:
            return shares_text(row.forward)
        case 3:
            return shares_text(row.backward)
        case 4:
            return f"{row.parameters:,}" if row.parameters else ""
        case 5:
            return number(row.seconds * 1_000) if row.operations else ""
        case 6:
            return _memory(row.moved_bytes) if row.operations else ""
    return f"{row.casts:,}" if row.casts else ""


def _memory(amount: int) -> str:
    return memory_text(amount / BYTES_PER_MIB)
