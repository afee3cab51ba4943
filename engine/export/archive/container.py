"""An archive, a zip file that is read as untrusted: every name, size and count is checked.

A refusal is one plain sentence, and nothing is imported.
"""

from __future__ import annotations

import re
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated, Literal, NoReturn

from pydantic import AwareDatetime, Field, ValidationError

from engine.experiment.experiment import Experiment
from engine.experiment.paths import plain_file
from engine.experiment.problem import Problem, request_error
from engine.experiment.value import BYTES_PER_MIB, LONGEST_TEXT, Bounded, Message, Whole, shortened
from engine.protocol.events import SAMPLE_COLUMNS, Environment, Samples, Summary
from engine.protocol.pictures import MOST_BYTES as MOST_SHEET_BYTES
from engine.protocol.pictures import MOST_SIDE, MOST_TILES
from engine.store.record import Status
from engine.store.runs import LONGEST_NOTE, LONGEST_TAG, MOST_TAGS
from engine.words.numbers import size_text

FORMAT = 2  # the only one that is read
MANIFEST = "ammeter.json"
RECORD, EVENTS, SAMPLES = "record.json", "events.jsonl", "samples.f8"
PARTS = (RECORD, EVENTS, SAMPLES)  # of each run; samples are float64, little-endian, column after column
SHEET = "pictures"  # a sheet of pictures, which runs may share
MOST_RUNS = 2_000
MOST_BYTES = {
    MANIFEST: 8 * BYTES_PER_MIB,
    RECORD: 8 * BYTES_PER_MIB,
    EVENTS: 64 * BYTES_PER_MIB,
    SAMPLES: 2**29,
    SHEET: MOST_SHEET_BYTES,
}
"""The most bytes of each part, unpacked; a record has room for the largest code of a model's own file."""

MOST_BYTES_IN_ALL = 2**29
"""All parts together, unpacked: room for 40 runs of 100,000 steps. They are held in memory until all were
checked, and added in one transaction, during which no run can be recorded."""

MOST_EVENTS = 500_000
MOST_RATIO = 200
"""The highest compression ratio; above it is a zip bomb, since noise in the times keeps real runs below
20."""

SMALL_BYTES = 16 * BYTES_PER_MIB  # this much may be unpacked from any archive, whatever its ratio
VALUE_BYTES = 8
NEEDED_COLUMNS = tuple(name for name in SAMPLE_COLUMNS if Samples.model_fields[name].is_required())

