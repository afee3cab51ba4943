"""The samples of a run in the store: blocks of many rows, each large one with an outline.

Blocks are columnar: little-endian float64, column after column, with their names. An outline has the block's
rows in bins, for curves of millions of steps, which need not read them all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from engine.curves import MOST_BINS, Bins, Columns, Curves, bins_of, join_bins, join_columns
from engine.experiment.problem import ProblemError
from engine.lazy_imports import np
from engine.protocol.events import Samples
from engine.store.record import checksum_error, unreadable_error
from engine.store.schema import BLOCKS, checksum_of, insert, is_intact

MOST_ROWS = 65_536  # of a block: it is read whole
_LEAST_OUTLINED = MOST_ROWS // 2
_OUTLINED_STEPS = 32  # the steps of a bin: an outline takes a tenth of what its block takes
_MANY_ROWS = 2**20  # longer curves are read from the outlines: from the rows they would take seconds
_JOINED_BLOCKS = 256  # after so many small blocks, which come a few times a second, they are joined
_WIRE = "<f8"
_BLOCK = "names, rows, data, run, position, checksum"


class Block(NamedTuple):
    """A block of a run's samples as saved in one row of the store.

    `names` are the columns, joined by commas, and `data` is (number of names) x `rows` values.
    """

    names: str
    rows: int
    data: bytes


def columns_in(batches: Iterable[Samples]) -> Columns:
    """Return neighboring batches of samples as one table. It is empty if there are none."""
    return join_columns(
        {name: np.asarray(values, dtype=np.float64) for name, values in batch.columns().items()}
        for batch in batches
    )


def split_into_blocks(columns: Columns) -> Iterator[Block]:
    """Yield the columns as blocks of at most `MOST_ROWS` rows."""
    rows = min((len(values) for values in columns.values()), default=0)
    for first in range(0, rows, MOST_ROWS):
        part = np.stack([values[first : first + MOST_ROWS] for values in columns.values()])
        yield Block(names=",".join(columns), rows=part.shape[1], data=part.astype(_WIRE).tobytes())


def columns_of(block: Block) -> Columns:
    """Return a block's columns by name."""
    table = np.frombuffer(block.data, dtype=_WIRE).reshape(-1, block.rows).astype(np.float64)
    return dict(zip(block.names.split(","), table, strict=True))


def append(connection: sqlite3.Connection, run_id: str, columns: Columns) -> None:
    """Add rows to a run."""
    for block in split_into_blocks(columns):
        position = next_position(connection, "samples", run_id)
        _put(connection, run_id, position, block)
        if position % _JOINED_BLOCKS == _JOINED_BLOCKS - 1:
            compact(connection, run_id)


def parts_of(connection: sqlite3.Connection, run_id: str) -> Iterator[Columns]:
    """Yield the samples of a run block by block. Raises ProblemError if they are damaged."""
    statement = f"SELECT {_BLOCK} FROM samples WHERE run = ? ORDER BY position"
    for row in connection.execute(statement, (run_id,)):
        yield _columns_in(connection, run_id, row)


def samples_of(connection: sqlite3.Connection, run_id: str) -> Columns:
    """Return the samples of a run by column. Raises ProblemError if they are damaged."""
    return join_columns(parts_of(connection, run_id))


def curves_of(connection: sqlite3.Connection, run_id: str) -> Curves:
    """Return the samples of a run as curves. Raises ProblemError if they are damaged."""
    statement = "SELECT total(rows), count(*) FROM samples WHERE run = ?"
    total, blocks = connection.execute(statement, (run_id,)).fetchone()
    if total > _MANY_ROWS:
        steps = _OUTLINED_STEPS
        while total / steps + blocks > MOST_BINS:
            steps *= 2
        return Curves(join_bins([*_outlines(connection, run_id, steps)]))
    curves = Curves()
    for columns in parts_of(connection, run_id):
        curves.extend(columns)
    curves.merge_all()
    return curves


