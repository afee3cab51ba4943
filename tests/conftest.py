"""Every test has a home of its own, and leaves no process and no thread behind."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count, takewhile
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest
from _pytest.assertion import rewrite
from _pytest.logging import LogCaptureHandler, caplog_handler_key, catching_logs
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from engine.worker import site
from engine.worker.launcher import Launcher
from gui.session.garbage import collect_due
from tests.forked_workers import ForkServer, can_fork_workers

# before anything imports Qt: tests need no display
os.environ["QT_QPA_PLATFORM"] = "offscreen"
# before anything imports torch: models of this size gain nothing by threads, which wait for each other where
# other programs run too, and whose number would change the last bits
os.environ["OMP_NUM_THREADS"] = "1"
# every worker imports torch anew, which takes several times as long where nothing compiled is kept
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# what is logged where no handler listens would be printed
logging.getLogger().addHandler(logging.NullHandler())

# a busy machine is slow, which is no fault of what is tested
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=25
)
settings.load_profile("any machine")
# looking for numbers and texts in all source takes seconds in each worker
providers._get_local_constants = lambda: providers._local_constants

pytest_plugins = [
    "tests.golden",
    "tests.remote",
    "tests.slurm",
    "tests.profiles",
    "tests.installations",
    "tests.gpu_plugin",
]

_MIB_SIDE_BY_SIDE = 3_000
"""What tests take that run beside others, with the processes that they start."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return three for two cores, as tests often wait for processes, as far as memory goes.

    None for files or tests that somebody names.
    """
    named = filter(None, config.invocation_params.args)
    if any(Path(argument.partition("::")[0]).exists() for argument in named):
        return 0
    room = psutil.virtual_memory().available // 2**20 // _MIB_SIDE_BY_SIDE
    return max(1, min((os.cpu_count() or 1) * 3 // 2, room))


def pytest_configure(config: pytest.Config) -> None:
    """Rewrite a share of the asserts, and leave the rest to the other workers, before all of them collect."""
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if not worker:
        return
    first, state = int(worker["workerid"].removeprefix("gw")), config.stash.get(rewrite.assertstate_key, None)
    if state is None:  # with --assert=plain
        return
    for path in sorted(Path(__file__).parent.rglob("test_*.py"))[first :: worker["workercount"]]:
        folder = rewrite.get_cache_dir(path)
        cached = folder / (path.stem + rewrite.PYC_TAIL)
        if rewrite.try_makedirs(folder) and rewrite._read_pyc(path, cached) is None:
            with suppress(SyntaxError, OSError):  # collecting it tells why
                source_hash, code = rewrite._rewrite_test(path, config)
                rewrite._write_pyc(state, code, source_hash, cached)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What collecting has loaded stays: looking through it for garbage again and again takes minutes."""
    gc.collect()
    gc.freeze()
    gc.disable()


def pytest_runtest_logfinish() -> None:
    """As in the window: a thread that collects garbage by itself would delete widgets that are in use."""
    collect_due()


def pytest_unconfigure() -> None:
    """Libraries that end with the process count what they take for leaks."""
    gc.enable()
    gc.unfreeze()


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """As pytest's own, which reads the names of all folders of earlier tests to find the next number."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(_numbers)}"
    folder.mkdir(mode=0o700)
    return folder


_numbers = count()


@pytest.fixture
def caplog(request: pytest.FixtureRequest) -> Iterator[pytest.LogCaptureFixture]:
    """As pytest's own, which goes through the loggers of all libraries six times in every test."""
    with catching_logs(LogCaptureHandler(), level=0) as handler:
        request.node.stash[caplog_handler_key] = handler
        log = pytest.LogCaptureFixture(request.node, _ispytest=True)
        yield log
        log._finalize()


@pytest.fixture(autouse=True)
def where_it_was(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A model's own file moves its process to its folder and serves its modules: both are undone."""
    folder, last = Path.cwd(), next(reversed(sys.modules))
    yield
    os.chdir(folder)
    # libraries have finders too, which must stay
    ours = ("_KeptModules", "_NotKeptModules")
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ not in ours]
    temporary = str(tmp_path_factory.getbasetemp())
    for name in [*takewhile(lambda name: name != last, reversed(sys.modules))]:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(temporary):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh AMMETER_HOME, AMMETER_DATA and AMMETER_ENGINE: no test sees a person's runs or another's.

    Nor what is kept beside a person's settings, which AMMETER_HOME does not move.
    """
    folder = tmp_path / "home"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("AMMETER_HOME", str(folder))
    monkeypatch.setenv("AMMETER_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AMMETER_ENGINE", str(tmp_path / "engine"))
    return folder


@pytest.fixture(scope="session")
def qapp_cls() -> type[Any]:
    """The tests' application is the program's own."""
    from gui.window.app import Application

    return Application


@pytest.fixture
def program() -> Callable[[str], Path]:
    """Finds a program by name. Without it the test is skipped, or fails where AMMETER_ALL_TESTS is set."""

    def find(name: str) -> Path:
        found = shutil.which(name)
        if found is not None:
            return Path(found)
        reason = f"{name} is not installed; .ci/run names the packages"
        if os.environ.get("AMMETER_ALL_TESTS"):
            pytest.fail(reason)
        pytest.skip(reason)

    return find


@pytest.fixture
def read_only() -> Callable[[Path], AbstractContextManager[None]]:
    """Keeps a folder and the files in it from being written while the context is open, by root too."""
    if os.name != "posix" or (os.geteuid() == 0 and sys.platform != "linux"):
        pytest.skip("needs permissions that hold for whoever runs the tests")

    @contextmanager
    def make(folder: Path) -> Iterator[None]:
        paths = (folder, *folder.iterdir())
        before = [path.stat().st_mode for path in paths]
        for path in paths:
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            with _bound_by_permissions():
                yield
        finally:
            for path, mode in zip(paths, before, strict=True):
                if path.exists():
                    path.chmod(mode)

    return make


@contextmanager
def _bound_by_permissions() -> Iterator[None]:
    """Takes from root, in this thread, what lets it write where nobody may (CAP_DAC_OVERRIDE, which is 1)."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    effective = sets[0]
    try:
        sets[0] = effective & ~(1 << 1)
        assert libc.capset(header, sets) == 0
        yield
    finally:
        sets[0] = effective
        libc.capset(header, sets)


