"""The precision map by module: the operations inside each, their cost, and the shares of the dtypes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from engine.protocol.numerics import Direction, Operation, PrecisionMap
from engine.protocol.ranges import ELSEWHERE, LOSS, OPTIMIZER

Share = tuple[str, float]
"""A dtype by torch's name, and its share of a time."""
ROOT = "the model"
OUTSIDE = {
    LOSS: ("Loss", "The loss, computed from the model's outputs"),
    OPTIMIZER: ("Optimizer", "The update of the weights"),
    ELSEWHERE: ("Elsewhere", "Operations whose module is unknown"),
}
"""The title and the meaning of each place outside the model."""


@dataclass(frozen=True)
class MapRow:
    """A row of the precision map: a module with all operations inside it, or operations outside the model.

    `shares` has the shares of the dtypes in the time of each direction, the largest first. `casts` is the
    number of casts by autocast, and `cast_bytes` the memory that they read and wrote.
    """

    name: str
    class_name: str
    depth: int
    parameters: int
    operations: tuple[Operation, ...]
    shares: Mapping[Direction, tuple[Share, ...]]
    seconds: float
    moved_bytes: int
    casts: int
    cast_bytes: int

    @property
    def is_module(self) -> bool:
        """True if it can be kept in FP32: a module other than the model itself."""
        return bool(self.name) and self.name not in OUTSIDE

    @property
    def title(self) -> str:
        return OUTSIDE[self.name][0] if self.name in OUTSIDE else self.name or ROOT


def map_rows(whole: PrecisionMap) -> tuple[MapRow, ...]:
    """Return one row per module, in the model's order, then rows for operations outside the model."""
    modules = [(module.name, module.class_name, module.depth, module.parameters) for module in whole.modules]
    names = {name for name, *_ in modules}
    inside: dict[str, list[Operation]] = defaultdict(list)
    for operation in whole.operations:
        for name in _around(operation.module):
            if name in names or name in OUTSIDE:
                inside[name].append(operation)
    outside = [(name, "", 0, 0) for name in OUTSIDE if inside[name]]
    return tuple(_row(*module, inside[module[0]]) for module in (*modules, *outside))


def own_rows(whole: PrecisionMap) -> Iterator[MapRow]:
    """Yield a row per module and pass with operations of its own, without the operations of modules inside
    it.
    """
    modules = {module.name: module for module in whole.modules}
    own: dict[str, list[Operation]] = defaultdict(list)
    for operation in whole.operations:
        own[operation.module].append(operation)
    for name, operations in own.items():
        known = modules.get(name)
        yield _row(name, known.class_name if known else "", 0, known.parameters if known else 0, operations)


def _around(module: str) -> Iterable[str]:
    if module in OUTSIDE:
        return (module,)
    parts = module.split(".") if module else []
    return (".".join(parts[:count]) for count in range(len(parts) + 1))


def _row(name: str, class_name: str, depth: int, parameters: int, operations: Sequence[Operation]) -> MapRow:
    casts = [operation for operation in operations if operation.by_autocast]
    spent: dict[Direction, dict[str, float]] = {"forward": defaultdict(float), "backward": defaultdict(float)}
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
        shares={direction: _shares(seconds) for direction, seconds in spent.items()},
        seconds=sum(operation.seconds for operation in operations),
        moved_bytes=sum(operation.moved_bytes for operation in operations),
        casts=sum(operation.count for operation in casts),
        cast_bytes=sum(operation.moved_bytes for operation in casts),
    )


def _shares(spent: Mapping[str, float]) -> tuple[Share, ...]:
    total = sum(spent.values())
    return tuple(sorted(((dtype, part / total) for dtype, part in spent.items()), key=lambda pair: -pair[1]))


def kept_by(name: str, patterns: Sequence[str]) -> str | None:
    """Return the first pattern that keeps the module `name`, or a module that contains it, in FP32.

    None if no pattern does.
    """
    for around in _around(name):
        if around and (matching := [pattern for pattern in patterns if fnmatchcase(around, pattern)]):
            return name if name in patterns else matching[0]
    return None
