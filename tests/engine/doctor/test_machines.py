"""The doctor on constructed machines: every mismatch is told in a sentence, with a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.doctor.doctor import (
    backend_in,
    compiler_check,
    desktop_checks,
    disk_check,
    engine_checks,
    libc_check,
    package_here,
    shared_memory_check,
    store_check,
    variable_checks,
)
from engine.experiment.problem import Kind, Problem
from engine.installation.hardware import Gpu, Hardware, Vendor
from engine.installation.installed import Engine, Installation, State
from engine.protocol.events import Check
from engine.store.store import Store
from tests.golden import Golden

CARD = Gpu(Vendor.NVIDIA, "NVIDIA GeForce RTX 4090", capability=(8, 9))
PASCAL = Gpu(Vendor.NVIDIA, "NVIDIA GeForce GTX 1080", capability=(6, 1))
ON_BOARD = Gpu(Vendor.INTEL, "Intel UHD Graphics 770")
BLACKWELL = Gpu(Vendor.NVIDIA, "NVIDIA B200", capability=(10, 0))


def machine(*gpus: Gpu, driver: str | None = "580.65") -> Hardware:
    return Hardware("linux", "x86_64", "AMD Ryzen 9", gpus, driver, driver and (13, 0), has_avx2=True)


def engine(backend: str) -> Engine:
    installation = Installation(
        name="a",
        torch=f"2.11.0+{backend}",
        backend=backend,
        python="3.12",
        platform="linux-x86_64",
        packages={"torchvision": "0.26.0"},
        files=1,
        size_bytes=1,
        made=0.0,
    )
    return Engine(State.READY, installation, Path("/packages"))


OLD = Hardware("linux", "x86_64", "Intel Core 2 Duo", has_avx2=False)
ABSENT = Engine(
    State.ABSENT, problem=Problem(kind=Kind.NO_ENGINE, message="It is not set up.", remedy="Set it up.")
)
ENGINES = {
    "it fits": (engine("cu130"), machine(CARD)),
    "an old driver": (engine("cu130"), machine(CARD, driver="550.54")),
    "an old GPU": (engine("cu130"), machine(PASCAL)),
    "an old GPU and one on board": (engine("cu130"), machine(PASCAL, ON_BOARD)),
    "a GPU too new": (engine("cu126"), machine(BLACKWELL)),
    "a build for CPUs": (engine("cpu"), machine(CARD)),
    "one of two GPUs is too old": (engine("cu132"), machine(CARD, PASCAL)),
    "no driver on Linux": (engine("cpu"), Hardware("linux", "x86_64", "AMD", (CARD,))),
    "no driver on Windows": (engine("cpu"), Hardware("win32", "x86_64", "AMD", (CARD,))),
    "an old CPU without PyTorch": (ABSENT, OLD),
}
WAYLAND = {"XDG_SESSION_TYPE": "wayland", "WAYLAND_DISPLAY": "wayland-0"}
BOTH = ("xcb", "wayland")
DESKTOPS = {
    "it fits": (WAYLAND, BOTH),
    "no plugin": (WAYLAND, ("xcb",)),
    "XWayland": ({**WAYLAND, "DISPLAY": ":0"}, ("xcb",)),
    "XWayland by choice": ({**WAYLAND, "DISPLAY": ":0", "QT_QPA_PLATFORM": "xcb"}, BOTH),
    "no Wayland display": ({"XDG_SESSION_TYPE": "wayland", "DISPLAY": ":0"}, BOTH),
    "scaled": ({"DISPLAY": ":0", "QT_SCALE_FACTOR": "1.5"}, BOTH),
    "scaled as in the past": ({"QT_AUTO_SCREEN_SCALE_FACTOR": "0"}, BOTH),
}


def surroundings(folder: Path) -> dict[str, Sequence[Check | None]]:
    """The checks of variables that point nowhere, and of what a container or an old system lacks."""
    (folder / "libcudnn.so.9").touch()
    (folder / "torch").mkdir()
    (folder / "file").touch()
    variables = {
        "AMMETER_HOME": str(folder / "gone"),
        "AMMETER_DATA": str(folder / "file"),
        "AMMETER_HOEM": "typed wrongly",
        "AMMETER_UV": str(folder / "no uv"),
        "CUDA_VISIBLE_DEVICES": "-1",
        "LD_LIBRARY_PATH": f"/nowhere:{folder}",
        "PYTHONPATH": str(folder),
    }
    nowhere = {"PATH": str(folder)}
    return {
        "variables": variable_checks(variables),
        "variables that fit": variable_checks({"AMMETER_HOME": str(folder), "PATH": "/usr/bin"}),
        "shared memory": [shared_memory_check(size) for size in (64 * 2**20, 2**33, None)],
        "glibc": [libc_check("linux", libc) for libc in (("glibc", "2.17"), ("", ""), ("glibc", "2.39"))],
        "libc of Windows": [libc_check("win32", ("", ""))],
        "compiler": [compiler_check(system, nowhere) for system in ("linux", "win32")],
        "a missing library": desktop_checks({"DISPLAY": ":0"}, "linux", BOTH, lambda _: ABSENT.problem),
    }


def test_the_words_of_each_check(tmp_path: Path, golden: Golden) -> None:
    cases: dict[str, Sequence[Check | None]] = {
        **{f"PyTorch: {name}": engine_checks(*case) for name, case in ENGINES.items()},
        **{
            f"Desktop: {name}": desktop_checks(environment, "linux", platforms, lambda _: None)
            for name, (environment, platforms) in DESKTOPS.items()
        },
        **surroundings(tmp_path),
    }
    lines: list[str] = []
    for name, checks in cases.items():
        lines += [f"## {name}", *map(check_text, checks), ""]
    golden("\n".join(lines), "checks")


def check_text(check: Check | None) -> str:
    if check is None:
        return "-"
    assert check.status == "ok" or check.detail.endswith(".")
    return f"{check.status}: {check.name}. {check.detail} {check.remedy}"


def test_a_disk_is_checked_where_its_folder_will_be(tmp_path: Path) -> None:
    statuses = [disk_check("Disk", tmp_path / "not made", need).status for need in (2.0**80, 0.0)]
    assert statuses[0] != "ok" == statuses[1] and not (tmp_path / "not made").exists()


@pytest.mark.parametrize(
    ("text", "backend"),
    [
        ("cuda: Optional[str] = '13.2'\nhip: Optional[str] = None", "cu132"),
        ("cuda = None\nhip = '6.4.1'", "rocm6.4"),
    ],
)
def test_the_build_is_read_from_torchs_own_description(tmp_path: Path, text: str, backend: str) -> None:
    (tmp_path / "version.py").write_text(f"__version__ = '2.11.0'\n{text}\n")
    assert backend_in(tmp_path / "version.py") == backend


def test_saved_runs_that_cannot_be_opened_are_told(tmp_path: Path) -> None:
    path = tmp_path / "ammeter.sqlite"
    Store(path).close()
    assert store_check(path).status == "ok"
    path.write_text("no store at all, but long enough to be looked at")
    assert store_check(path).status == "problem"


def test_how_the_program_was_installed_is_told(tmp_path: Path) -> None:
    app, prefix = tmp_path / "app", tmp_path / "python"
    for folder in (app, prefix):
        folder.mkdir()
    assert package_here(app, prefix) == "a Python package"
    (prefix / "uv-receipt.toml").touch()
    assert package_here(app, prefix) == "a Python package installed by uv or pipx"
    (prefix / "package.json").write_text('{"package": "deb", "version": "0.1.0"}')
    assert package_here(app, prefix) == "the .deb package"
    (app / "pyproject.toml").touch()
    assert package_here(app, prefix) == "a source checkout"
