"""Open the store's file: refuse a foreign or newer file, and set an older one aside.

If nothing can be written, the file is opened only to read.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path, PurePath
from typing import Any, NamedTuple, NoReturn

from engine import __version__
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.store.schema import APPLICATION_ID, SCHEMA, VERSION

if sys.platform != "win32":
    import fcntl

_BUSY_SECONDS = 10.0
_LOCKED_SECONDS = 0.02
_OLDER_SECONDS = 2.0
_LONGEST_PATH = 504  # in bytes: SQLite's own limit on Unix, less the ending of a journal's name
_NO_WRITING = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_ROOM = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
_REFUSED = frozenset(
    {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM}
)
_LOGS = ("-wal", "-journal")
BESIDE = ("-wal", "-shm")  # the endings of the files that SQLite keeps beside an open store


class DamagedError(ProblemError):
    """Raised if a file is not a store of Ammeter, or is incomplete."""


class Opened(NamedTuple):
    """The result of opening a store: the connection, and notes for the user.

    If the store is `unwritable`, the connection can only read. `moved` says that an older store was
    at the path, and where it is now.
    """

    connection: sqlite3.Connection
    notes: tuple[str, ...] = ()
    unwritable: Problem | None = None
    moved: str = ""


def open_database(path: Path, vfs: str | None = None) -> Opened:
    """Open or create the store at `path`, or open it only to read if it cannot be written.

    `vfs` names another of SQLite's virtual file systems. Raises ProblemError for a file that cannot be read
    or is not a store, and for a newer program's store, which is left as it is.
    """
    if os.name == "posix" and (size := len(os.fsencode(path))) > _LONGEST_PATH:
        message = f"The path of the saved runs is too long ({size:,} bytes, limit {_LONGEST_PATH})."
        raise ProblemError(_problem(message, "Set AMMETER_HOME to a folder with a shorter path."))
    try:
        return open_to_write(path, vfs)
    except (OSError, sqlite3.Error) as error:
        return _open_to_read(path, error)
    except UnicodeDecodeError as error:
        # of SQLite's own words, which quote the damage
        raise damaged_error(path) from error


def _open_to_read(path: Path, error: OSError | sqlite3.Error) -> Opened:
    """Open the store at `path`, which `error` makes unwritable, only to read.

    Raises ProblemError if `error` is another one, if there is no store, or if only a program that may write
    can read its log.
    """
    unwritable = unwritable_problem(path, error)
    if unwritable is None:
        raise_problem(path, error)
    status = status_of(path)
    if status is None or not status.st_size:
        raise ProblemError(unwritable) from error
    logs = (status_of(path.with_name(path.name + ending)) for ending in _LOGS)
    has_log = any(log is not None and log.st_size for log in logs)
    # without a log the file is whole; with one SQLite needs the log's index, which exists while anyone writes
    try:
        connection = _connect(path, "ro&readonly_shm=1" if has_log else "ro&immutable=1", None)
        try:
            if is_older(version := _check(connection, path)):
                message = f"{_older(path, version)} Their file cannot be moved."
                raise ProblemError(_problem(message, unwritable.remedy))
            _complete(connection, path)
        except BaseException:
            connection.close()
            raise
    except sqlite3.OperationalError as second:
        raise ProblemError(unwritable) from second
    except sqlite3.Error as second:
        raise_problem(path, second)
    return Opened(connection, unwritable=unwritable)


def open_to_write(path: Path, vfs: str | None = None) -> Opened:
    """Open or create the store at `path`, and set an older one aside.

    Raises OSError, sqlite3.Error and ProblemError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    status, moved = status_of(path), ""
    if status is not None and status.st_size:
        version = _look(path, vfs)
        if version is None or is_older(version):
            moved = _set_aside(path, vfs)
    connection = _connect(path, "rwc", vfs)
    try:
        if is_older(version := _check(connection, path)):
            raise _in_use(path, version)
        notes = _choose_journal(connection)
        _complete(connection, path)
        _try_to_write(connection)
    except BaseException:
        connection.close()
        raise
    return Opened(connection, notes, moved=moved)


