"""The table of a module's operations."""

from __future__ import annotations

from collections.abc import Sequence

from engine.experiment.value import BYTES_PER_MIB
from engine.protocol.numerics.formats import dtype_label
from engine.protocol.numerics.precision_map import Operation, module_title
from engine.words.numbers import memory_text, number
from gui.numerics.map.look import MOVED_TIP, TIME_TIP
from gui.widgets.table import Column, ResultTable
from gui.widgets.table.columns import GROWS, number_column

_FORMATS_TIP = "What went in, and what came out"
_CAST_TIP = "Whether it only changes the number format, and whether autocast put it in"


class OperationTable(ResultTable[Operation]):
    """The operations in the order of the step."""

    def __init__(self) -> None:
        super().__init__("Operations", empty="There are no operations.")

    def show_operations(self, operations: Sequence[Operation]) -> None:
        """Shows the operations; their modules only where these differ."""
        has_modules = len({operation.module for operation in operations}) > 1
        self.show_rows(operations, _columns(has_modules=has_modules))


def _columns(*, has_modules: bool) -> list[Column[Operation]]:
    # the names of operations are short
    widest = 240 if has_modules else GROWS
    name = Column[Operation]("Operation", lambda operation: operation.name, width=132, widest=widest)
    module = Column[Operation](
        "Module", lambda operation: module_title(operation.module), width=96, widest=GROWS
    )
    return [name, *([module] if has_modules else []), *_OTHERS]


def formats_text(operation: Operation) -> str:
    """What went in and what came out: "FP16, FP32 → FP16"."""
    sides = (dict.fromkeys(map(dtype_label, dtypes)) for dtypes in (operation.inputs, operation.outputs))
    return " → ".join(", ".join(side) or "–" for side in sides)


def _cast_text(operation: Operation) -> str:
    return "by autocast" if operation.by_autocast else "yes" if operation.is_cast else ""


_OTHERS: tuple[Column[Operation], ...] = (
    Column("Direction", lambda operation: operation.direction.capitalize(), width=74),
    Column("Formats", formats_text, tip=_FORMATS_TIP, width=116, widest=200),
    number_column("Count", lambda operation: operation.count, "{:,}".format, width=48),
    number_column("Time ms", lambda operation: operation.seconds * 1_000, number, TIME_TIP),
    number_column(
        "Moved", lambda operation: operation.moved_bytes / BYTES_PER_MIB, memory_text, MOVED_TIP, width=74
    ),
    Column("Cast", _cast_text, tip=_CAST_TIP, width=92),
)
