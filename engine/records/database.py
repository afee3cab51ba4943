"""Opens the store's file: checks that it is ours and not newer, and brings an older one up to date."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, NoReturn

from engine.problem import Kind, Problem, ProblemError
from engine.records.schema import APPLICATION_ID, MIGRATIONS, VERSION

_BUSY_SECONDS = 10.0


def open_database(path: Path, vfs: str | None = None) -> tuple[sqlite3.Connection, tuple[str, ...]]:
    """A connection to the store at `path`, made if there is none, and notes on how it had to be opened.

    `vfs` names another of SQLite's ways to reach files. Raises ProblemError for a folder that cannot be
    written, a file that is not a store, and a store of a newer program, which is left as it is.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists() or path.stat().st_size == 0
        if not is_new:
            _look(path, vfs)
        connection = _connect(path, "rwc", vfs)
    except (OSError, sqlite3.Error) as error:
        fail(path, error)
    try:
        _check(connection, path)
        connection.execute("PRAGMA foreign_keys = ON")
        notes = _choose_journal(connection)
        _migrate(connection, path)
    except (sqlite3.Error, ProblemError) as error:
        connection.close()
        if isinstance(error, ProblemError):
            raise
        fail(path, error)
    return connection, notes


def fail(path: Path, error: Exception) -> NoReturn:
    """Raises ProblemError of kind STORE for what SQLite or the system said about the file at `path`."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if "locked" in reason or "busy" in reason:
        message = f"The saved runs at {path} are in use by another program that does not let go."
        raise ProblemError(_problem(message, "Close the other program and try again.")) from error
    if "not a database" in reason or "malformed" in reason:
        raise ProblemError(_not_ours(path)) from error
    message = f"The saved runs at {path} cannot be opened or written: {reason}."
    remedy = "Check that the folder can be written and has room, or set AMMETER_HOME to another one."
    raise ProblemError(_problem(message, remedy)) from error


def _connect(path: Path, mode: str, vfs: str | None) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}" + (f"&vfs={vfs}" if vfs else "")
    # transactions are begun by hand, where a reader can see them
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    connection.row_factory = sqlite3.Row
    return connection


def _look(path: Path, vfs: str | None) -> None:
    """Looks through a read-only connection first, so that a file not for us stays as it is.

    The file is never opened but through SQLite: closing it by any other way would drop all locks that this
    process holds on it, and another process, seeing none, would delete the log that we are writing.
    """
    # without a log beside it the file is whole, and read as immutable it gets no new files beside it
    is_whole = not path.with_name(path.name + "-wal").exists()
    connection = _connect(path, "ro&immutable=1" if is_whole else "ro", vfs)
    try:
        _check(connection, path)
    except sqlite3.OperationalError:
        # a journal left by a kill can only be read by who may write; the check comes again then
        return
    finally:
        connection.close()


def _check(connection: sqlite3.Connection, path: Path) -> None:
    version = _version(connection)
    is_empty = version == 0 and not _scalar(connection, "SELECT count(*) FROM sqlite_master")
    if version == 0 and not is_empty:
        # another program may just have made the tables, at once with their version
        version = _version(connection)
    if version > VERSION:
        known = f"format {version}, this one knows {VERSION}"
        message = f"The saved runs at {path} were written by a newer Ammeter ({known})."
        remedy = "Use the newer Ammeter, or set AMMETER_HOME to another folder."
        raise ProblemError(_problem(message, remedy))
    if not is_empty and (version == 0 or _scalar(connection, "PRAGMA application_id") != APPLICATION_ID):
        raise ProblemError(_not_ours(path))


def _choose_journal(connection: sqlite3.Connection) -> tuple[str, ...]:
    """WAL, so that readers and the recorder never wait for each other; else a rollback journal."""
    try:
        mode = str(_scalar(connection, "PRAGMA journal_mode = WAL"))
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise
        mode = str(_scalar(connection, "PRAGMA journal_mode = DELETE"))
    if mode == "wal":
        # in WAL mode this loses nothing when the process is killed, and spares a flush at each commit
        connection.execute("PRAGMA synchronous = NORMAL")
        return ()
    return (
        "The file system of the saved runs refuses SQLite's write-ahead log (network folders often do);"
        " a rollback journal is used, which is slower.",
    )


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # another program may have been quicker while this one waited for the lock
        _check(connection, path)
        for script in MIGRATIONS[_version(connection) :]:
            for statement in script.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has rolled back by itself when the disk is full
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    return int(_scalar(connection, "PRAGMA user_version"))


def _scalar(connection: sqlite3.Connection, statement: str) -> Any:
    return connection.execute(statement).fetchone()[0]


def _not_ours(path: Path) -> Problem:
    return _problem(
        f"{path} is not a file of Ammeter's saved runs, or it is damaged.",
        "Move it away, or set AMMETER_HOME to another folder.",
    )


def _problem(message: str, remedy: str) -> Problem:
    return Problem(kind=Kind.STORE, message=message, remedy=remedy)