def _complete(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables of a new store, and check that no table is missing."""
    connection.execute("PRAGMA foreign_keys = ON")
    if _version(connection) == 0:
        connection.execute("BEGIN IMMEDIATE")
        try:
            # another program may have created them while this one waited for the lock
            if _check(connection, path) == 0:
                for statement in SCHEMA.split(";"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            # SQLite has rolled back by itself when the disk is full
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if not set(re.findall(r"CREATE TABLE (\w+)", SCHEMA)) <= tables:
        raise damaged_error(path)


def _set_aside(path: Path, vfs: str | None) -> str:
    """Rename an older store, and return a sentence about it, or "" if there is none.

    While another program has it open, it stays as it is and ProblemError is raised. At no time is its log
    apart from it.
    """
    # one process at a time: SQLite would take the log of the new store for that of a renamed file
    with _alone_in(path.parent):
        if status_of(path) is None:
            return ""
        with closing(_connect(path, "rw", vfs)) as connection:
            if not is_older(version := _check(connection, path)):
                return ""
            try:
                # held until the file has its new name
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                # brings the log into the file and removes it, which nobody else can have open then
                _set_journal(connection, "DELETE", _OLDER_SECONDS)
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                raise _in_use(path, version) from error
            endings = ("", *(f"-{number}" for number in range(2, 1_000)))
            names = (f"{path.stem}-format{version}{ending}{path.suffix}" for ending in endings)
            aside = next(place for name in names if not (place := path.with_name(name)).exists())
            if sys.platform == "win32":
                # which renames no open file
                connection.close()
            path.rename(aside)
    return f"{_older(path, version)} They are kept in {aside}, and a new file was started."


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes out of this block, on systems that rename open files."""
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # some network file systems lock no folders
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def older_stores(path: Path, version: int | None = None) -> list[Path]:
    """Return the stores, all or of one format, that were set aside from `path`."""
    number = r"\d+" if version is None else str(version)
    name = re.compile(rf"{re.escape(path.stem)}-format{number}(-\d+)?{re.escape(path.suffix)}")
    with suppress(OSError):
        return sorted(place for place in path.parent.iterdir() if name.fullmatch(place.name))
    return []


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


def unwritable_problem(path: Path, error: OSError | sqlite3.Error) -> Problem | None:
    """Return the problem if an error means that nothing can be saved at `path`, or None for another error."""
    if isinstance(error, OSError):
        is_full, is_refused = error.errno in _NO_ROOM, error.errno in _NO_WRITING
    else:
        # absent where Python's sqlite3 module itself raised it
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        is_full, is_refused = code == sqlite3.SQLITE_FULL, code in _REFUSED
    if not is_full and not is_refused:
        return None
    if is_full:
        message = f"Nothing can be saved: the disk of {path.parent} is full."
        return _problem(message, "Free some space, or set AMMETER_HOME to a folder on another disk.")
    message = f"Nothing can be saved: {path.parent} is not writable."
    remedy = "Check its permissions and the free space on its disk, or set AMMETER_HOME to another folder."
    return _problem(message, remedy)


_DAMAGE = re.compile("not a database|malformed|no such (table|column)|already exists")


def raise_problem(path: Path, error: Exception) -> NoReturn:
    """Raise ProblemError of kind STORE for an error of SQLite or the system at the file `path`."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if "locked" in reason or "busy" in reason:
        message = f"The saved runs at {path} are locked by another program."
        raise ProblemError(_problem(message, "Close the other program and try again.")) from error
    if _DAMAGE.search(reason):
        raise damaged_error(path) from error
    message = f"The saved runs at {path} cannot be opened or written: {reason}."
    remedy = "Check that the folder is writable and has space, or set AMMETER_HOME to another folder."
    raise ProblemError(_problem(message, remedy)) from error


def _connect(path: Path, mode: str, vfs: str | None) -> sqlite3.Connection:
    uri = f"{file_uri(path.absolute())}?mode={mode}" + (f"&vfs={vfs}" if vfs else "")
    # transactions are begun explicitly, where a reader can see them
    return _set_up(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None))


def file_uri(path: PurePath) -> str:
    """Return SQLite's URI of an absolute path. A server of Windows' network is part of the path."""
    return re.sub(r"^file://(?=[^/])", "file:////", path.as_uri())


def _set_up(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.row_factory = sqlite3.Row
    # a byte that no text has must hide no row but its own, whose checksum tells
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def _look(path: Path, vfs: str | None) -> int | None:
    """Return the format through a read-only connection, so that a foreign file stays as it is, or None.

    The file is only ever opened through SQLite: closing it any other way would drop all locks that this
    process holds on it, and another process, seeing none, would delete the log that we are writing.
    """
    # without a log the file is whole, and opened as immutable it gets no new files beside it
    is_whole = not path.with_name(path.name + "-wal").exists()
    try:
        with closing(_connect(path, "ro&immutable=1" if is_whole else "ro", vfs)) as connection:
            return _check(connection, path)
    except sqlite3.OperationalError:
        # a journal left by a kill can only be read by a connection that may write, which checks again
        return None


def is_older(version: int) -> bool:
    """Return True for the format of an older Ammeter, which this one cannot read."""
    return 0 < version < VERSION


def _check(connection: sqlite3.Connection, path: Path) -> int:
    """Return the format of the store, 0 for an empty file. Raises ProblemError for any other file."""
    version = _version(connection)
    is_empty = version == 0 and not _scalar(connection, "SELECT count(*) FROM sqlite_master")
    if version == 0 and not is_empty:
        # another program may just have made the tables and, in the same transaction, their version
        version = _version(connection)
    if version > VERSION:
        known = f"format {version}, but version {__version__} supports up to {VERSION}"
        message = f"The saved runs at {path} were written by a newer Ammeter ({known})."
        remedy = "Install the newer Ammeter, or set AMMETER_HOME to another folder."
        if mine := older_stores(path, VERSION):
            remedy += f" To use the runs of this version again, rename {mine[-1]} to {path.name}."
        raise ProblemError(_problem(message, remedy))
    is_strange = version == 0 or _scalar(connection, "PRAGMA application_id") != APPLICATION_ID
    if version < 0 or (not is_empty and is_strange):
        raise damaged_error(path)
    return version


def _in_use(path: Path, version: int) -> ProblemError:
    message = f"{_older(path, version)} Another program has them open."
    return ProblemError(_problem(message, "Close every other Ammeter and try again."))


def _older(path: Path, version: int) -> str:
    written = f"were written by an older Ammeter (format {version})"
    return f"The saved runs at {path} {written}, which version {__version__} cannot read."


def _choose_journal(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Choose WAL, so that readers and the recorder never wait for each other, or else a rollback journal."""
    if _set_journal(connection, "WAL", _BUSY_SECONDS) == "wal":
        # in WAL mode a killed process loses nothing by this, and each commit saves a flush
        connection.execute("PRAGMA synchronous = NORMAL")
        return ()
    return (
        "The file system of the saved runs does not support SQLite's write-ahead log, as often in network"
        " folders. A slower rollback journal is used.",
    )


def _set_journal(connection: sqlite3.Connection, wanted: str, seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return str(_scalar(connection, f"PRAGMA journal_mode = {wanted}"))
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) and wanted == "WAL":
                wanted = "DELETE"
            elif "locked" not in str(error) or time.monotonic() > deadline:
                raise
        # SQLite itself does not wait where two programs open a store at once
        time.sleep(_LOCKED_SECONDS)


def status_of(path: Path) -> os.stat_result | None:
    """Return the status of a file without opening it: closing it again would drop SQLite's locks."""
    try:
        return path.stat()
    except OSError:
        return None


def _version(connection: sqlite3.Connection) -> int:
    return int(_scalar(connection, "PRAGMA user_version"))


def _scalar(connection: sqlite3.Connection, statement: str) -> Any:
    return connection.execute(statement).fetchone()[0]


def damaged_error(path: Path) -> DamagedError:
    """Return the error for a file that is not a store, or an incomplete one."""
    message = f"{path} is not a file of Ammeter's saved runs, or it is damaged."
    return DamagedError(_problem(message, "Move it away, or set AMMETER_HOME to another folder."))


def _problem(message: str, remedy: str) -> Problem:
    return Problem(kind=Kind.STORE, message=message, remedy=remedy)
