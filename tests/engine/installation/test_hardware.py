"""Machines of all kinds, described by the files and answers that their systems would give."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.installation.builds import builds_for
from engine.installation.hardware import Gpu, NvidiaDriver, Sources, Vendor, hardware_here

_PCI_IDS = """# a comment
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]
\t\t1002 0e3b  Radeon RX 7900 XTX
10de  NVIDIA Corporation
\t1b80  GP104 [GeForce GTX 1080]
8086  Intel Corporation
\t3ea0  WhiskeyLake-U GT2 [UHD Graphics 620]
\t56a0  DG2 [Arc A770]
"""
_CPUINFO = "processor\t: 0\nmodel name\t: AMD Ryzen 9 7950X\nflags\t\t: fpu sse avx avx2\n\nprocessor\t: 1\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A Linux machine without cards."""
    write(tmp_path / "proc/cpuinfo", _CPUINFO)
    write(tmp_path / "usr/share/misc/pci.ids", _PCI_IDS)
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def add_card(root: Path, slot: str, vendor: int, device: int, kind: int = 0x030000) -> None:
    for name, value in (("vendor", vendor), ("device", device), ("class", kind)):
        write(root / "sys/bus/pci/devices" / slot / name, f"0x{value:04x}\n")


def linux(root: Path, nvidia: NvidiaDriver | None = None) -> Sources:
    return Sources("linux", "x86_64", root, lambda: nvidia, lambda _command: "")


def test_a_laptop_without_a_card(root: Path) -> None:
    add_card(root, "0000:00:1f.3", 0x8086, 0x51C8, kind=0x040300)  # sound
    hardware = hardware_here(linux(root))
    assert (hardware.processor, hardware.has_avx2, hardware.gpus) == ("AMD Ryzen 9 7950X", True, ())
    write(root / "proc/cpuinfo", _CPUINFO.replace(" avx2", ""))
    assert hardware_here(linux(root)).has_avx2 is False


def test_a_card_of_nvidia_counts_once_beside_the_display_of_the_processor(root: Path) -> None:
    add_card(root, "0000:00:02.0", 0x8086, 0x3EA0)
    add_card(root, "0000:01:00.0", 0x10DE, 0x1B80, kind=0x030200)
    gtx = Gpu(Vendor.NVIDIA, "NVIDIA GeForce GTX 1080", (6, 1))
    hardware = hardware_here(linux(root, NvidiaDriver("580.65.06", (13, 0), (gtx,))))
    assert hardware.gpus == (gtx, Gpu(Vendor.INTEL, "UHD Graphics 620"))
    assert (hardware.nvidia_driver, hardware.cuda_of_driver) == ("580.65.06", (13, 0))
    assert builds_for(hardware)[0].backend == "cu126"


def test_a_card_of_nvidia_without_its_driver(root: Path) -> None:
    add_card(root, "0000:01:00.0", 0x10DE, 0x1B80)
    hardware = hardware_here(linux(root))
    assert hardware.gpus == (Gpu(Vendor.NVIDIA, "GeForce GTX 1080"),)
    best, *others = builds_for(hardware)
    assert best.backend == "cpu"
    assert "no driver was found for the GeForce GTX 1080" in others[0].why


def test_wsl_has_a_driver_and_no_card_in_sight(root: Path) -> None:
    rtx = Gpu(Vendor.NVIDIA, "NVIDIA GeForce RTX 5090", (12, 0))
    hardware = hardware_here(linux(root, NvidiaDriver("576.80", (12, 9), (rtx,))))
    assert builds_for(hardware)[0].backend == "cu128"


def test_the_kernel_knows_amds_architecture(root: Path) -> None:
    add_card(root, "0000:03:00.0", 0x1002, 0x744C)
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    write(nodes / "0/properties", "cpu_cores_count 32\nvendor_id 0\ndevice_id 0\ngfx_target_version 0\n")
    write(nodes / "1/properties", f"vendor_id {0x1002}\ndevice_id {0x744C}\ngfx_target_version 110000\n")
    (gpu,) = hardware_here(linux(root)).gpus
    assert gpu.architecture == "gfx1100"
    write(nodes / "1/properties", f"vendor_id {0x1002}\ndevice_id {0x744C}\ngfx_target_version 90010\n")
    (gpu,) = hardware_here(linux(root)).gpus
    assert gpu.architecture == "gfx90a"


def test_a_card_without_a_name(root: Path) -> None:
    (root / "usr/share/misc/pci.ids").unlink()
    add_card(root, "0000:03:00.0", 0x8086, 0x56A0)
    hardware = hardware_here(linux(root))
    assert hardware.gpus == (Gpu(Vendor.INTEL, "GPU 8086:56a0"),)
    assert builds_for(hardware)[0].backend == "cpu"
    write(root / "usr/share/hwdata/pci.ids", _PCI_IDS)
    assert builds_for(hardware_here(linux(root)))[0].backend == "xpu"


def test_windows_answers_in_json(tmp_path: Path) -> None:
    cards = [
        {"Name": "NVIDIA GeForce RTX 4060", "PNPDeviceID": "PCI\\VEN_10DE&DEV_2882&SUBSYS_0&REV_A1\\4&1&0&8"},
        {"Name": "Intel(R) Arc(TM) 140V GPU (16GB)", "PNPDeviceID": "PCI\\VEN_8086&DEV_64A0"},
        {"Name": "Microsoft Remote Display Adapter", "PNPDeviceID": "SWD\\REMOTEDISPLAYENUM"},
    ]

    def answers(command: Sequence[str]) -> str:
        assert command[0] == "powershell"
        return json.dumps({"gpus": cards, "processor": "Intel(R) Core(TM) Ultra 7 258V "})

    hardware = hardware_here(Sources("win32", "AMD64", tmp_path, lambda: None, answers))
    assert hardware.processor == "Intel(R) Core(TM) Ultra 7 258V"
    assert [gpu.vendor for gpu in hardware.gpus] == [Vendor.NVIDIA, Vendor.INTEL]
    assert builds_for(hardware)[0].backend == "xpu", "the other card has no driver"
    silent = hardware_here(Sources("win32", "AMD64", tmp_path, lambda: None, lambda _command: ""))
    assert (silent.processor, silent.gpus) == ("AMD64", ())


def test_macs_of_both_kinds(tmp_path: Path) -> None:
    names = {"machdep.cpu.brand_string": "Apple M3\n", "machdep.cpu.leaf7_features": "RDWRFSGS AVX2 BMI2\n"}

    def answers(command: Sequence[str]) -> str:
        return names[command[-1]]

    apple = hardware_here(Sources("darwin", "arm64", tmp_path, lambda: None, answers))
    assert (apple.gpus, apple.has_avx2) == ((Gpu(Vendor.APPLE, "Apple M3"),), None)
    assert "GPU of the Apple M3 through MPS" in builds_for(apple)[0].why
    names["machdep.cpu.brand_string"] = "Intel(R) Core(TM) i7\n"
    intel = hardware_here(Sources("darwin", "x86_64", tmp_path, lambda: None, answers))
    assert (intel.gpus, intel.has_avx2) == ((), True)


def test_this_machine_is_read_without_failing() -> None:
    assert hardware_here().processor