def _outlines(connection: sqlite3.Connection, run_id: str, steps: int) -> Iterator[Bins]:
    # one statement, since blocks are joined while a run is recorded; of two SQLite reads only what it returns
    rows = connection.execute(
        "SELECT names, rows, coalesce(outlines.data, samples.data) AS data, run, position, steps,"
        " CASE WHEN steps IS NULL THEN samples.checksum ELSE outlines.checksum END AS checksum FROM"
        " samples LEFT JOIN outlines USING (run, position) WHERE run = ? ORDER BY position",
        (run_id,),
    )
    for row in rows:
        outlined = row["steps"]
        if outlined is None:
            yield bins_of(_columns_in(connection, run_id, row), steps)
            continue
        _check(connection, run_id, row, "outlines")
        with _readable():
            bins = _bins_in(Block(*row[:3]), outlined).merged(max(1, steps // outlined))
        yield bins


def last_step(connection: sqlite3.Connection, run_id: str) -> int:
    """Return the last recorded step, or 0. Raises ProblemError if it is damaged."""
    places = _places(connection, run_id)
    if not places:
        return 0
    with _readable():
        return int(_block_at(connection, run_id, places[-1]["position"])["step"][-1])


def compact(connection: sqlite3.Connection, run_id: str) -> None:
    """Join a run's small blocks of samples into large blocks, which are faster to read."""
    group: list[int] = []
    group_rows = 0
    for position, rows in _places(connection, run_id):
        with _readable():
            is_full = group_rows + rows > MOST_ROWS
        if is_full:
            _join(connection, run_id, group)
            group, group_rows = [], 0
        group.append(position)
        group_rows += rows
    _join(connection, run_id, group)


def _join(connection: sqlite3.Connection, run_id: str, positions: Sequence[int]) -> None:
    if len(positions) < 2:
        return
    try:
        columns = join_columns(_block_at(connection, run_id, position) for position in positions)
    except ProblemError:
        # a damaged block keeps its checksum, which names it, and the others stay readable beside it
        return
    _drop(connection, run_id, positions[0], positions[-1])
    for block in split_into_blocks(columns):
        _put(connection, run_id, positions[-1], block)


def cut(connection: sqlite3.Connection, run_id: str, step: int) -> None:
    """Drop the samples after `step`. Raises ProblemError if they are damaged."""
    for position, _ in reversed(_places(connection, run_id)):
        with _readable():
            columns = _block_at(connection, run_id, position)
            is_kept = columns["step"] <= step
        if is_kept.all():
            return
        _drop(connection, run_id, position, position)
        append(connection, run_id, {name: values[is_kept] for name, values in columns.items()})
        # the blocks before it are kept whole, and may just have been joined
        if is_kept.any():
            return


def _places(connection: sqlite3.Connection, run_id: str) -> list[sqlite3.Row]:
    statement = "SELECT position, rows FROM samples WHERE run = ? ORDER BY position"
    return connection.execute(statement, (run_id,)).fetchall()


def next_position(connection: sqlite3.Connection, table: str, run_id: str) -> int:
    """Return the position of a run's next row in its samples or events."""
    statement = f"SELECT coalesce(max(position), -1) + 1 FROM {table} WHERE run = ?"
    return int(connection.execute(statement, (run_id,)).fetchone()[0])


def _block_at(connection: sqlite3.Connection, run_id: str, position: int) -> Columns:
    statement = f"SELECT {_BLOCK} FROM samples WHERE run = ? AND position = ?"
    return _columns_in(connection, run_id, connection.execute(statement, (run_id, position)).fetchone())


def _columns_in(connection: sqlite3.Connection, run_id: str, row: sqlite3.Row) -> Columns:
    _check(connection, run_id, row, "samples")
    with _readable():
        return columns_of(Block(*row[:3]))


def _check(connection: sqlite3.Connection, run_id: str, row: sqlite3.Row, table: str) -> None:
    if not is_intact(row, BLOCKS[table]):
        raise checksum_error(connection, run_id, "curves")


def _put(connection: sqlite3.Connection, run_id: str, position: int, block: Block) -> None:
    place = {"run": run_id, "position": position}
    checksum = checksum_of(run_id, position, *block)
    insert(connection, "samples", **place, **block._asdict(), checksum=checksum)
    if block.rows >= _LEAST_OUTLINED:
        outline = {**place, "steps": _OUTLINED_STEPS, "data": _outline_of(block)}
        insert(connection, "outlines", **outline, checksum=checksum_of(*outline.values()))


def _drop(connection: sqlite3.Connection, run_id: str, first: int, last: int) -> None:
    statement = "DELETE FROM samples WHERE run = ? AND position BETWEEN ? AND ?"
    connection.execute(statement, (run_id, first, last))


def _outline_of(block: Block) -> bytes:
    bins = bins_of(columns_of(block), _OUTLINED_STEPS)
    table = [(rows[0::2], rows[1::2], bins.means[name]) for name, rows in bins.rows.items()]
    return np.array(table).astype(_WIRE).tobytes()


def _bins_in(outlined: Block, steps: int) -> Bins:
    count = -(-outlined.rows // steps)
    table = np.frombuffer(outlined.data, dtype=_WIRE).astype(np.float64).reshape(-1, 3, count)
    columns = dict(zip(outlined.names.split(","), table, strict=True))
    return Bins(
        {name: column[:2].T.ravel() for name, column in columns.items()},
        {name: column[2] for name, column in columns.items()},
        np.diff(np.append(steps * np.arange(count), outlined.rows)).astype(np.float64),
    )


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError):
        # SQLite holds a value of any type in any column
        raise unreadable_error("curves") from None
