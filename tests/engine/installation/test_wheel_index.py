"""The index that stands in for PyPI and for PyTorch's: what uv gets from it, and its faults."""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.wheel_index import Fault, OfficialIndexes, WheelIndex, stand_in_wheel


def uv_compiles(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    wanted = folder / "wanted.in"
    wanted.write_text("torch\n")
    uv = shutil.which("uv")
    assert uv is not None
    return subprocess.run(
        [
            uv,
            "pip",
            "compile",
            "--no-config",
            "--no-cache",
            "--format",
            "pylock.toml",
            *arguments,
            str(wanted),
        ],
        env={"PATH": os.environ["PATH"], "HOME": str(folder)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    stand_in_wheel(folder, "torch", "2.11.0", requires=["sympy>=1"])
    stand_in_wheel(folder, "sympy", "1.14.0")
    stand_in_wheel(folder / "cpu", "torch", "2.11.0+cpu", requires=["sympy>=1"])
    stand_in_wheel(folder / "cu126", "torch", "2.11.0+cu126", requires=["sympy>=1"])
    return folder


def test_uv_resolves_from_the_loopback_index(wheels: Path, tmp_path: Path) -> None:
    with WheelIndex(wheels) as index:
        said = uv_compiles(tmp_path, "--default-index", index.simple)
        assert said.returncode == 0, said.stderr
        assert f"{index.address}/packages/torch-2.11.0-py3-none-any.whl" in said.stdout
        assert "size = " in said.stdout and "sha256 = " in said.stdout


@pytest.mark.parametrize("backend", ["cpu", "cu126"])
def test_uv_finds_builds_behind_the_official_addresses(wheels: Path, tmp_path: Path, backend: str) -> None:
    with OfficialIndexes(wheels) as indexes:
        said = uv_compiles(tmp_path, "--torch-backend", backend, **indexes.environment(tmp_path))
        assert said.returncode == 0, said.stderr
        assert (
            f"https://download.pytorch.org/whl/{backend}/torch-2.11.0%2B{backend}-py3-none-any.whl"
            in said.stdout
        )
        assert "/packages/sympy-1.14.0" in said.stdout
        assert len({request.host for request in indexes.requests}) == 2, "PyPI, and PyTorch's own index"


def test_a_proxy_shows_a_wrong_certificate_or_asks_for_a_password(wheels: Path, tmp_path: Path) -> None:
    with OfficialIndexes(wheels) as indexes:
        environment = indexes.environment(tmp_path) | {"UV_HTTP_RETRIES": "0"}
        indexes.is_trusted = False
        assert "certificate" in uv_compiles(tmp_path, "--torch-backend", "cpu", **environment).stderr.lower()
        indexes.needs_password = True
        said = uv_compiles(tmp_path, "--torch-backend", "cpu", **environment)
        assert said.returncode != 0 and "proxy" in said.stderr.lower()


def get(address: str, first_byte: int = 0) -> bytes:
    request = urllib.request.Request(address, headers={"Range": f"bytes={first_byte}-"} if first_byte else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        content: bytes = answer.read()
        return content


def test_faults_come_on_order(wheels: Path) -> None:
    wheel = wheels / "torch-2.11.0-py3-none-any.whl"
    whole = wheel.read_bytes()
    with WheelIndex(wheels) as index:
        address = f"{index.address}/packages/{wheel.name}"
        index.order(Fault(cut_after=100, times=1))
        with pytest.raises(http.client.IncompleteRead) as cut:
            get(address)
        assert cut.value.partial + get(address, first_byte=100) == whole
        assert [request.first_byte for request in index.requests] == [None, 100]
        index.order(Fault(status=403, times=1))
        with pytest.raises(urllib.error.HTTPError, match="403"):
            get(address)
        index.order(Fault(refuses=True, times=1))
        with pytest.raises(http.client.RemoteDisconnected):
            get(address)
        index.order(Fault(ignores_ranges=True, times=1))
        assert get(address, first_byte=100) == whole
        index.order(Fault(garbles=True))
        garbled = get(address)
        assert garbled != whole and len(garbled) == len(whole)
        index.mend()
        assert get(address) == whole
