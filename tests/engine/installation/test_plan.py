"""What would be fetched, as real uv resolves it against an index on the loopback."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.experiment.problem import ProblemError
from engine.installation import plan as plan_module
from engine.installation.builds import builds_for
from engine.installation.hardware import Gpu, Hardware, Vendor
from engine.installation.plan import REQUIREMENTS, make_plan
from engine.installation.request import InstallPlan, InstallRequest, Source
from tests.wheel_index import Fault, OfficialIndexes, WheelIndex, stand_in_wheel


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """PyPI's wheels of a small torch, and PyTorch's builds of it for a processor and for CUDA 13.0."""
    folder = tmp_path / "wheels"
    needs = ["numpy", "filelock>=3", "jinja2", "small-thing"]
    stand_in_wheel(folder, "torch", "2.15.0", requires=[*needs, "nvidia-cuda-runtime==13.2.86"])
    stand_in_wheel(folder, "torchvision", "0.30.0", requires=["torch==2.15.0", "pillow"])
    stand_in_wheel(folder, "nvidia-cuda-runtime", "13.2.86")
    stand_in_wheel(folder, "small-thing", "1.5")
    stand_in_wheel(folder, "small-extra", "2.0", requires=["small-thing"])
    stand_in_wheel(folder, "numpy", "99.0")
    for backend in ("cpu", "cu130"):
        stand_in_wheel(folder / backend, "torch", f"2.15.0+{backend}", requires=needs)
        stand_in_wheel(folder / backend, "torchvision", f"0.30.0+{backend}", requires=["torch==2.15.0"])
    return folder


def test_the_bounds_are_those_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]
    assert {f"{name}{bound}" for name, bound in REQUIREMENTS.items()} <= set(project["dependencies"])


def test_a_mirror_without_folders_of_builds_serves_what_pypi_has(wheels: Path, tmp_path: Path) -> None:
    for backend in ("cpu", "cu130"):
        shutil.rmtree(wheels / backend)
    with WheelIndex(wheels) as index:
        plan = make_plan(InstallRequest(source=Source(mirror=index.simple)), tmp_path / "engine")
        assert index.fetched() == [], "a plan fetches no wheel"
    assert (plan.backend, plan.torch) == ("cu132", "2.15.0")
    # numpy and what else the program has stays the program's
    assert _names(plan) == {"torch", "torchvision", "nvidia-cuda-runtime", "small-thing"}
    sizes = [next(wheels.glob(f"{each.name.replace('-', '_')}-*")).stat().st_size for each in plan.packages]
    assert (plan.download_bytes, plan.is_exact) == (sum(sizes), True)
    assert plan.needed_bytes > sum(sizes) > 0
    assert plan.free_bytes > 0 and plan.kept_bytes == 0


def test_a_mirror_with_folders_of_builds_serves_the_one_that_is_wanted(wheels: Path, tmp_path: Path) -> None:
    with WheelIndex(wheels) as index:
        source = Source(mirror=index.simple)
        plan = make_plan(InstallRequest("cu130", source, extras=("small-extra",)), tmp_path)
        assert (plan.backend, plan.torch) == ("cu130", "2.15.0")
        assert any("/simple/cu130/" in request.path for request in index.requests)
        assert _names(plan) == {"torch", "torchvision", "small-thing", "small-extra"}
        assert plan.download == "about 2.6 GiB", "the index of builds has no sizes"
        with pytest.raises(ProblemError) as failed:
            make_plan(InstallRequest("rocm7.2", source), tmp_path)
    assert failed.value.problem.message == (
        "The mirror has no PyTorch build rocm7.2 for this machine, only cu132."
    )


def test_a_folder_serves_the_wanted_of_several_builds(wheels: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    for wheel in (*wheels.glob("small*.whl"), *wheels.glob("c*/*.whl")):
        shutil.copy(wheel, folder)
    stand_in_wheel(folder, "torch", "2.9.0+cu130")
    for backend in ("cpu", "cu130"):
        plan = make_plan(InstallRequest(backend, Source(folder=folder)), tmp_path)
        assert (plan.backend, plan.torch) == (backend, "2.15.0")
        # numpy is not in the folder, but the program has it
        assert {each.version for each in plan.packages} == {f"2.15.0+{backend}", f"0.30.0+{backend}", "1.5"}
        assert plan.is_exact
    next(folder.glob("small_thing*")).unlink()
    with pytest.raises(ProblemError) as failed:
        make_plan(InstallRequest("cpu", Source(folder=folder)), tmp_path)
    assert failed.value.problem.message == f"The package small-thing is not in the folder {folder}."
    assert failed.value.problem.remedy.startswith("Copy its wheel for Python ")


def test_uv_finds_the_build_that_is_recommended(wheels, tmp_path, monkeypatch):
    """As on PyTorch's indexes: the last releases for CUDA 12.9 and 12.8 are older than those for others."""
    latest = {"cu132": "2.15.0", "cu129": "2.10.0", "cu128": "2.11.0", "cu126": "2.14.0"}
    for backend, version in latest.items():
        stand_in_wheel(wheels / backend, "torch", f"{version}+{backend}")
        stand_in_wheel(wheels / backend, "torchvision", f"0.26.0+{backend}", requires=[f"torch=={version}"])
    gpu = Gpu(Vendor.NVIDIA, "Tesla T4", (7, 5))
    with OfficialIndexes(wheels) as official:
        for name, value in official.environment(tmp_path).items():
            monkeypatch.setenv(name, value)
        for driver, backend in (("580.65.06", "cu132"), ("550.54.14", "cu128")):
            monkeypatch.setenv("UV_CUDA_DRIVER_VERSION", driver)
            assert make_plan(InstallRequest(), tmp_path).backend == backend
            assert builds_for(Hardware("linux", "x86_64", "", (gpu,), driver))[0].backend == backend


