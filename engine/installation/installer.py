"""Installs PyTorch: resolves it, lets uv download and unpack it, tries it, and only then uses it."""

from __future__ import annotations

import re
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import closing
from pathlib import Path
from typing import Protocol

from engine.experiment.paths import write_whole
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.installation.description import Description, description_here
from engine.installation.installed import (
    CURRENT,
    MANIFEST,
    PACKAGES,
    ROOM,
    Current,
    Installation,
    broken,
    cache_folder,
    current_name,
    engines_folder,
    find_missing_file,
    folder_size,
    installation_folder,
    installations_folder,
    is_in_use,
    platform_here,
    python_here,
    sole,
    writing,
)
from engine.installation.plan import lock_file, make_plan, source_options
from engine.installation.request import (
    Fetched,
    Installed,
    InstallEvent,
    InstallPlan,
    InstallRequest,
    Planned,
    Stage,
    StageBegan,
    Stopped,
)
from engine.installation.uv import run_uv
from engine.words.numbers import size_text

_EACH_SECONDS = 0.3
_MOST_NAMES = 3


class Installs(Protocol):
    """Interface of a local or remote installer, for one call. Any thread may call `stop`."""

    def describe(self) -> Description: ...
    def plan(self, wanted: InstallRequest) -> InstallPlan: ...
    def install(self, wanted: InstallRequest) -> Iterator[InstallEvent]: ...
    def stop(self) -> None: ...


