"""The arrays in a file of the user, as its header describes them.

Only headers are read, and nothing is unpickled. This module does not import torch.
"""

from __future__ import annotations

import json
import math
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

from engine.experiment.paths import plain_file
from engine.experiment.problem import ProblemError, alternatives, request_error
from engine.experiment.value import shortened
from engine.lazy_imports import np

ENDINGS = (".npz", ".npy", ".safetensors", ".parquet")
PARQUET_COMMAND = 'pip install "ammeter[parquet]"'
_WRITERS = {
    ".npz": "numpy.savez",
    ".npy": "numpy.save",
    ".safetensors": "safetensors.numpy.save_file",
    ".parquet": "DataFrame.to_parquet",
}
_MOST_ARRAYS, _MOST_COLUMNS, _LONGEST_HEADER = 1_000, 10_000, 10_000_000
# raised by the readers for a file that is not of the format of its ending
_ERRORS = (
    *(OSError, ValueError, TypeError, KeyError, AttributeError, EOFError, RuntimeError, OverflowError),
    *(MemoryError, SyntaxError, TokenError, struct.error, zipfile.BadZipFile, zlib.error),
)


@dataclass(frozen=True)
class Array:
    """An array in the user's file, as described by the file's header, without its contents.

    The first dimension of `shape` counts the samples. `offset` is None if the array cannot be memory-mapped.
    """

    file: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int | None = None
    is_fortran: bool = False
    columns: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """NumPy's kind letter: "b", "i", "u" and "f" are numbers. "" for dtypes that NumPy does not know."""
        match = re.fullmatch(r"[<>|=]([biuf])([1248])", self.dtype)
        return match[1] if match else "O" if "O" in self.dtype else ""

    @property
    def is_whole(self) -> bool:
        """Return True for whole numbers: classes or tokens."""
        return self.kind in ("b", "i", "u")

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * int(self.dtype[2:]) if self.kind in ("b", "i", "u", "f") else 0

    @property
    def words(self) -> str:
        """Return the dtype and shape: "float32 (100, 28, 28)"."""
        name = {"b": "bool", "i": "int", "u": "uint", "f": "float"}.get(self.kind)
        bits = "" if self.kind == "b" else str(8 * int(self.dtype[2:])) if name else ""
        return f"{name or shortened(self.dtype)}{bits} ({', '.join(f'{side:,}' for side in self.shape)})"


