"""Before Qt is asked: what a machine without a display or a library is told in place of an abort."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from engine.doctor.display import display_problem

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux desktops are asked")

ROOT = Path(__file__).parents[3]
NO_SUCH_DISPLAY = ":4242"
WHAT_IS_LOADED = """
import sys
from gui.__main__ import main
try:
    status = main()
except SystemExit as left:
    status = left.code
loaded = {name.partition(".")[0] for name in sys.modules} & {"torch", "PySide6", "pyqtgraph"}
sys.stderr.write(f"loaded: {sorted(loaded)}")
sys.exit(status)
"""


def environment(**more: str) -> dict[str, str]:
    chosen = (
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "WAYLAND_SOCKET",
        "QT_QPA_PLATFORM",
        "QT_QPA_PLATFORM_PLUGIN_PATH",
    )
    return {**{name: value for name, value in os.environ.items() if name not in chosen}, **more}


def ammeter(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return ended(["-m", "gui", *arguments], **more)


def ended(arguments: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_without_a_display_it_names_the_verbs_and_loads_nothing_of_qt_or_torch() -> None:
    told = ended(["-c", WHAT_IS_LOADED])
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith("No display was found") and "ammeter run" in told.stderr
    assert told.stderr.count("\n") == 1 and told.stderr.endswith("loaded: []")


@pytest.mark.slow
def test_a_verb_goes_to_the_command_line_and_loads_no_qt() -> None:
    told = ended(["-c", WHAT_IS_LOADED, "results", "--json"])
    assert told.returncode == 0
    assert json.loads(told.stdout) == {"runs": [], "sweeps": [], "studies": []}
    assert told.stderr.endswith("loaded: []")


def test_a_library_that_cannot_be_loaded_is_named_with_its_package(tmp_path: Path) -> None:
    (tmp_path / "libxcb-cursor.so.0").touch()
    told = ammeter(LD_LIBRARY_PATH=str(tmp_path), DISPLAY=NO_SUCH_DISPLAY)
    assert told.returncode == 1
    assert told.stderr.startswith("The window cannot be opened: Qt needs the system library lib")
    assert "Install" in told.stderr
    assert told.stderr.count("\n") == 1


def test_all_missing_libraries_are_named_at_once(tmp_path: Path) -> None:
    # Qt needs it, and cannot load this
    (tmp_path / "libEGL.so.1").touch()
    listing = tmp_path / "ldd"
    listing.write_text("#!/bin/sh\necho 'libEGL.so.1 => not found'\necho 'libxcb-cursor.so.0 => not found'\n")
    listing.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    told = ammeter(LD_LIBRARY_PATH=str(tmp_path), PATH=path, DISPLAY=NO_SUCH_DISPLAY)
    assert told.returncode == 1
    assert "the system libraries libEGL, libxcb-cursor." in told.stderr
    assert "apt install libegl1 libxcb-cursor0 (" in told.stderr
    assert told.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"DISPLAY": NO_SUCH_DISPLAY},
        {"WAYLAND_DISPLAY": "no-such-display"},
        {"QT_QPA_PLATFORM": "wayland-egl"},
    ],
    ids=lambda settings: " ".join(settings),
)
def test_a_display_that_cannot_be_had_is_told_in_one_line(settings: dict[str, str]) -> None:
    told = ammeter(**settings)
    # 1 where a library for that display is missing too
    assert told.returncode in (1, 2)
    assert told.stderr.count("\n") == 1
    assert "Traceback" not in told.stderr
    assert any(words in told.stderr for words in ("does not answer", "is not set", "no platform", "Install"))


def test_an_unknown_platform_is_told_with_those_there_are() -> None:
    problem = display_problem({"QT_QPA_PLATFORM": "no-such-platform"})
    if problem is None:
        pytest.skip("this Qt keeps its platforms elsewhere")
    assert "no-such-platform" in problem.message
    assert "offscreen" in problem.remedy


def test_a_wayland_display_that_answers_is_enough(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "wayland-7"))
        server.listen()
        there = {"XDG_RUNTIME_DIR": str(tmp_path), "WAYLAND_DISPLAY": "wayland-7", "DISPLAY": NO_SUCH_DISPLAY}
        problem = display_problem(there)
    assert problem is None or "Install" in problem.remedy


def test_offscreen_needs_no_display() -> None:
    assert display_problem({"QT_QPA_PLATFORM": "offscreen"}) is None
