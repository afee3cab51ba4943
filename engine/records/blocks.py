"""Samples as columnar blocks: little-endian float64, one column after another, their names beside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.events import Samples

Columns = dict[str, NDArray[np.float64]]
MOST_ROWS = 65_536
"""A block is read whole, so that is how long one may grow."""

_WIRE = np.dtype("<f8")


@dataclass(frozen=True)
class Block:
    """`names` joined by commas, and `data` of len(names) x rows values."""

    names: str
    rows: int
    data: bytes


def columns_in(batches: Iterable[Samples]) -> Columns:
    """Neighbouring batches as one table; empty if there are none."""
    return joined(
        {name: np.asarray(values, dtype=np.float64) for name, values in batch.columns().items()}
        for batch in batches
    )


def blocks_of(columns: Columns) -> Iterator[Block]:
    """The columns as blocks of at most `MOST_ROWS` rows."""
    rows = min((len(values) for values in columns.values()), default=0)
    for first in range(0, rows, MOST_ROWS):
        part = np.stack([values[first : first + MOST_ROWS] for values in columns.values()])
        yield Block(names=",".join(columns), rows=part.shape[1], data=part.astype(_WIRE).tobytes())


def columns_of(block: Block) -> Columns:
    """What a block holds, by name."""
    table = np.frombuffer(block.data, dtype=_WIRE).reshape(-1, block.rows).astype(np.float64)
    return dict(zip(block.names.split(","), table, strict=True))


def joined(parts: Iterable[Columns]) -> Columns:
    """The parts one after another; where a part lacks a column that another has, it is NaN there."""
    present = [part for part in parts if part]
    names = list(dict.fromkeys(name for part in present for name in part))
    return {name: np.concatenate([_column(part, name) for part in present]) for name in names}


def _column(part: Columns, name: str) -> NDArray[np.float64]:
    if name in part:
        return part[name]
    return np.full(len(next(iter(part.values()))), np.nan)
