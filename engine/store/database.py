"""Opens the store's file: checks that it is Ammeter's and not newer, and migrates an older one.

If nothing can be written, the store is read into memory and migrated there.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path, PurePath
from typing import Any, NamedTuple, NoReturn

from engine import __version__
from engine.experiment.paths import part_path
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.value import BYTES_PER_MIB
from engine.store import format16, format17
from engine.store.checksums import TRIGGERS
from engine.store.schema import APPLICATION_ID, KEPT_RUNS, SCHEMA, VERSION

_BUSY_SECONDS = 10.0
_LOCKED_SECONDS = 0.02
_KEPT_KIB = 16 * 1024  # of a temporary store in memory: some hundred thousand steps of a run
_LONGEST_PATH = 504  # in bytes: SQLite's own limit on Unix, less the ending of a journal's name
_NO_WRITING = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_ROOM = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
_REFUSED = frozenset(
    {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM}
)
_LOGS = ("-wal", "-journal")
BESIDE = ("-wal", "-shm")  # the endings of the files that SQLite keeps beside an open store


_SPARE_BYTES = 16 * BYTES_PER_MIB


class DamagedError(ProblemError):
    """Raised for a file that is not a store, or an incomplete one."""


class NoRoomError(OSError):
    """Raised if the copy and the migration would not fit on the disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


class Opened(NamedTuple):
    """A connection to a store, with notes. If the store is `unwritable`, it is to a copy in memory."""

    connection: sqlite3.Connection
    notes: tuple[str, ...] = ()
    unwritable: Problem | None = None


def open_database(path: Path, vfs: str | None = None) -> Opened:
    """Open or create the store at `path`, or a copy in memory if it cannot be written.

    `vfs` names another of SQLite's virtual file systems. Raises ProblemError for a file that cannot be read
    or is not a store, and for a newer program's store, which is left as it is.
    """
    if os.name == "posix" and (size := len(os.fsencode(path))) > _LONGEST_PATH:
        message = f"The path of the saved runs is too long ({size:,} bytes, limit {_LONGEST_PATH})."
        raise ProblemError(_problem(message, "Set AMMETER_HOME to a folder with a shorter path."))
    try:
        return open_to_write(path, vfs)
    except (OSError, sqlite3.Error) as error:
        return open_copy(path, error)
    except UnicodeDecodeError as error:
        # of SQLite's own words, which quote the damage
        raise damaged(path) from error


def open_copy(path: Path, error: OSError | sqlite3.Error) -> Opened:
    """Return a copy in memory of the store at `path`, which `error` makes unwritable. It may be empty.

    Raises ProblemError if `error` is another one, or if the store cannot be read either.
    """
    unwritable = _unwritable(path, error)
    if unwritable is None:
        fail(path, error)
    memory = _set_up(sqlite3.connect(":memory:", isolation_level=None))
    try:
        if path.exists() and path.stat().st_size:
            with _readable(path) as source:
                _check(source, path)
                source.backup(memory)
        _bring_up_to_date(memory, path)
    except (OSError, sqlite3.Error, ProblemError) as second:
        memory.close()
        if isinstance(second, ProblemError):
            raise
        fail(path, second)
    return Opened(memory, unwritable=unwritable)


def open_temporary() -> sqlite3.Connection:
    """Return an empty store in memory. SQLite moves large content to a temporary file."""
    connection = _set_up(sqlite3.connect("", isolation_level=None))
    connection.execute(f"PRAGMA cache_size = -{_KEPT_KIB}")
    _bring_up_to_date(connection, Path(":memory:"))
    return connection