class Installer:
    """Installs PyTorch once, into `folder` (by default the user's). Any thread may call `stop`.

    `try_out` raises ProblemError for packages that do not work. `stop` ends uv at once. The next attempt
    continues with the packages that uv has in its cache.
    """

    def __init__(self, folder: Path | None, try_out: Callable[[Path], None]) -> None:
        self._folder, self._try_out = folder or engines_folder(), try_out
        self._is_stopped = threading.Event()
        self.stop = self._is_stopped.set

    def describe(self) -> Description:
        """Describe this machine and its PyTorch. This may take a few seconds."""
        return description_here()

    def plan(self, wanted: InstallRequest) -> InstallPlan:
        """Resolve a request. Raises ProblemError, Stopped."""
        return make_plan(wanted, self._folder, self._is_stopped.is_set)

    def install(self, wanted: InstallRequest) -> Iterator[InstallEvent]:
        """Install, and reuse the packages of an earlier attempt. Ends without `Installed` if it is stopped.

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
        plan = self.plan(wanted)
        yield Planned(plan)
        self._check()
        yield StageBegan(Stage.FETCHING)
        # short, since Windows takes paths of 260 characters, of which torch's own files need 126
        place = installation_folder(self._folder, secrets.token_hex(4))
        try:
            yield from self._fetch(plan, place / PACKAGES)
            yield StageBegan(Stage.TRYING)
            self._try_out_packages(plan, place / PACKAGES)
            installation = _describe(plan, place)
            with writing(self._folder):
                write_whole(place / MANIFEST, installation.model_dump_json(indent=1))
                write_whole(self._folder / CURRENT, Current(name=place.name).model_dump_json())
        finally:
            _remove_unused(self._folder)
        shutil.rmtree(cache_folder(self._folder), ignore_errors=True)
        yield Installed(installation)

    def _fetch(self, plan: InstallPlan, packages: Path) -> Iterator[Fetched]:
        """Download, verify and unpack the packages, which uv does at the same time in its cache."""
        cache, source = cache_folder(self._folder), plan.wanted.source
        lock = lock_file(self._folder, source)
        self._make_room(plan)
        with writing(self._folder):
            cache.mkdir(parents=True, exist_ok=True)
            write_whole(lock, plan.lock)
        arguments = ["pip", "install", "-r", str(lock), "--no-deps", "--python", sys.executable]
        arguments += ["--link-mode", "hardlink", "--target", str(packages), *source_options(source)]
        indexes = [source.mirror] if source.mirror is not None else []
        before, began = folder_size(cache)[1] - plan.kept_bytes, time.monotonic()
        with closing(run_uv(arguments, source, indexes=indexes, cache=cache)) as running:
            for said in running:
                self._check()
                done = folder_size(cache)[1] - before
                yield _progress(plan, done, time.monotonic() - began, said)

    def _try_out_packages(self, plan: InstallPlan, packages: Path) -> None:
        missing = find_missing_file(packages, {package.name: package.version for package in plan.packages})
        if missing is not None:
            # of a crash in an earlier attempt: uv keeps no record of files
            shutil.rmtree(cache_folder(self._folder), ignore_errors=True)
            problem = broken(missing).model_copy(update={"remedy": "Start the installation again."})
            raise ProblemError(problem)
        trial = _start_in_thread(lambda: self._try_out(packages))
        while not wait([trial], _EACH_SECONDS).done:
            # a worker that is left to itself ends with its step, or with this process
            self._check()
        trial.result()
        self._check()

    def _check(self) -> None:
        if self._is_stopped.is_set():
            raise Stopped

    def _make_room(self, plan: InstallPlan) -> None:
        """Remove the packages of another plan if their space is needed. Raises ProblemError."""
        if plan.needed_bytes > shutil.disk_usage(self._folder).free and not plan.kept_bytes:
            shutil.rmtree(cache_folder(self._folder), ignore_errors=True)
        free_bytes = shutil.disk_usage(self._folder).free
        if plan.needed_bytes > free_bytes:
            needed, free = (size_text(count) for count in (plan.needed_bytes, free_bytes))
            message = f"PyTorch needs {needed}, but only {free} are free at {self._folder}."
            raise ProblemError(Problem(kind=Kind.DISK_FULL, message=message, remedy=ROOM))


def _progress(plan: InstallPlan, done_bytes: int, seconds: float, said: str) -> Fetched:
    """Return the progress after `seconds`. uv lists each large package as it starts and as it ends."""
    ended = re.findall(r"^ Downloaded (\S+)", said, re.MULTILINE)
    names = dict.fromkeys(re.findall(r"^Downloading (\S+)", said, re.MULTILINE))
    current = [name for name in names if name not in ended]
    total, new = plan.unpacked_bytes, done_bytes - plan.kept_bytes
    left = None
    if total is not None and new > 0 and seconds > _LEAST_SECONDS:
        left = max(total - done_bytes, 0) * seconds / new
    # an estimate may be too small
    total = None if total is None else max(total, done_bytes)
    return Fetched(max(done_bytes, 0), total, left, ", ".join(current[:_MOST_NAMES]))


_LEAST_SECONDS = 3.0


def remove(folder: Path | None = None) -> int:
    """Remove PyTorch with all downloads, and return the number of freed bytes.

    An installation that a worker uses is removed at the next start. Raises ProblemError.
    """
    folder = folder or engines_folder()
    if not folder.is_dir():
        return 0
    with sole(folder):
        before = folder_size(folder)[1]
        with writing(folder):
            (folder / CURRENT).unlink(missing_ok=True)
        _remove_unused(folder)
        shutil.rmtree(cache_folder(folder), ignore_errors=True)
        return before - folder_size(folder)[1]


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
    # of wheels that uv had not finished
    for part in cache_folder(folder).glob(".tmp*"):
        shutil.rmtree(part, ignore_errors=True)
    with writing(folder):
        for place in _unused(folder):
            if not is_in_use(place):
                shutil.rmtree(place, ignore_errors=True)


def has_leftovers(folder: Path | None = None) -> bool:
    """Return True if there are installations that are not current. Raises ProblemError."""
    folder = folder or engines_folder()
    with writing(folder):
        return bool(_unused(folder))


def _unused(folder: Path) -> list[Path]:
    installations = installations_folder(folder)
    if not installations.is_dir():
        return []
    current = current_name(folder)
    return [place for place in installations.iterdir() if place.name != current]


def _describe(plan: InstallPlan, place: Path) -> Installation:
    files, size_bytes = folder_size(place)
    return Installation(
        name=place.name,
        torch=plan.torch,
        backend=plan.backend,
        python=python_here(),
        platform=platform_here(),
        packages={package.name: package.version for package in plan.packages},
        files=files,
        size_bytes=size_bytes,
        made=time.time(),
    )


def _start_in_thread(function: Callable[[], object]) -> Future[object]:
    future: Future[object] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
