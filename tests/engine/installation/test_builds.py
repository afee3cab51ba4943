"""Which build fits which machine, and that uv finds the same."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from engine.doctor.doctor import backend_in
from engine.installation.builds import (
    automatic_backend,
    builds_for,
    cpu_problem,
    driver_problem,
    gpu_problem,
)
from engine.installation.hardware import Gpu, Hardware, Vendor

T4 = Gpu(Vendor.NVIDIA, "Tesla T4", (7, 5))
GTX_1080 = Gpu(Vendor.NVIDIA, "NVIDIA GeForce GTX 1080", (6, 1))
K80 = Gpu(Vendor.NVIDIA, "Tesla K80", (3, 7))
RTX_5090 = Gpu(Vendor.NVIDIA, "NVIDIA GeForce RTX 5090", (12, 0))
RX_7900 = Gpu(Vendor.AMD, "Radeon RX 7900 XTX", architecture="gfx1100")
ARC = Gpu(Vendor.INTEL, "Arc A770")
UHD = Gpu(Vendor.INTEL, "UHD Graphics 620")


def machine(*gpus: Gpu, driver: str | None = None, system: str = "linux", kind: str = "x86_64") -> Hardware:
    """A machine with these cards."""
    return Hardware(system, kind, "A processor", gpus, nvidia_driver=driver)


@pytest.mark.parametrize(
    ("hardware", "best", "asked"),
    [
        (machine(T4, driver="580.65.06"), "cu132", "auto"),
        (machine(T4, driver="550.54.14"), "cu128", "auto"),
        (machine(Gpu(Vendor.NVIDIA, "NVIDIA A100-SXM4-40GB", (8, 0)), driver="570.0"), "cu128", "auto"),
        (machine(Gpu(Vendor.NVIDIA, "NVIDIA H100 PCIe", (9, 0)), driver="600.1"), "cu132", "auto"),
        (machine(RTX_5090, driver="581.2", system="win32", kind="AMD64"), "cu132", "auto"),
        (machine(T4, driver="470.82"), "cpu", "auto"),
        # uv would take builds that have no kernels for these cards
        (machine(GTX_1080, driver="580.65.06"), "cu126", "cu126"),
        (machine(K80, driver="550.54.14"), "cpu", "cpu"),
        (machine(UHD), "cpu", "cpu"),
        # uv finds AMD's cards only with ROCm's programs
        (machine(RX_7900), "rocm7.2", "rocm7.2"),
        (machine(RX_7900, system="win32", kind="AMD64"), "cpu", "auto"),
        (machine(ARC), "xpu", "auto"),
        (machine(T4), "cpu", "auto"),
        (machine(), "cpu", "auto"),
        (machine(Gpu(Vendor.APPLE, "Apple M3"), system="darwin", kind="arm64"), "cpu", "auto"),
        # a build that serves both cards goes before a newer one that serves one of them
        (machine(GTX_1080, T4, driver="580.65.06"), "cu126", "cu126"),
    ],
)
def test_the_best_build_is_first_and_uv_is_asked_for_it(hardware: Hardware, best: str, asked: str) -> None:
    builds = builds_for(hardware)
    assert builds[0].backend == best
    assert builds[0].fits
    assert automatic_backend(hardware, {}) == asked
    assert [build.fits for build in builds] == sorted((build.fits for build in builds), reverse=True)
    assert all(build.why.endswith(".") for build in builds)
    assert automatic_backend(hardware, {"UV_CUDA_DRIVER_VERSION": "580"}) == "auto"


def test_a_reason_names_driver_and_card() -> None:
    why = {build.backend: build.why for build in builds_for(machine(GTX_1080, driver="550.54.14"))}
    assert why["cu126"] == (
        "Driver 550.54.14 runs CUDA 12.6, and the build supports the NVIDIA GeForce GTX 1080 "
        "(compute capability 6.1). PyTorch 2.14 is the last release with it."
    )
    assert why["cu128"] == (
        "The NVIDIA GeForce GTX 1080 (compute capability 6.1) is older than the GPUs that PyTorch for "
        "CUDA 12.8 supports (7.5 to 12.0)."
    )
    assert why["cu132"] == "CUDA 13.2 needs NVIDIA driver 580 or newer. Version 550.54.14 is installed."
    assert why["rocm7.2"] == "No AMD GPU was found."


def test_problems_of_a_build_that_is_there() -> None:
    # a build that is in no table is judged by its CUDA alone
    assert driver_problem("cu129", machine(T4, driver="525.60.13")) is None
    assert gpu_problem("cu129", K80, machine(K80)) is None
    assert driver_problem("cpu", machine()) is None
    raphael = Gpu(Vendor.AMD, "Raphael", architecture="gfx1036")
    assert gpu_problem("rocm7.2", raphael, machine(raphael)) is not None
    assert cpu_problem(machine()) is None


def test_the_torch_of_the_tests_has_kernels_for_the_cards_that_are_named() -> None:
    torch = pytest.importorskip("torch")
    flags = torch._C._cuda_getArchFlags()
    backend = backend_in(Path(torch.__file__).with_name("version.py"))
    if not flags:
        pytest.skip("a build without CUDA")
    kernels = [flag.removeprefix("sm_") for flag in flags.split()]
    capabilities = {(int(kernel[:-1]), int(kernel[-1])) for kernel in kernels}
    here = machine(kind=platform.machine())
    cards = [Gpu(Vendor.NVIDIA, "a card", capability) for capability in {*capabilities, (11, 0), (13, 0)}]
    assert {
        card.capability for card in cards if gpu_problem(str(backend), card, here) is None
    } == capabilities


@pytest.mark.parametrize("system", ["linux", "win32"])
@pytest.mark.parametrize("backend", ["cu130", "cu132"])
def test_no_card_translates_kernels_for_older_ones(system: str, backend: str) -> None:
    """Releases of PyTorch have no PTX, so a card newer than the last kernels runs none of them."""
    spark, rubin = Gpu(Vendor.NVIDIA, "GB10", (12, 1)), Gpu(Vendor.NVIDIA, "Rubin", (13, 0))
    here = machine(spark, rubin, driver="590.1", system=system)
    assert gpu_problem(backend, spark, here) is None
    problem = gpu_problem(backend, rubin, here)
    assert problem is not None
    assert "(compute capability 13.0) is newer than the GPUs" in problem.message
    assert builds_for(machine(rubin, driver="590.1", system=system))[0].backend == "cpu"


def test_builds_for_arm_have_other_kernels() -> None:
    thor, t4g = Gpu(Vendor.NVIDIA, "NVIDIA Thor", (11, 0)), Gpu(Vendor.NVIDIA, "NVIDIA T4G", (7, 5))
    for kind, serves_thor in (("x86_64", False), ("aarch64", True)):
        here = machine(thor, t4g, driver="590.1", kind=kind)
        assert (gpu_problem("cu132", thor, here) is None) is serves_thor
        assert (gpu_problem("cu132", t4g, here) is None) is not serves_thor
    problem = gpu_problem("cu132", thor, machine(thor))
    assert problem is not None
    assert "is not among the GPUs that PyTorch for CUDA 13.2 supports (7.5 to 12.0)" in problem.message


def test_each_system_is_offered_what_exists_for_it() -> None:
    offered = {
        kind: [build.backend for build in builds_for(machine(system=kind[0], kind=kind[1]))]
        for kind in (("linux", "aarch64"), ("win32", "AMD64"), ("win32", "ARM64"), ("darwin", "arm64"))
    }
    assert offered == {
        ("linux", "aarch64"): ["cpu", "cu132", "cu130", "cu128", "cu126"],
        ("win32", "AMD64"): ["cpu", "cu132", "cu130", "cu128", "cu126", "xpu"],
        ("win32", "ARM64"): ["cpu"],
        ("darwin", "arm64"): ["cpu"],
    }
    (intel_mac,) = builds_for(machine(system="darwin"))
    assert not intel_mac.fits