def open_to_write(path: Path, vfs: str | None = None) -> Opened:
    """Open or create the store at `path`. Raises OSError, sqlite3.Error and ProblemError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        # left by an earlier file of that name
        for ending in BESIDE:
            path.with_name(path.name + ending).unlink(missing_ok=True)
    elif path.stat().st_size:
        _look(path, vfs)
    connection = _connect(path, "rwc", vfs)
    try:
        _check(connection, path)
        notes = _choose_journal(connection)
        _bring_up_to_date(connection, path, lambda version: back_up(path, version, vfs))
        _try_to_write(connection)
    except BaseException:
        connection.close()
        raise
    return Opened(connection, notes)


def _bring_up_to_date(
    connection: sqlite3.Connection, path: Path, back_up: Callable[[int], Path] | None = None
) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    if _version(connection) != VERSION:
        _migrate(connection, path, back_up)
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if not set(re.findall(r"CREATE TABLE (\w+)", SCHEMA + KEPT_RUNS)) <= tables:
        raise damaged(path)


def _try_to_write(connection: sqlite3.Connection) -> None:
    # whoever holds the lock is writing, which shows that it can be done
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA user_version = {_version(connection)}")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute(f"PRAGMA busy_timeout = {int(1000 * _BUSY_SECONDS)}")


def _unwritable(path: Path, error: OSError | sqlite3.Error) -> Problem | None:
    if isinstance(error, OSError):
        is_full, is_refused = error.errno in _NO_ROOM, error.errno in _NO_WRITING
    else:
        # absent where Python's sqlite3 module itself raised it
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        is_full, is_refused = code == sqlite3.SQLITE_FULL, code in _REFUSED
    if not is_full and not is_refused:
        return None
    if isinstance(error, NoRoomError):
        message = (
            f"Nothing can be saved: the saved runs at {path} are from an older Ammeter, and the disk has no "
            "room for a copy, which is made before the update."
        )
        return _problem(message, "Free disk space and restart. Until then the runs can be read.")
    if is_full:
        message = f"Nothing can be saved: the disk of {path.parent} is full."
        return _problem(message, "Free some space, or set AMMETER_HOME to a folder on another disk.")
    message = f"Nothing can be saved: {path.parent} is not writable."
    remedy = "Check its permissions and the free space on its disk, or set AMMETER_HOME to another folder."
    return _problem(message, remedy)


@contextmanager
def _readable(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that writes nothing beside the file, yet reads the log that a kill has left."""
    beside = [path.with_name(path.name + ending) for ending in _LOGS]
    logs = [log for log in beside if log.exists() and log.stat().st_size]
    # without a log the file is whole; with one SQLite needs the log's index, which exists while anyone writes
    with closing(_connect(path, "ro&readonly_shm=1" if logs else "ro&immutable=1", None)) as connection:
        if not logs or _has_index(connection):
            yield connection
            return
    # no index, so no connection of ours is open that would lose its locks by this copying
    with tempfile.TemporaryDirectory(prefix="ammeter-") as folder:
        for file in (path, *logs):
            shutil.copyfile(file, Path(folder, file.name))
        with closing(_connect(Path(folder, path.name), "rw", None)) as connection:
            yield connection


