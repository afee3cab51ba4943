"""Which device does which number format, and how each is switched on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from engine.experiment.checks import PrecisionEntry
from engine.experiment.experiment import Precision
from engine.training.precision import (
    Processor,
    autocast,
    cpu_precisions,
    cuda_precisions,
    float32_mode,
    float32_mode_name,
    from_cpuinfo,
    has_tensor_cores,
    other_accelerator_precisions,
)


def by_name(entries: tuple[PrecisionEntry, ...]) -> dict[Precision, PrecisionEntry]:
    return {entry.precision: entry for entry in entries}


def backends() -> tuple[Any, ...]:
    cudnn: Any = torch.backends.cudnn
    mkldnn: Any = torch.backends.mkldnn
    return (torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn, mkldnn.matmul)


def new_flags() -> list[str]:
    return [backend.fp32_precision for backend in backends()]


def old_flags() -> tuple[bool, bool, str]:
    """Reading these raises where the two interfaces disagree, as torch.compile would find out."""
    return (
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.get_float32_matmul_precision(),
    )


@pytest.fixture(params=["as PyTorch comes", "all in TF32", "all strict", "medium"])
def flags_before(request: pytest.FixtureRequest) -> Iterator[object]:
    """What a user may have set beforehand, through either interface."""
    came, came_new = old_flags(), new_flags()
    if request.param in ("all in TF32", "all strict"):
        allow = request.param == "all in TF32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allow
    elif request.param == "medium":
        torch.set_float32_matmul_precision("medium")
    yield old_flags(), new_flags()
    torch.set_float32_matmul_precision(came[2])
    torch.backends.cudnn.allow_tf32 = came[1]
    for backend, value in zip(backends(), came_new, strict=True):
        backend.fp32_precision = value


@pytest.mark.parametrize("autocast_tf32", [False, True])
@pytest.mark.parametrize("precision", list(Precision))
def test_float32_products_are_made_as_the_precision_says_and_the_flags_restored(
    flags_before: object, precision: Precision, autocast_tf32: bool
) -> None:
    mode = float32_mode_name(precision, autocast_tf32)
    with float32_mode(precision, autocast_tf32):
        if mode == "default":
            assert (old_flags(), new_flags()) == flags_before
        elif mode == "tf32":
            assert (old_flags(), new_flags()) == ((True, True, "high"), ["tf32"] * 4)
        else:
            assert (old_flags(), new_flags()) == ((False, False, "highest"), ["ieee"] * 4)
    assert (old_flags(), new_flags()) == flags_before


def test_flags_are_restored_after_a_failure() -> None:
    before = old_flags(), new_flags()
    with pytest.raises(ValueError, match="training"), float32_mode(Precision.TF32):
        raise ValueError("training failed")
    assert (old_flags(), new_flags()) == before


def test_only_tf32_and_autocast_where_it_is_allowed_use_tf32() -> None:
    plainly = {name: float32_mode_name(name) for name in Precision}
    allowed = {name: float32_mode_name(name, autocast_tf32=True) for name in Precision}
    assert [name for name in Precision if plainly[name] == "tf32"] == [Precision.TF32]
    assert {name for name in Precision if allowed[name] != plainly[name]} == {
        name for name in Precision if name.is_autocast
    }
    assert plainly[Precision.DEFAULT] == allowed[Precision.DEFAULT] == "default"
    assert allowed[Precision.FP32] == "strict"


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        ("fp32", torch.float32),
        ("default", torch.float32),
        ("fp16", torch.float16),
        ("fp16-unscaled", torch.float16),
        ("bf16", torch.bfloat16),
    ],
)
def test_a_product_is_computed_in_the_format_named(precision: str, dtype: torch.dtype) -> None:
    left, right = torch.ones(4, 4), torch.ones(4, 4)
    with autocast(Precision(precision), torch.device("cpu")):
        assert (left @ right).dtype is dtype
    assert (left @ right).dtype is torch.float32


def test_the_cache_of_cast_weights_can_be_off() -> None:
    with autocast(Precision.BF16, torch.device("cpu"), cache_enabled=False):
        assert not torch.is_autocast_cache_enabled()
    with autocast(Precision.BF16, torch.device("cpu")):
        assert torch.is_autocast_cache_enabled()


@pytest.mark.parametrize(
    "entries",
    [
        cuda_precisions((9, 0)),
        cuda_precisions((7, 0)),
        other_accelerator_precisions(),
        cpu_precisions(Processor("A CPU", 1_024)),
    ],
)
def test_every_device_says_of_each_precision_whether_it_can(entries: tuple[PrecisionEntry, ...]) -> None:
    assert [entry.precision for entry in entries] == list(Precision)
    assert all(entry.available is (entry.reason is None) for entry in entries)
    assert by_name(entries)[Precision.FP16_UNSCALED].note is not None


@pytest.mark.parametrize(
    ("capability", "tf32", "notes"),
    [((9, 0), True, 1), ((8, 0), True, 1), ((7, 5), False, 4), ((6, 1), False, 5)],
)
def test_cards_differ_by_generation(capability: tuple[int, int], tf32: bool, notes: int) -> None:
    entries = by_name(cuda_precisions(capability))
    assert entries[Precision.TF32].available is tf32 is (entries[Precision.TF32].reason is None)
    assert sum(entry.note is not None for entry in entries.values()) == notes


@pytest.mark.parametrize(
    ("name", "capability", "there"),
    [
        ("Tesla T4", (7, 5), True),
        ("T4G", (7, 5), True),
        ("Quadro RTX 4000", (7, 5), True),
        ("TITAN RTX", (7, 5), True),
        ("NVIDIA GeForce RTX 2060 SUPER", (7, 5), True),
        ("NVIDIA GeForce RTX 2050", (8, 6), True),
        ("Tesla V100-SXM2-16GB", (7, 0), True),
        ("NVIDIA GeForce GTX 1650", (7, 5), False),
        ("NVIDIA GeForce GTX 1660 Ti with Max-Q Design", (7, 5), False),
        ("NVIDIA GeForce MX450", (7, 5), False),
        ("NVIDIA T400 4GB", (7, 5), False),
        ("NVIDIA T600 Laptop GPU", (7, 5), False),
        ("Quadro T2000", (7, 5), False),
        ("NVIDIA GeForce GTX 1080", (6, 1), False),
    ],
)
def test_some_turing_cards_lack_tensor_cores(name: str, capability: tuple[int, int], there: bool) -> None:
    assert has_tensor_cores(name, capability) is there
    entry = by_name(cuda_precisions(capability, name))[Precision.FP16]
    assert (entry.hardly_faster is None) is there


@pytest.mark.parametrize(("computes_bf16", "says"), [(True, False), (False, True), (None, True)])
def test_a_cpu_does_all_but_tf32(computes_bf16: bool | None, says: bool) -> None:
    entries = by_name(cpu_precisions(Processor("A CPU", 1_024, computes_bf16=computes_bf16)))
    assert [name for name, entry in entries.items() if not entry.available] == [Precision.TF32]
    assert (entries[Precision.BF16].note is not None) is says
    assert entries[Precision.FP16].note is not None
    assert entries[Precision.DEFAULT].note is not None


def test_a_precision_that_saves_hardly_any_time_says_why_in_a_clause() -> None:
    old, new = by_name(cuda_precisions((6, 1))), by_name(cuda_precisions((9, 0)))
    assert "Tensor Cores" in (old[Precision.FP16].hardly_faster or "")
    assert old[Precision.FP16_UNSCALED].hardly_faster == old[Precision.FP16].hardly_faster
    assert "Ampere" in (old[Precision.BF16].hardly_faster or "")
    assert all(entry.hardly_faster is None for entry in new.values())
    cpu = by_name(cpu_precisions(Processor("A CPU", 1_024, computes_bf16=False)))
    assert all(cpu[name].hardly_faster for name in (Precision.FP16, Precision.FP16_UNSCALED, Precision.BF16))


def test_a_processor_is_read_from_cpuinfo() -> None:
    x86 = from_cpuinfo("model name\t: A CPU 9000\nflags\t\t: fpu avx512_bf16\n", 1_024)
    arm = from_cpuinfo("processor\t: 0\nFeatures\t: fp asimd\n", 1_024)
    assert (x86.title, x86.computes_bf16, x86.computes_fp16) == ("A CPU 9000", True, False)
    assert arm.computes_bf16 is False
