"""What would be fetched, as real uv resolves it against an index on the loopback."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from engine.installation.plan import REQUIREMENTS, make_plan
from engine.installation.wanted import Plan, Source, Wanted
from tests.wheel_index import WheelIndex, stand_in_wheel


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """PyPI's wheels of a small torch, and PyTorch's builds of it for a processor and for CUDA 13.0."""
    folder = tmp_path / "wheels"
    needs = ["numpy", "filelock>=3", "jinja2", "small-thing"]
    stand_in_wheel(folder, "torch", "2.15.0", requires=[*needs, "nvidia-cuda-runtime==13.2.86"])
    stand_in_wheel(folder, "torchvision", "0.30.0", requires=["torch==2.15.0", "pillow"])
    stand_in_wheel(folder, "nvidia-cuda-runtime", "13.2.86")
    stand_in_wheel(folder, "small-thing", "1.5")
    stand_in_wheel(folder, "numpy", "99.0")
    for backend in ("cpu", "cu130"):
        stand_in_wheel(folder / backend, "torch", f"2.15.0+{backend}", requires=needs)
        stand_in_wheel(folder / backend, "torchvision", f"0.30.0+{backend}", requires=["torch==2.15.0"])
    return folder


def test_the_bounds_are_those_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]
    assert {f"{name}{bound}" for name, bound in REQUIREMENTS.items()} <= set(project["dependencies"])


def test_a_mirror_without_folders_of_builds_serves_what_pypi_has(wheels: Path, tmp_path: Path) -> None:
    with WheelIndex(wheels) as index:
        plan = make_plan(Wanted(source=Source(mirror=index.simple)), tmp_path / "engine")
        assert index.fetched() == [], "a plan fetches no wheel"
    assert (plan.backend, plan.torch) == ("cu132", "2.15.0")
    # numpy and what else the program has stays the program's
    assert _names(plan) == {"torch", "torchvision", "nvidia-cuda-runtime", "small-thing"}
    torch = next(wheel for wheel in plan.wheels if wheel.name == "torch")
    assert torch.size_bytes == (wheels / torch.filename).stat().st_size
    assert torch.sha256 is not None
    assert plan.needed_bytes > plan.download_bytes > 0
    assert plan.free_bytes > 0
    assert not (tmp_path / "engine").exists(), "a plan writes nothing"


def _names(plan: Plan) -> set[str]:
    return {wheel.name for wheel in plan.wheels}