def _has_index(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        return False
    return True


_DAMAGE = re.compile("not a database|malformed|no such (table|column)|already exists|duplicate column")


def fail(path: Path, error: Exception) -> NoReturn:
    """Raise ProblemError of kind STORE for an error of SQLite or the system at the file `path`."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if "locked" in reason or "busy" in reason:
        message = f"The saved runs at {path} are locked by another program."
        raise ProblemError(_problem(message, "Close the other program and try again.")) from error
    if _DAMAGE.search(reason):
        raise damaged(path) from error
    message = f"The saved runs at {path} cannot be opened or written: {reason}."
    remedy = "Check that the folder is writable and has space, or set AMMETER_HOME to another folder."
    raise ProblemError(_problem(message, remedy)) from error


def _connect(path: Path, mode: str, vfs: str | None) -> sqlite3.Connection:
    uri = f"{file_uri(path.absolute())}?mode={mode}" + (f"&vfs={vfs}" if vfs else "")
    # transactions are begun explicitly, where a reader can see them
    return _set_up(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None))


def file_uri(path: PurePath) -> str:
    """An absolute path as SQLite's URI, which has a server of Windows' network within the path."""
    return re.sub(r"^file://(?=[^/])", "file:////", path.as_uri())


def _set_up(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.row_factory = sqlite3.Row
    # a byte that no text has must hide no row but its own, whose checksum tells
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def _look(path: Path, vfs: str | None) -> None:
    """Checks through a read-only connection first, so that a foreign file stays as it is.

    The file is only ever opened through SQLite: closing it any other way would drop all locks that this
    process holds on it, and another process, seeing none, would delete the log that we are writing.
    """
    # without a log the file is whole, and opened as immutable it gets no new files beside it
    is_whole = not path.with_name(path.name + "-wal").exists()
    connection = _connect(path, "ro&immutable=1" if is_whole else "ro", vfs)
    try:
        _check(connection, path)
    except sqlite3.OperationalError:
        # a journal left by a kill can only be read by a connection that may write, which checks again
        return
    finally:
        connection.close()


def _check(connection: sqlite3.Connection, path: Path) -> None:
    version = _version(connection)
    is_empty = version == 0 and not _scalar(connection, "SELECT count(*) FROM sqlite_master")
    if version == 0 and not is_empty:
        # another program may just have made the tables and, in the same transaction, their version
        version = _version(connection)
    if version > VERSION:
        known = f"format {version}, but version {__version__} supports up to {VERSION}"
        message = f"The saved runs at {path} were written by a newer Ammeter ({known})."
        remedy = "Install the newer Ammeter, or set AMMETER_HOME to another folder."
        if copies := backups(path):
            remedy += f" To restore the runs from before the update, rename {copies[-1]} to {path.name}."
        raise ProblemError(_problem(message, remedy))
    is_strange = version == 0 or _scalar(connection, "PRAGMA application_id") != APPLICATION_ID
    if version < 0 or (not is_empty and is_strange):
        raise damaged(path)
    if 0 < version < format16.FORMAT:
        message = (
            f"The saved runs at {path} were written by an older Ammeter (format {version}). Version "
            f"{__version__} reads formats {format16.FORMAT} to {VERSION}."
        )
        remedy = "Use that older Ammeter, or set AMMETER_HOME to another folder."
        raise ProblemError(_problem(message, remedy))


def _choose_journal(connection: sqlite3.Connection) -> tuple[str, ...]:
    """WAL, so that readers and the recorder never wait for each other; else a rollback journal."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            mode = str(_scalar(connection, "PRAGMA journal_mode = WAL"))
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                mode = str(_scalar(connection, "PRAGMA journal_mode = DELETE"))
                break
            if time.monotonic() > deadline:
                raise
        # SQLite itself does not wait where two programs make a new store at once
        time.sleep(_LOCKED_SECONDS)
    if mode == "wal":
        # in WAL mode a killed process loses nothing by this, and each commit saves a flush
        connection.execute("PRAGMA synchronous = NORMAL")
        return ()
    return (
        "The file system of the saved runs does not support SQLite's write-ahead log, as often in network"
        " folders. A slower rollback journal is used.",
    )


def _migrate(connection: sqlite3.Connection, path: Path, back_up: Callable[[int], Path] | None) -> None:
    connection.execute("BEGIN IMMEDIATE")
    copy: Path | None = None
    try:
        # another program may have migrated while this one waited for the lock
        _check(connection, path)
        version = _version(connection)
        if back_up is not None and 0 < version < VERSION:
            copy = back_up(version)
        if version == 0:
            for statement in (*f"{SCHEMA}{KEPT_RUNS}".split(";"), *TRIGGERS):
                connection.execute(statement)
        elif version < VERSION:
            if version == format16.FORMAT:
                format16.bring_over(connection)
            format17.bring_over(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException as error:
        # SQLite has rolled back by itself when the disk is full
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if copy is None or not isinstance(error, sqlite3.Error) or _unwritable(path, error) is not None:
            raise
        if _DAMAGE.search(str(error)):
            raise damaged(path) from error
        message = (
            f"The saved runs at {path} could not be updated: {error}. "
            f"They are unchanged, and a copy is at {copy}."
        )
        remedy = "Try again. If it fails again, use the version of Ammeter that wrote them, and report this."
        raise ProblemError(_problem(message, remedy)) from error
    if 0 < version < VERSION:
        format17.seal(connection)


def back_up(path: Path, version: int, vfs: str | None) -> Path:
    """Copy the store at `path`, of that version, with its log, and return the copy's path.

    The copy is kept until the new store is known to work: once a window has read its runs and been closed, or
    a command that reads them has succeeded. Nobody may write during the copy. Raises OSError, sqlite3.Error.
    """
    place = path.with_name(f"{path.name}.v{version}.backup")
    part = part_path(place)
    # a connection that is writing cannot be copied from
    with closing(_connect(path, "ro", vfs)) as source:
        size = _scalar(source, "PRAGMA page_count") * _scalar(source, "PRAGMA page_size")
        # the copy, and the log of a migration that writes every row
        if shutil.disk_usage(path.parent).free < 2 * size + _SPARE_BYTES:
            raise NoRoomError(path.parent)
        part.unlink(missing_ok=True)
        try:
            with closing(sqlite3.connect(part)) as copy:
                # a torn copy is thrown away, so it needs no journal
                copy.execute("PRAGMA journal_mode = OFF")
                source.backup(copy)
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            part.replace(place)
        except BaseException:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise
    return place


def backups(path: Path) -> list[Path]:
    """Return the copies of the store at `path`, the newest format last."""
    name = re.compile(re.escape(path.name) + r"\.v(\d+)\.backup")
    versions: dict[Path, int] = {}
    with suppress(OSError):
        found = ((place, name.fullmatch(place.name)) for place in path.parent.iterdir())
        versions = {place: int(match[1]) for place, match in found if match}
    return sorted(versions, key=versions.__getitem__)


def remove_backups(path: Path) -> None:
    """Remove the copies of the store at `path`, which is known to work."""
    for place in backups(path):
        # a folder that cannot be written keeps them
        with suppress(OSError):
            place.unlink()


def _version(connection: sqlite3.Connection) -> int:
    return int(_scalar(connection, "PRAGMA user_version"))


def _scalar(connection: sqlite3.Connection, statement: str) -> Any:
    return connection.execute(statement).fetchone()[0]


def damaged(path: Path) -> DamagedError:
    """Return the error for a file that is not a store, or an incomplete one."""
    message = f"{path} is not a file of Ammeter's saved runs, or it is damaged."
    return DamagedError(_problem(message, "Move it away, or set AMMETER_HOME to another folder."))


def _problem(message: str, remedy: str) -> Problem:
    return Problem(kind=Kind.STORE, message=message, remedy=remedy)