_Id = Annotated[str, Field(pattern=r"\A[0-9a-f]{12}\z")]
_Key = Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
_Name = Annotated[str, Field(max_length=LONGEST_TEXT, pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\z")]
_Note = Annotated[str, Field(max_length=LONGEST_NOTE, pattern=r"\A[^\x00-\x08\x0b-\x1f\x7f-\x9f]*\z")]
_Tags = Annotated[tuple[Annotated[str, Field(max_length=LONGEST_TAG)], ...], Field(max_length=MOST_TAGS)]
# plausible dates, which every system can represent
_Moment = Annotated[
    AwareDatetime, Field(ge=datetime(1970, 1, 1, tzinfo=UTC), le=datetime(3000, 1, 1, tzinfo=UTC))
]
_Version = Annotated[str, Field(max_length=100)]
_IS_MEMBER = re.compile(rf"runs/[0-9a-f]{{12}}/({'|'.join(map(re.escape, PARTS))})")
_IS_SHEET = re.compile(r"pictures/[0-9a-f]{64}\.jpg")


class FileEntry(Message):
    """One file in an archive: its name, its unpacked size in bytes, and its SHA-256 in hexadecimal."""

    name: Annotated[str, Field(max_length=100)]
    bytes: Annotated[int, Field(ge=0, le=MOST_BYTES_IN_ALL)]
    sha256: _Key


class ComparisonEntry(Message):
    """A comparison to which some of the archive's runs belong, as saved in the archive's manifest."""

    id: _Id
    title: _Name
    created: _Moment
    ammeter: _Version | None = None


class SheetEntry(Message):
    """A set of `count` training images of `side` pixels, saved in the archive's file named `key`."""

    key: _Key
    side: Annotated[int, Field(ge=1, le=MOST_SIDE)]
    count: Annotated[int, Field(ge=1, le=MOST_TILES)]


class Manifest(Message):
    """The table of contents of an archive: its runs, comparisons, files and images."""

    format: Literal[2]
    ammeter: _Version
    runs: Annotated[tuple[_Id, ...], Field(max_length=MOST_RUNS)]
    comparisons: Annotated[tuple[ComparisonEntry, ...], Field(max_length=MOST_RUNS)]
    files: Annotated[tuple[FileEntry, ...], Field(max_length=MOST_RUNS * (len(PARTS) + 1))]
    pictures: Annotated[tuple[SheetEntry, ...], Field(max_length=MOST_RUNS)] = ()


class FormatOnly(Bounded, extra="ignore"):
    """The format version of an archive, read before the rest of its manifest."""

    format: Annotated[int, Field(ge=1)]


class RecordPart(Message):
    """A run's record in an archive, and the names and length of its sample columns."""

    id: _Id
    name: _Name
    status: Status
    label: _Name | None
    comparison: _Id | None
    created: _Moment
    started: _Moment | None
    ended: _Moment | None
    experiment: Experiment
    environment: Environment | None
    summary: Summary | None
    problem: Problem | None
    detail: str
    total_steps: Whole | None
    tags: _Tags = ()
    note: _Note = ""
    columns: Annotated[tuple[str, ...], Field(max_length=len(SAMPLE_COLUMNS))]
    rows: Annotated[int, Field(ge=0, le=MOST_BYTES_IN_ALL // VALUE_BYTES)]
    pictures: _Key | None = None


SHARED = tuple(name for name in RecordPart.model_fields if name not in ("columns", "rows", "pictures"))
"""The fields that a record shares with a run of the store."""


def part_name(run_id: str, part: str) -> str:
    """Return the name of a run's part inside the archive."""
    return f"runs/{run_id}/{part}"


def sheet_name(key: str) -> str:
    """Return the name of a sheet of images inside the archive."""
    return f"pictures/{key}.jpg"


def part_of(name: str) -> str | None:
    """Return the part of the archive to which the file `name` belongs. None for an unknown name."""
    if name == MANIFEST:
        return MANIFEST
    if _IS_SHEET.fullmatch(name):
        return SHEET
    match = _IS_MEMBER.fullmatch(name)
    return match[1] if match else None


ANOTHER = "Nothing was imported. Choose an archive that Ammeter exported."
AGAIN = "Nothing was imported. Export the runs again, and copy the complete file."


def refuse(path: Path, sentence: str, remedy: str = AGAIN) -> NoReturn:
    """Raise ProblemError about the archive at `path`. `sentence` follows its name."""
    raise request_error(f"{path.name} {sentence}.", remedy, key="file", value=path) from None


def describe_fault(error: ValueError) -> str:
    """Return the fault of a value on one short line, with any quoted content made harmless."""
    text = str(error)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))[:100]
        text = f"{place}: {first['msg']}" if place else str(first["msg"])
    return shortened(text, 200)


_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, IndexError, NotImplementedError),
    *(OverflowError, RuntimeError, ValueError),
)
"""The errors that zipfile raises for damaged archives and for files that are not archives."""

# PKWARE's APPNOTE, sections 4.3.15 and 4.3.16
_END = struct.Struct("<4s4H2LH")
_END_MARK, _LOCATOR_MARK = b"PK\x05\x06", b"PK\x06\x07"
_LOCATOR_BYTES = 20
# at most a sheet of pictures for each run, and the list
_MOST_MEMBERS = MOST_RUNS * (len(PARTS) + 1) + 1
_MOST_BYTES_A_MEMBER = 512  # per entry in the list of contents; Ammeter's own entries take some 80 bytes
_ENCRYPTED = 0x1


