"""Exported files that appear complete or not at all: written to a hidden folder, then moved into place.

The hidden folder is beside the destination. Folders left by killed programs are removed.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import hashlib
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from engine.experiment.paths import is_in_use
from engine.experiment.problem import Kind, Problem, ProblemError, request_error, request_problem
from engine.lazy_imports import psutil

_HOUR_SECONDS = 3600.0


def make_hidden_folder(folder: Path) -> Path:
    """Create a hidden folder in `folder`, named after this process. Raises OSError."""
    return Path(tempfile.mkdtemp(prefix=f".ammeter-{_host_digest()}-{os.getpid()}-", dir=folder))


def remove_leftovers(folder: Path) -> None:
    """Remove leftovers of killed programs of this machine and user that are over an hour old, if possible."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        stale = [entry.path for entry in entries if _is_stale(entry)]
        for path in stale:
            shutil.rmtree(path, ignore_errors=True)


def _is_stale(entry: os.DirEntry[str]) -> bool:
    name = _NAME.fullmatch(entry.name)
    if name is None or name["host"] != _host_digest() or not entry.is_dir(follow_symlinks=False):
        return False
    stat = entry.stat(follow_symlinks=False)
    is_own = not hasattr(os, "getuid") or stat.st_uid == os.getuid()
    is_old = time.time() - stat.st_mtime > _HOUR_SECONDS
    return is_own and is_old and not psutil.pid_exists(int(name["pid"]))


_NAME = re.compile(r"\.ammeter-(?P<host>[0-9a-f]{12})-(?P<pid>[0-9]{1,9})-\w+", re.ASCII)


def _host_digest() -> str:
    # the ids of processes mean nothing to other machines that share the folder
    return hashlib.sha256(socket.gethostname().encode("utf-8", "replace")).hexdigest()[:12]


class TakenError(ProblemError):
    """Raised if the file to write already exists and may not be replaced."""

    def __init__(self, path: Path) -> None:
        remedy = "Choose another name, or add --force to replace it."
        super().__init__(request_problem(f"{path} already exists.", remedy, key="to", value=path))


@contextmanager
def atomic_path(path: Path, *, force: bool = False) -> Iterator[Path]:
    """Yield a temporary path of the same name. Files written there, and next to it, are moved into place.

    On failure nothing is left behind and existing files stay. Without `force` they always stay, and Python
    modules next to the path even with it. In an existing folder only files of the same names are replaced.
    Raises ProblemError: kind REQUEST if another
    path is needed, DISK_FULL or STORE if the disk failed, TakenError if `force` would help.
    """
    check_free(path, force=force)
    remove_leftovers(path.parent)
    try:
        workplace = make_hidden_folder(path.parent)
    except OSError as error:
        raise ProblemError(_system_error_problem(error, path)) from None
    try:
        yield workplace / path.name
        _move(workplace, path, force)
    except OSError as error:
        raise ProblemError(_system_error_problem(error, path)) from error
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def check_free(path: Path, *, force: bool = False) -> None:
    """Raise ProblemError if `path` has no folder, or TakenError if only `force` would help."""
    folder = path.parent
    if not os.path.isdir(folder):  # noqa: PTH112 - Path raises for a name that is too long
        remedy = "Create it first, or choose another folder."
        raise request_error(f"The folder {folder} does not exist.", remedy, key="to", value=path)
    if not force and os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir())):
        raise TakenError(path)


def _move(workplace: Path, path: Path, force: bool) -> None:
    target = path.parent
    files = [file.relative_to(workplace) for file in sorted(workplace.rglob("*")) if file.is_file()]
    # the user may still be working on a module that is already there
    modules = [file for file in files if file.suffix == ".py" and file != Path(path.name)]
    for file in [file for file in modules if (target / file).is_file()]:
        if (target / file).read_bytes().removeprefix(codecs.BOM_UTF8) != (workplace / file).read_bytes():
            message = f"{target / file} already exists and differs from the module that the run used."
            raise request_error(message, "Choose another folder.", key="to", value=path)
        files.remove(file)
    for file in files:
        if not force and os.path.lexists(target / file):
            raise TakenError(target / file)
    undo: list[tuple[Path, Path | None]] = []
    with tempfile.TemporaryDirectory(prefix=".replaced-", dir=workplace) as kept:
        try:
            for number, file in enumerate(files):
                undo.append((target / file, _put_aside(target / file, Path(kept) / str(number))))
                _move_into_place(workplace / file, target / file, force)
        except BaseException as error:
            if isinstance(error, TakenError):
                # the file there is another program's
                undo.pop()
            for placed, replaced in reversed(undo):
                if replaced is not None:
                    replaced.replace(placed)
                else:
                    placed.unlink(missing_ok=True)
            raise


def _put_aside(file: Path, where: Path) -> Path | None:
    if not file.exists():
        return None
    # linked, not moved: the old file stays until the new one replaces it
    try:
        where.hardlink_to(file)
    except OSError:
        shutil.copy2(file, where)
    return where


def _move_into_place(file: Path, target: Path, force: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if force:
        file.replace(target)
        return
    try:
        # unlike renaming, this fails if another program has just made a file of that name
        target.hardlink_to(file)
    except FileExistsError:
        raise TakenError(target) from None
    except OSError:
        # a file system without hard links
        file.replace(target)


def _system_error_problem(error: OSError, path: Path) -> Problem:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        message = f"Could not write {path.name}: the disk is full."
        remedy = "Free some space, or choose another disk."
        return Problem(kind=Kind.DISK_FULL, message=message, remedy=remedy)
    if is_in_use(error):
        message = f"Could not replace {path.name}: it is open in another program."
        remedy = "Close it there, or choose another name."
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        message, remedy = f"No permission to write to {path.parent}.", "Choose another folder."
    elif error.errno == errno.ENAMETOOLONG:
        message, remedy = f"The name {path.name[:40]}… is too long for this disk.", "Choose a shorter one."
    else:
        reason = os.strerror(error.errno) if error.errno else str(error)
        message, remedy = f"Could not write {path}: {reason}.", "Choose another folder."
        return Problem(kind=Kind.STORE, message=message, remedy=remedy)
    return request_problem(message, remedy, key="to", value=path)


TEMPLATE_NAME = "my_model.py"


def write_template(path: Path, *, force: bool = False) -> Path:
    """Write the template as .py and return its path. Raises ProblemError, TakenError without `force`."""
    target = path.with_suffix(".py")
    text = (files("resources") / "template" / TEMPLATE_NAME).read_text(encoding="utf-8")
    with atomic_path(target, force=force) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return target