def read_headers(file: Path) -> tuple[Array, ...]:
    """Read the headers of all arrays in a file. Raises ProblemError, key `path`."""
    try:
        status = file.stat()
    except (OSError, ValueError):
        message = f"{shortened(str(file), most=300)} cannot be read."
        raise file_error(file, message, "Check its spelling and its permissions.") from None
    ending = file.suffix.lower()
    if not stat.S_ISREG(status.st_mode) or ending not in ENDINGS:
        what = "is a folder" if stat.S_ISDIR(status.st_mode) else "is not a file of arrays"
        message = f"{file} {what}. Such a file ends in {alternatives([*ENDINGS])}."
        raise file_error(file, message, "Select such a file.")
    return _headers(str(file), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _headers(file: str, _changed_ns: int, size: int) -> tuple[Array, ...]:
    # cached, since the form checks at every key press
    path, ending = Path(file), Path(file).suffix.lower()
    try:
        with open(path, "rb", opener=plain_file) as opened:
            arrays = tuple(_READERS[ending](opened, file, size))
    except ImportError:
        message = f"{path} needs pyarrow, which is not installed."
        raise file_error(path, message, f"Install it with: {PARQUET_COMMAND}") from None
    except PermissionError:
        message = f"{path} cannot be opened."
        raise file_error(path, message, "Check its permissions.") from None
    except _ERRORS:
        message = f"{path} is damaged, or is not a {ending} file."
        raise file_error(path, message, f"Save it again with {_WRITERS[ending]}.") from None
    if not arrays:
        raise file_error(path, f"{path} contains no arrays.", "Select another file.")
    for array in arrays:
        if array.offset is not None and array.offset + array.nbytes > size:
            raise file_error(path, f"{path} is truncated.", "Copy or save it again.")
    return arrays


def _npy(opened: IO[bytes], file: str, _size: int) -> Iterator[Array]:
    yield _npy_array(opened, file, Path(file).stem)


def _npz(opened: IO[bytes], file: str, _size: int) -> Iterator[Array]:
    with zipfile.ZipFile(opened) as archive:
        for info in archive.infolist()[:_MOST_ARRAYS]:
            if not info.filename.endswith(".npy"):
                continue
            with archive.open(info) as member:
                array = _npy_array(member, file, info.filename.removesuffix(".npy"))
            if info.file_size < (array.offset or 0) + array.nbytes:
                raise EOFError
            if info.compress_type != zipfile.ZIP_STORED:
                yield replace(array, offset=None)
                continue
            # the local header's name and extra field may be longer than the directory's
            opened.seek(info.header_offset + 26)
            before = 30 + sum(struct.unpack("<HH", opened.read(4)))
            yield replace(array, offset=info.header_offset + before + (array.offset or 0))


def _npy_array(opened: IO[bytes], file: str, name: str) -> Array:
    version = np.lib.format.read_magic(opened)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(opened)
    text = "O" if dtype.hasobject else str(dtype.str if dtype.names is None else dtype)
    return Array(file, name, text, tuple(map(int, shape)), opened.tell(), is_fortran)


_SAFETENSORS = {
    "BOOL": "|b1",
    "U8": "|u1",
    "I8": "|i1",
    **{f"{letter.upper()}{8 * size}": f"<{letter}{size}" for letter in "iu" for size in (2, 4, 8)},
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
}


def _safetensors(opened: IO[bytes], file: str, size: int) -> Iterator[Array]:
    (length,) = struct.unpack("<Q", opened.read(8))
    if length > min(size, _LONGEST_HEADER):
        raise ValueError
    for name, tensor in json.loads(opened.read(length)).items():
        if name == "__metadata__":
            continue
        shape = tuple(int(side) for side in tensor["shape"])
        begin, end = map(int, tensor["data_offsets"])
        dtype = _SAFETENSORS.get(tensor["dtype"], tensor["dtype"])
        array = Array(file, name, dtype, shape, 8 + length + begin)
        if min((begin, *shape)) < 0 or (array.nbytes and end - begin != array.nbytes):
            raise ValueError
        yield array


def _parquet(opened: IO[bytes], file: str, _size: int) -> Iterator[Array]:
    import pyarrow.parquet

    types = pyarrow.types
    with pyarrow.parquet.ParquetFile(opened) as table:
        # created again at each access, with all columns
        schema, rows = table.schema_arrow, table.metadata.num_rows
        if len(schema.names) > _MOST_COLUMNS:
            message = f"{file} has {len(schema.names):,} columns, but at most {_MOST_COLUMNS:,} can be read."
            raise file_error(file, message, "Save the numbers as one column of lists.")
        is_list = (types.is_list, types.is_large_list)
        lists = [field.name for field in schema if any(test(field.type) for test in is_list)]
        first = next(table.iter_batches(batch_size=1, columns=lists), None) if lists else None
        for field in schema:
            kind, sides = field.type, []
            while types.is_fixed_size_list(kind):
                sides.append(kind.list_size)
                kind = kind.value_type
            if field.name in lists:
                # those of its first row, which all rows must share
                sides = [] if first is None else _row_lengths(first.column(field.name)[0])
                while hasattr(kind, "value_type"):
                    kind = kind.value_type
            try:
                dtype = str(np.dtype(kind.to_pandas_dtype()).str)
            except (NotImplementedError, TypeError, AttributeError):
                dtype = str(kind)
            yield Array(file, field.name, dtype, (rows, *sides), columns=(field.name,))


def _row_lengths(row: Any) -> list[int]:
    import pyarrow

    sides = []
    while isinstance(row, pyarrow.ListScalar) and row.values is not None:
        sides.append(len(row.values))
        row = row.values[0] if len(row.values) else None
    return sides


_READERS: dict[str, Callable[[IO[bytes], str, int], Iterator[Array]]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".safetensors": _safetensors,
    ".parquet": _parquet,
}


def file_error(file: Path | str, message: str, remedy: str) -> ProblemError:
    """Create an error about the file in the setting `path`."""
    return request_error(message, remedy, key="path", value=str(file))
