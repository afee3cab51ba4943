"""Which device does which number format, and how each is switched on."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine.catalog import PrecisionEntry
from engine.experiment import Precision
from engine.training.precision import autocast, cpu_precisions, cuda_precisions, float32_mode
from engine.training.processor import Processor, from_cpuinfo


def by_name(entries: tuple[PrecisionEntry, ...]) -> dict[Precision, PrecisionEntry]:
    return {entry.precision: entry for entry in entries}


def flags() -> list[str]:
    cudnn: Any = torch.backends.cudnn
    return [part.fp32_precision for part in (torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn)]


@pytest.mark.parametrize("precision", list(Precision))
def test_tf32_is_on_for_tf32_alone_and_restored_afterwards(precision: Precision) -> None:
    before = flags()
    with float32_mode(precision):
        assert flags() == (["tf32"] * 3 if precision is Precision.TF32 else ["ieee"] * 3)
    assert flags() == before


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("fp32", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16)],
)
def test_a_product_is_computed_in_the_format_named(precision: str, dtype: torch.dtype) -> None:
    left, right = torch.ones(4, 4), torch.ones(4, 4)
    with autocast(Precision(precision), torch.device("cpu")):
        assert (left @ right).dtype is dtype
    assert (left @ right).dtype is torch.float32


@pytest.mark.parametrize(
    ("capability", "tf32", "notes"),
    [((9, 0), True, 0), ((8, 0), True, 0), ((7, 5), False, 1), ((6, 1), False, 2)],
)
def test_cards_differ_by_generation(capability: tuple[int, int], tf32: bool, notes: int) -> None:
    entries = by_name(cuda_precisions(capability))
    assert entries[Precision.TF32].available is tf32 is (entries[Precision.TF32].reason is None)
    assert sum(entry.note is not None for entry in entries.values()) == notes


@pytest.mark.parametrize(("computes_bf16", "says"), [(True, False), (False, True), (None, True)])
def test_a_cpu_does_all_but_tf32(computes_bf16: bool | None, says: bool) -> None:
    entries = by_name(cpu_precisions(Processor("A CPU", 1_024, computes_bf16=computes_bf16)))
    assert [name for name, entry in entries.items() if not entry.available] == [Precision.TF32]
    assert (entries[Precision.BF16].note is not None) is says
    assert entries[Precision.FP16].note is not None


def test_a_processor_is_read_from_cpuinfo() -> None:
    x86 = from_cpuinfo("model name\t: A CPU 9000\nflags\t\t: fpu avx512_bf16\n", 1_024)
    arm = from_cpuinfo("processor\t: 0\nFeatures\t: fp asimd\n", 1_024)
    assert (x86.title, x86.computes_bf16, x86.computes_fp16) == ("A CPU 9000", True, False)
    assert arm.computes_bf16 is False