@pytest.fixture(autouse=True)
def nothing_left_running(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves a child process or a thread that would keep the interpreter alive."""
    children_before = _children()
    threads_before = set(threading.enumerate())
    yield
    left = _own_children() - children_before
    if left:
        _, alive = psutil.wait_procs(left, timeout=5)
        assert not alive, f"left running: {[' '.join(process.cmdline()) for process in alive]}"
    threads = [
        thread
        for thread in set(threading.enumerate()) - threads_before
        if not thread.daemon and thread.is_alive()
    ]
    assert not threads, f"left running: {threads}"


_server = ForkServer(site._started)


@pytest.fixture(scope="session", autouse=True)
def forked_workers() -> Iterator[None]:
    """Workers are forked from a process that has imported torch, where that is as good as starting them."""
    if not can_fork_workers():
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "_started", _server.start)
        yield
    _server.close()


@pytest.fixture
def start_script() -> Callable[[Path, dict[str, str]], subprocess.Popen[bytes]]:
    """Starts a script that trains in a process with this environment, forked where that is as good."""
    if can_fork_workers():
        return _server.start_script

    def start(path: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen([sys.executable, str(path)], env=environment, **pipes)

    return start


@pytest.fixture
def start_program(
    start_script: Callable[[Path, dict[str, str]], subprocess.Popen[bytes]], tmp_path: Path
) -> Callable[..., subprocess.Popen[bytes]]:
    """Starts the command line with these arguments, as a script; its process runs the Python `first`."""

    def start(*arguments: str, first: str = "") -> subprocess.Popen[bytes]:
        script = tmp_path / "program.py"
        script.write_text(
            f"import runpy, sys\n{first}\nsys.argv[1:] = {list(arguments)!r}\n"
            "runpy.run_module('engine', run_name='__main__', alter_sys=True)\n"
        )
        return start_script(script, dict(os.environ))

    return start


class SharedLauncher(Launcher):
    """Keeps its idle workers between tests, since each of them takes seconds to import torch."""

    def close(self) -> None:
        """Nothing: the session ends them."""

    def end(self) -> None:
        for worker in self._idle.values():
            worker.discard()

    def _end(self, which: Literal["spare", "light"]) -> None:
        # an idle light worker disturbs no test, and no test measures
        if which == "spare":
            super()._end(which)


_shared: list[SharedLauncher] = []


def shared_worker_pids() -> frozenset[int]:
    """The processes that the session ends itself."""
    idle = {pid for launcher in _shared for pid in launcher.idle_worker_pids}
    return frozenset(idle | _server.pids)


@pytest.fixture(scope="session")
def shared_launcher() -> Iterator[SharedLauncher]:
    launcher = SharedLauncher()
    _shared.append(launcher)
    yield launcher
    launcher.end()


@pytest.fixture
def launcher(shared_launcher: SharedLauncher) -> SharedLauncher:
    """A launcher with a spare at the ready, shared by all tests: not for those that measure."""
    shared_launcher.prepare()
    return shared_launcher


@pytest.fixture
def own_children() -> Callable[[], set[psutil.Process]]:
    """The processes that the test itself has started, with theirs."""
    return _own_children


def _own_children() -> set[psutil.Process]:
    return {child for child in _children() if child.pid not in shared_worker_pids()}


def _children() -> set[psutil.Process]:
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        return set(psutil.Process().children(recursive=True))
    # psutil would read the state of every process of the machine, twice in each of thousands of tests
    found: set[psutil.Process] = set()
    pids = [os.getpid()]
    while pids:
        # a process or a thread may end meanwhile
        with suppress(OSError):
            for thread in os.scandir(f"/proc/{pids.pop()}/task"):
                with suppress(OSError):
                    children = [int(pid) for pid in Path(thread.path, "children").read_text().split()]
                    pids += children
                    for pid in children:
                        with suppress(psutil.NoSuchProcess):
                            found.add(psutil.Process(pid))
    return found