T4, GTX_1080 = Gpu(Vendor.NVIDIA, "Tesla T4", (7, 5)), Gpu(Vendor.NVIDIA, "GeForce GTX 1080", (6, 1))


@pytest.fixture
def blocked(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OfficialIndexes]:
    """The official indexes, of which PyTorch's own cannot be reached."""
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with OfficialIndexes(wheels) as official:
        for name, value in official.environment(tmp_path).items():
            monkeypatch.setenv(name, value)
        official.order(Fault(path="/whl/", refuses=True))
        yield official


def on(monkeypatch: pytest.MonkeyPatch, *gpus: Gpu) -> None:
    """Plans for a machine with these cards and a new driver."""
    hardware = Hardware("linux", "x86_64", "A processor", gpus, "580.65.06" if gpus else None)
    monkeypatch.setattr(plan_module, "hardware_here", lambda: hardware)


@pytest.mark.usefixtures("blocked")
def test_without_pytorchs_own_index_the_same_build_comes_from_pypi(tmp_path, monkeypatch):
    on(monkeypatch, T4)
    for backend in ("auto", "cu132"):
        plan = make_plan(InstallRequest(backend), tmp_path)
        assert (plan.backend, plan.torch) == ("cu132", "2.15.0")
        assert re.fullmatch(r"\S+ cannot be reached. PyPI has the same build.", plan.note)


@pytest.mark.usefixtures("blocked")
@pytest.mark.parametrize(
    ("cards", "backend", "offered"),
    [((T4,), "cu130", True), ((), "auto", True), ((GTX_1080,), "auto", False)],
)
def test_another_build_of_pypi_is_only_offered_and_only_where_it_would_do(
    tmp_path, monkeypatch, cards, backend, offered
):
    on(monkeypatch, *cards)
    with pytest.raises(ProblemError) as failed:
        make_plan(InstallRequest(backend), tmp_path)
    problem = failed.value.problem
    assert problem.message.endswith(" cannot be reached.")
    assert ("Choose the build cu132 (CUDA 13.2) from PyPI" in (problem.remedy or "")) is offered


def test_where_neither_index_answers_the_first_is_told(blocked, tmp_path, monkeypatch):
    on(monkeypatch, T4)
    blocked.order(Fault(path="/simple/", status=500))
    with pytest.raises(ProblemError, match=r" cannot be reached\."):
        make_plan(InstallRequest(), tmp_path)


@pytest.mark.parametrize("status", [403, 500])
def test_a_mirror_may_refuse_folders_that_it_does_not_have(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with WheelIndex(wheels) as index:
        index.order(Fault(path="/simple/c", status=status))
        assert make_plan(InstallRequest(source=Source(mirror=index.simple)), tmp_path).backend == "cu132"


@pytest.mark.parametrize("mirror", ["h.example", "user:secret@h.example", "http://user:secret@h.example:x"])
def test_a_mirror_has_an_address_and_its_password_is_not_shown(tmp_path: Path, mirror: str) -> None:
    with pytest.raises(ProblemError, match=r"'h\.example(:x)?' is not the address") as failed:
        make_plan(InstallRequest(source=Source(mirror=mirror)), tmp_path)
    assert "secret" not in failed.value.problem.model_dump_json()


@pytest.mark.parametrize("extra", ["-r /etc/passwd", "../timm", "timm @ file:///timm.whl", "timm\n--pre"])
def test_more_packages_are_names_and_not_options_of_uv(tmp_path: Path, extra: str) -> None:
    with pytest.raises(ProblemError, match="is not a package name"):
        make_plan(InstallRequest(extras=("timm[a,b]>=1.0", extra)), tmp_path)


def _names(plan: InstallPlan) -> set[str]:
    return {package.name for package in plan.packages}
