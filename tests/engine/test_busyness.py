"""The load by other programs is reported before a run, and Ammeter's own is not."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from engine import __version__, busyness
from engine.busyness import Busyness, LoadMonitor, OtherPrograms, Usage
from engine.cli.app import main

GIB = 2**30
MEMORY = {"memory_bytes": 16 * GIB, "memory_left": Usage(8 * GIB)}


@pytest.mark.parametrize(
    ("seen", "reasons"),
    [
        (Busyness(Usage(0.1, "firefox"), **MEMORY), ()),
        (
            Busyness(Usage(0.45, "firefox"), **MEMORY),
            ("other programs use 45% of the CPU, mostly firefox",),
        ),
        (Busyness(Usage(0.45), **MEMORY), ("other programs use 45% of the CPU",)),
        (Busyness(Usage(0.45), **MEMORY, has_gpu=True), ()),
        (
            Busyness(Usage(0.6), **MEMORY, has_gpu=True, gpu_percent=Usage(80.0, "blender")),
            (
                "other programs use 60% of the CPU",
                "other programs keep the GPU 80% busy, mostly blender",
            ),
        ),
        (Busyness(has_gpu=True, gpu_percent=Usage(3.0), gpu_mib=Usage(300.0)), ()),
        (
            Busyness(has_gpu=True, gpu_mib=Usage(4_300.0, "python")),
            ("other programs use 4.2 GiB of GPU memory, mostly python",),
        ),
        (
            Busyness(memory_bytes=16 * GIB, memory_left=Usage(0.6 * GIB, "chrome")),
            ("only 614 MiB of 16.0 GiB of memory are free, mostly used by chrome",),
        ),
    ],
)
def test_what_would_spoil_a_measurement_is_a_reason(seen: Busyness, reasons: tuple[str, ...]) -> None:
    assert seen.reasons == reasons
    assert seen.sentence == (f"This machine is busy: {', and '.join(reasons)}." if reasons else "")


@pytest.mark.parametrize(
    ("readings", "share"),
    [
        (((10.0, 100.0, 1.0), (14.0, 108.0, 3.0)), 2 / 8),
        # what happens between two spans does not count
        (((0.0, 0.0, 0.0), (1.0, 4.0, 1.0), (50.0, 60.0, 1.0), (51.0, 64.0, 2.0)), 0.0),
        # a few ticks of the clock tell nothing
        (((0.0, 0.0, 0.0), (0.04, 0.05, 0.0)), 0.0),
    ],
)
def test_what_others_took_is_a_share_of_all_cores(monkeypatch, readings, share) -> None:
    left = list(readings)
    others = OtherPrograms()
    monkeypatch.setattr(others, "_read", lambda: left.pop(0))
    for is_on in (True, False) * (len(readings) // 2):
        others.count(is_on)
    assert others.share() == pytest.approx(share)


def scripted(monkeypatch: pytest.MonkeyPatch, *looks: dict[int, tuple[str, float, float]]) -> LoadMonitor:
    """A watch that sees these processes in turn: by pid a name, processor seconds and bytes."""
    left = [
        {(pid, 0.0): busyness._Process(*process) for pid, process in processes.items()} for processes in looks
    ]
    monkeypatch.setattr(busyness, "_processes", lambda: left.pop(0))
    return LoadMonitor()


def test_the_program_that_takes_most_is_named_by_all_of_its_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = os.getpid()
    watch = scripted(
        monkeypatch,
        {own: ("ammeter", 0.0, 1.0), 5: ("web", 50.0, 1.0), 6: ("web", 0.0, 1.0), 7: ("index", 0.0, 9.0)},
        {own: ("ammeter", 90.0, 99.0), 5: ("web", 51.0, 1.0), 6: ("web", 2.0, 1.0), 7: ("index", 2.0, 9.0)},
    )
    seen = watch.measure("cpu")
    assert seen.cpu.program == "web", "3 s of 5, of which none is this program's own"
    assert seen.memory_left.program == "index"


def test_nobody_is_named_where_many_share(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {pid: (f"program {pid}", 1.0, 1.0) for pid in range(2, 6)}
    watch = scripted(monkeypatch, dict.fromkeys(many, ("", 0.0, 1.0)), many)
    assert watch.measure("cpu").cpu.program is None


def test_a_thread_of_the_kernel_is_no_program_to_name(monkeypatch: pytest.MonkeyPatch) -> None:
    no_memory = psutil.Process().memory_info()._replace(rss=0, vms=0)

    def thread(seconds: float) -> object:
        times = psutil.Process().cpu_times()._replace(user=0.0, system=seconds)
        info = {"name": "kdamond.0", "create_time": 1.0, "cpu_times": times, "memory_info": no_memory}
        return SimpleNamespace(pid=7, info=info)

    looks = [thread(1.0), thread(9.0)]
    monkeypatch.setattr("engine.busyness.psutil.process_iter", lambda _wanted: iter([looks.pop(0)]))
    assert LoadMonitor().measure("cpu").cpu.program is None


def test_names_from_outside_cannot_steer_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Process:
        pid = 7
        info = {  # noqa: RUF012
            "name": "a\x1b[2Jb" + "c" * 100,
            "create_time": 1.0,
            "cpu_times": psutil.cpu_times(),
            "memory_info": psutil.Process().memory_info(),
        }

    monkeypatch.setattr("engine.busyness.psutil.process_iter", lambda _wanted: iter([Process()]))
    (found,) = busyness._processes().values()
    assert found.name.startswith("a[2Jbcc") and len(found.name) == 32


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    def take(share: float) -> None:
        monkeypatch.setattr(OtherPrograms, "share", lambda _self: share)

    return take


@pytest.mark.slow
def test_the_command_line_says_once_on_a_terminal_that_the_machine_is_busy(
    busy: Callable[[float], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    home: object,
) -> None:
    told = "This machine is busy: other programs use 62% of the CPU"
    asked = ["--preset", "hello-amp", "--device", "cpu", "--target", "thread", "--steps", "3"]
    busy(0.62)
    assert main(["run", *asked, "--json"]) == 0
    assert told not in capsys.readouterr().err
    with monkeypatch.context() as terminal:
        terminal.setattr(sys.stderr, "isatty", lambda: True)
        assert main(["run", *asked, "--json"]) == 0
        assert " ".join(capsys.readouterr().err.split()).count(told) == 1
        busy(0.02)
        assert main(["run", *asked]) == 0
        assert "This machine is busy" not in capsys.readouterr().err


ROOT = Path(__file__).parents[2]


def test_the_package_takes_its_version_from_the_engine() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "engine/__init__.py"


def test_the_newest_section_of_the_changelog_is_this_versions_and_all_others_are_released() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest, *others = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert re.fullmatch(rf"{re.escape(__version__)} - (unreleased|\d{{4}}-\d\d-\d\d)", newest)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", other) for other in others)
