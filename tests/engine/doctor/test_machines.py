"""The doctor on constructed machines: every mismatch is told in a sentence, with a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.doctor.doctor import backend_in, desktop_checks, engine_checks
from engine.doctor.surroundings import (
    compiler_check,
    disk_check,
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


def wrong(checks: Sequence[Check | None]) -> list[Check]:
    found = [check for check in checks if check is not None and check.status != "ok"]
    for check in found:
        assert check.detail.endswith(".") and (check.remedy.endswith((".", "?")) or check.status == "note")
    return found


def test_a_machine_whose_engine_fits_has_nothing_wrong() -> None:
    checks = engine_checks(engine("cu130"), machine(CARD))
    assert not wrong(checks)
    told = " ".join(check.detail for check in checks)
    assert "PyTorch 2.11.0+cu130, torchvision 0.26.0" in told
    assert "RTX 4090 (compute capability 8.9), driver 580.65 for CUDA up to 13.0" in told


@pytest.mark.parametrize(
    ("backend", "hardware", "sentence", "instead"),
    [
        ("cu130", machine(CARD, driver="550.54"), "Version 550.54 is installed", "cu128"),
        ("cu130", machine(PASCAL), "older than the GPUs", "cu126"),
        ("cu130", machine(PASCAL, ON_BOARD), "older than the GPUs", "cu126"),
        ("cu126", machine(BLACKWELL), "newer than the GPUs", "cu132"),
        ("cpu", machine(CARD), "although CUDA 13.2 fits", "cu132"),
    ],
)
def test_a_build_that_does_not_fit_names_the_one_that_does(backend, hardware, sentence, instead):
    (check,) = wrong(engine_checks(engine(backend), hardware))
    assert check.status == "problem" and sentence in check.detail
    assert f"ammeter engine install --backend {instead}" in check.remedy


def test_a_second_card_that_the_build_does_not_serve_is_no_problem() -> None:
    assert not wrong(engine_checks(engine("cu132"), machine(CARD, PASCAL)))


@pytest.mark.parametrize(("system", "remedy"), [("linux", "apt install"), ("win32", "nvidia.com")])
def test_a_card_without_its_driver_is_told(system: str, remedy: str) -> None:
    (check,) = wrong(engine_checks(engine("cpu"), Hardware(system, "x86_64", "AMD", (CARD,))))
    assert CARD.name in check.detail and remedy in check.remedy


def test_an_old_processor_and_an_absent_engine_are_told() -> None:
    old = Hardware("linux", "x86_64", "Intel Core 2 Duo", has_avx2=False)
    absent = Problem(kind=Kind.NO_ENGINE, message="It is not set up.", remedy="Set it up.")
    missing, processor, _ = wrong(engine_checks(Engine(State.ABSENT, problem=absent), old))
    assert (missing.detail, missing.remedy) == (absent.message, absent.remedy)
    assert "AVX2" in processor.detail


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


WAYLAND = {"XDG_SESSION_TYPE": "wayland", "WAYLAND_DISPLAY": "wayland-0"}
BOTH = ("xcb", "wayland")


@pytest.mark.parametrize(
    ("environment", "platforms", "status", "sentence"),
    [
        (WAYLAND, ("xcb",), "problem", "no plugin for Wayland"),
        ({**WAYLAND, "DISPLAY": ":0"}, ("xcb",), "note", "uses XWayland"),
        ({**WAYLAND, "DISPLAY": ":0", "QT_QPA_PLATFORM": "xcb"}, BOTH, "note", "QT_QPA_PLATFORM is xcb"),
        ({"XDG_SESSION_TYPE": "wayland", "DISPLAY": ":0"}, BOTH, "note", "WAYLAND_DISPLAY is not set"),
        ({"DISPLAY": ":0", "QT_SCALE_FACTOR": "1.5"}, BOTH, "note", "QT_SCALE_FACTOR is set to 1.5"),
        ({"QT_AUTO_SCREEN_SCALE_FACTOR": "0"}, BOTH, "note", "older versions of Qt"),
    ],
)
def test_a_desktop_that_spoils_the_window_is_told(environment, platforms, status, sentence):
    (check,) = wrong(desktop_checks(environment, "linux", platforms, lambda _: None))
    assert check.status == status and sentence in check.detail


def test_a_sound_desktop_is_told_and_a_missing_library_is_a_problem() -> None:
    (sound,) = desktop_checks(WAYLAND, "linux", BOTH, lambda _: None)
    assert sound.status == "ok"
    library = Problem(kind=Kind.INTERNAL, message="Qt needs libEGL.", remedy="Install it.")
    (check,) = wrong(desktop_checks({"DISPLAY": ":0"}, "linux", BOTH, lambda _: library))
    assert (check.status, check.remedy) == ("problem", "Install it.")


def test_variables_that_point_nowhere_and_paths_that_shadow_are_told(tmp_path: Path) -> None:
    (tmp_path / "libcudnn.so.9").touch()
    (tmp_path / "torch").mkdir()
    file = tmp_path / "file"
    file.touch()
    environment = {
        "AMMETER_HOME": str(tmp_path / "gone"),
        "AMMETER_DATA": str(file),
        "AMMETER_HOEM": "typed wrongly",
        "AMMETER_UV": str(tmp_path / "no uv"),
        "CUDA_VISIBLE_DEVICES": "-1",
        "LD_LIBRARY_PATH": f"/nowhere:{tmp_path}",
        "PYTHONPATH": str(tmp_path),
    }
    told = " ".join(f"{check.detail} {check.remedy}" for check in wrong(variable_checks(environment)))
    for words in (
        f"{tmp_path / 'gone'}, which does not exist",
        f"AMMETER_DATA is {file}, where no folder",
        "Did you mean AMMETER_HOME?",
        "which is not a file",
        "hides all GPUs",
        "libcudnn.so.9 may be loaded",
        "whose torch is imported",
    ):
        assert words in told
    assert not variable_checks({"AMMETER_HOME": str(tmp_path), "PATH": "/usr/bin"})


def test_what_a_container_or_an_old_system_lacks_is_told(tmp_path: Path) -> None:
    assert "64 MiB" in wrong([shared_memory_check(64 * 2**20)])[0].detail
    assert shared_memory_check(2**33) is None and shared_memory_check(None) is None
    assert "glibc 2.17" in wrong([libc_check("linux", ("glibc", "2.17"))])[0].detail
    assert "other than glibc" in wrong([libc_check("linux", ("", ""))])[0].detail
    assert libc_check("linux", ("glibc", "2.39")) is None and libc_check("win32", ("", "")) is None
    assert "apt install" in wrong([compiler_check("linux", {"PATH": str(tmp_path)})])[0].remedy
    assert "Visual Studio" in wrong([compiler_check("win32", {"PATH": str(tmp_path)})])[0].remedy
    assert wrong([disk_check("Disk", tmp_path / "not made", 2.0**80)])
    assert not wrong([disk_check("Disk", tmp_path / "not made", 0.0)])
    assert not (tmp_path / "not made").exists()


def test_saved_runs_that_cannot_be_opened_are_told(tmp_path: Path) -> None:
    path = tmp_path / "ammeter.sqlite"
    Store(path).close()
    assert store_check(path).status == "ok"
    path.write_text("no store at all, but long enough to be looked at")
    (check,) = wrong([store_check(path)])
    assert check.status == "problem"


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
