"""Installs PyTorch: resolves, downloads, unpacks and tries it, and only then uses it."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack
from pathlib import Path

from engine.experiment.paths import plain_file, write_whole
from engine.experiment.problem import Kind, Problem, ProblemError, request_error
from engine.experiment.value import BYTES_PER_MIB
from engine.installation import problems
from engine.installation.control import Control, Stopped, is_in_use, sole
from engine.installation.download import Downloads, wheel_path
from engine.installation.installed import (
    CURRENT,
    MANIFEST,
    PACKAGES,
    Current,
    Installation,
    current_name,
    downloads_folder,
    engines_folder,
    installation_folder,
    installations_folder,
    platform_here,
    python_here,
)
from engine.installation.plan import make_plan
from engine.installation.request import (
    Installed,
    InstallEvent,
    InstallRequest,
    Plan,
    Planned,
    Stage,
    StageBegan,
    Unpacked,
)
from engine.installation.uv import run_uv
from engine.words.numbers import memory_text

_EVENT_SECONDS = 0.3
_CACHE = "uv"  # uv's, in an installation's folder while it is unpacked: files are linked from it, not copied


class Installer:
    """Installs PyTorch once, into `folder` (by default the user's). Any thread may control it.

    `try_out` raises ProblemError for packages that do not work. `pause` pauses the download or waits before
    the next stage, and `stop` keeps the downloaded files.
    """

    def __init__(self, folder: Path | None, try_out: Callable[[Path], None]) -> None:
        self._folder, self._try_out = folder or engines_folder(), try_out
        self._control = control = Control()
        self.pause, self.resume, self.stop = control.pause, control.resume, control.stop

    def install(self, wanted: InstallRequest) -> Iterator[InstallEvent]:
        """Install, and reuse the files of an earlier attempt. Ends without `Installed` if it is stopped.

        The installation in use stays in use until the new one has trained a step. Raises ProblemError.
        """
        try:
            with sole(self._folder):
                yield from self._install(wanted)
        except Stopped:
            return

    def _install(self, wanted: InstallRequest) -> Iterator[InstallEvent]:
        _remove_unused(self._folder)
        yield StageBegan(Stage.RESOLVING)
        plan = make_plan(wanted, self._folder, lambda: self._control.is_stopped)
        yield Planned(plan)
        self._control.check()
        yield StageBegan(Stage.FETCHING)
        self._require_space(plan.needed_bytes - plan.fetched_bytes)
        downloads = downloads_folder(self._folder)
        yield from Downloads(plan, downloads, self._control).fetch()
        self._control.check()
        # short, since Windows takes paths of 260 characters, of which torch's own files need 126
        name = secrets.token_hex(4)
        place = installation_folder(self._folder, name)
        with ExitStack() as cleaning:
            cleaning.callback(shutil.rmtree, place, ignore_errors=True)
            yield StageBegan(Stage.UNPACKING)
            yield from self._unpack([wheel_path(wheel, downloads) for wheel in plan.wheels], place)
            self._control.check()
            yield StageBegan(Stage.TRYING)
            trial = _begun(lambda: self._try_out(place / PACKAGES))
            while not wait([trial], _EVENT_SECONDS).done:
                # a worker that is left to itself ends with its step, or with this process
                self._control.sleep(0)
            trial.result()
            installation = _describe(plan, place)
            with problems.writing(self._folder):
                write_whole(place / MANIFEST, installation.model_dump_json(indent=1))
            cleaning.pop_all()
        with problems.writing(self._folder):
            write_whole(self._folder / CURRENT, Current(name=name).model_dump_json())
        _remove_unused(self._folder)
        shutil.rmtree(downloads, ignore_errors=True)
        yield Installed(installation)

    def _unpack(self, wheels: list[Path], place: Path) -> Iterator[Unpacked]:
        total = _unpacked_bytes(wheels)
        self._require_space(total)
        cache, packages = place / _CACHE, place / PACKAGES
        with problems.writing(self._folder):
            packages.mkdir(parents=True)
        arguments = ["pip", "install", "--python", sys.executable, "--no-index", "--no-deps"]
        arguments += ["--link-mode", "hardlink", "--target", str(packages), *map(str, wheels)]
        is_left = threading.Event()
        work = _begun(lambda: run_uv(arguments, cache=cache, is_stopped=is_left.is_set))
        try:
            while not wait([work], _EVENT_SECONDS).done:
                self._control.sleep(0)
                yield Unpacked(min(_size(cache)[1], total), total)
            work.result()
        finally:
            is_left.set()
            wait([work])
        shutil.rmtree(cache, ignore_errors=True)
        yield Unpacked(total, total)

    def _require_space(self, needed_bytes: int) -> None:
        free_bytes = shutil.disk_usage(self._folder).free
        if needed_bytes > free_bytes:
            needed, free = (memory_text(count / BYTES_PER_MIB) for count in (needed_bytes, free_bytes))
            message = f"PyTorch needs {needed}, but only {free} are free at {self._folder}."
            raise ProblemError(Problem(kind=Kind.DISK_FULL, message=message, remedy=problems.ROOM))


def remove(folder: Path | None = None) -> int:
    """Remove PyTorch with all downloads, and return the number of freed bytes.

    An installation that a worker uses is removed at the next start. Raises ProblemError.
    """
    folder = folder or engines_folder()
    if not folder.is_dir():
        return 0
    with sole(folder):
        before = _size(folder)[1]
        with problems.writing(folder):
            (folder / CURRENT).unlink(missing_ok=True)
        _remove_unused(folder)
        shutil.rmtree(downloads_folder(folder), ignore_errors=True)
        return before - _size(folder)[1]


def remove_leftovers(folder: Path | None = None) -> None:
    """Remove unused installations at the start of Ammeter, unless PyTorch is being installed."""
    folder = folder or engines_folder()
    if folder.is_dir():
        try:
            with sole(folder):
                _remove_unused(folder)
        except ProblemError:
            # another Ammeter is using it, or the folder is unusable: a start cannot fix either
            return


def _remove_unused(folder: Path) -> None:
    with problems.writing(folder):
        for place in _unused(folder):
            if not is_in_use(place):
                shutil.rmtree(place, ignore_errors=True)


def has_leftovers(folder: Path | None = None) -> bool:
    """Return True if there are installations that are not current. Raises ProblemError."""
    folder = folder or engines_folder()
    with problems.writing(folder):
        return bool(_unused(folder))


def _unused(folder: Path) -> list[Path]:
    installations = installations_folder(folder)
    if not installations.is_dir():
        return []
    current = current_name(folder)
    return [place for place in installations.iterdir() if place.name != current]


def _describe(plan: Plan, place: Path) -> Installation:
    files, size_bytes = _size(place)
    return Installation(
        name=place.name,
        torch=plan.torch,
        backend=plan.backend,
        python=python_here(),
        platform=platform_here(),
        packages={wheel.name: wheel.version for wheel in plan.wheels},
        files=files,
        size_bytes=size_bytes,
        made=time.time(),
    )


def _unpacked_bytes(wheels: list[Path]) -> int:
    total = 0
    for wheel in wheels:
        try:
            with open(wheel, "rb", opener=plain_file) as file, zipfile.ZipFile(file) as archive:
                total += sum(member.file_size for member in archive.infolist())
        except (OSError, zipfile.BadZipFile) as error:
            message, remedy = f"{wheel.name} cannot be read: {error}.", "Remove the file and start again."
            raise request_error(message, remedy, value=wheel) from error
    return total


def _size(folder: Path) -> tuple[int, int]:
    files = size_bytes = 0
    seen: set[int] = set()
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(os.path.join(parent, name))  # noqa: PTH118 - of twenty thousand files
            except OSError:
                # uv moves them at the same time
                continue
            if status.st_ino not in seen:
                seen.add(status.st_ino)
                files, size_bytes = files + 1, size_bytes + status.st_size
    return files, size_bytes


def _begun(function: Callable[[], object]) -> Future[object]:
    future: Future[object] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