class Container:
    """An open archive whose contents were checked against its manifest. Nothing is unpacked to the disk."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self._archive = archive
        self.sizes = {info.filename: info.file_size for info in archive.infolist()}

    def read(self, name: str) -> bytes:
        """Return a complete part. Raises ProblemError if it is missing, damaged, or of another length."""
        size = self.sizes.get(name)
        if size is None:
            refuse(self.path, f"does not contain its part {name}")
        try:
            with self._archive.open(name) as part:
                # one byte more than listed, to see that it ends there
                data = part.read(size + 1)
        except _DAMAGED:
            refuse(self.path, f"is damaged: its part {name} cannot be unpacked")
        if len(data) != size:
            refuse(self.path, f"is damaged: its part {name} does not have the length listed")
        return data


@contextmanager
def open_archive(path: Path) -> Iterator[Container]:
    """Open an archive and check its list of contents. Raises ProblemError."""
    try:
        file = open(path, "rb", opener=plain_file)  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        refuse(path, f"could not be read: {reason}", "Check the path. Nothing was imported.")
    with file:
        try:
            try:
                _check_end(path, file)
                archive = zipfile.ZipFile(file)
            except _DAMAGED:
                refuse(path, "is not an archive of runs, or is damaged", ANOTHER)
            _check_members(path, archive.infolist())
            yield Container(path, archive)
        except OSError as error:
            refuse(path, f"could not be read: {error.strerror or error}")


def _check_end(path: Path, file: IO[bytes]) -> None:
    # before zipfile reads the whole list of contents into memory
    length = file.seek(0, 2)
    if length < _END.size:
        raise zipfile.BadZipFile
    tail_bytes = min(length, _END.size + _LOCATOR_BYTES)
    file.seek(length - tail_bytes)
    tail = file.read(tail_bytes)
    mark, disk, first_disk, here, members, listed, start, comment = _END.unpack(tail[-_END.size :])
    is_whole = (mark, disk, first_disk, here, comment) == (_END_MARK, 0, 0, members, 0)
    is_large = tail[: -_END.size].startswith(_LOCATOR_MARK) and len(tail) == _END.size + _LOCATOR_BYTES
    if not is_whole or is_large or start + listed + _END.size != length:
        raise zipfile.BadZipFile
    if members > _MOST_MEMBERS or listed > members * _MOST_BYTES_A_MEMBER:
        refuse(path, f"contains more than the {MOST_RUNS:,} runs that an archive can have", ANOTHER)


def _check_members(path: Path, members: list[zipfile.ZipInfo]) -> None:
    for info in members:
        name = info.orig_filename
        part = part_of(name)
        if part is None or info.filename != name:
            refuse(
                path, f"contains {_quoted_name(name)}, which does not belong in an archive of runs", ANOTHER
            )
        if _is_special(info):
            refuse(path, f"contains {name} as a link, a folder or in an unsupported form", ANOTHER)
        if info.file_size > MOST_BYTES[part]:
            limit = MOST_BYTES[part] // BYTES_PER_MIB
            refuse(path, f"contains {name}, which would unpack to more than its {limit:,} MiB limit", ANOTHER)
    duplicates = [name for name, count in Counter(info.filename for info in members).items() if count > 1]
    if duplicates:
        refuse(path, f"contains {duplicates[0]} more than once", ANOTHER)
    if MANIFEST not in {info.filename for info in members}:
        refuse(path, f"is not an archive of runs, because {MANIFEST} is missing", ANOTHER)
    unpacked = sum(info.file_size for info in members)
    if unpacked > min(MOST_BYTES_IN_ALL, SMALL_BYTES + MOST_RATIO * path.stat().st_size):
        size = size_text(unpacked)
        refuse(path, f"would unpack to {size}, which is too much for an archive of its size", ANOTHER)


def _is_special(info: zipfile.ZipInfo) -> bool:
    kind = stat.S_IFMT(info.external_attr >> 16)
    return (
        # other programs write no kind at all for a plain file
        kind not in (0, stat.S_IFREG)
        or info.is_dir()
        or info.flag_bits & _ENCRYPTED != 0
        or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    )


def _quoted_name(name: str) -> str:
    # the name may be anything: quote a few harmless characters of it
    return ascii(name if len(name) <= 60 else name[:57] + "...")
