"""Ranges are held against number formats as the formats round; a diagnosis survives the trip as JSON."""

from __future__ import annotations

import math

import pytest
import torch

from engine.protocol.events import PartMeasured, from_line, to_line
from engine.protocol.numerics.formats import BF16, E4M3, E5M2, FORMATS, FP16, FP32, Exponents, NumberFormat
from engine.protocol.numerics.ranges import ModuleRange, Ranges, best_scale_exponent, lost_fraction


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_the_formats_are_those_of_torch(form: NumberFormat) -> None:
    known = torch.finfo(getattr(torch, form.name))
    assert form.largest == known.max and 2.0**form.normal_exponent == known.smallest_normal
    least = torch.tensor(2.0**form.subnormal_exponent, dtype=torch.float64).to(getattr(torch, form.name))
    half = torch.tensor(2.0 ** (form.subnormal_exponent - 1), dtype=torch.float64)
    assert float(least) == 2.0**form.subnormal_exponent and float(half.to(least.dtype)) == 0.0


@pytest.mark.parametrize("form", [FP16, BF16, E5M2, E4M3], ids=lambda form: form.name)
def test_the_share_that_underflows_is_that_of_a_cast(form: NumberFormat) -> None:
    numbers = 1.5 * 2.0 ** torch.arange(-145, 10, dtype=torch.float64)
    cast = numbers.float().to(getattr(torch, form.name))
    assert histogram(numbers).underflow_fraction(form) == float((cast == 0).double().mean())


@pytest.mark.parametrize("form", [FP16, E5M2], ids=lambda form: form.name)
def test_the_share_that_overflows_is_that_of_a_cast(form: NumberFormat) -> None:
    numbers = 1.5 * 2.0 ** torch.arange(-5, 60, dtype=torch.float64)
    cast = numbers.float().to(getattr(torch, form.name))
    assert histogram(numbers).overflow_fraction(form) == float(torch.isinf(cast).double().mean())


def test_the_largest_number_overflows_also_within_the_topmost_power_of_two() -> None:
    numbers = torch.tensor([1.0, 460.0, 500.0], dtype=torch.float64)
    assert histogram(numbers).overflow_fraction(E4M3) == 1 / 3
    assert histogram(numbers[:1]).overflow_fraction(E4M3) == 0 == histogram(numbers).overflow_fraction(FP32)


def test_the_best_scale_lifts_small_gradients_without_an_overflow() -> None:
    rows = (row(2.0**-30, 2.0**-20), row(2.0**-28, 2.0**-12))
    best = best_scale_exponent(rows, FP16)
    assert lost_fraction(rows, FP16) > 0 == lost_fraction(rows, FP16, best)
    assert lost_fraction(rows, FP16, 40) == 1


def test_the_module_that_overflows_first_is_the_inner_one() -> None:
    def overflowed(module: str, count: int) -> ModuleRange:
        return ModuleRange(
            module=module, quantity="activation", exponents=Exponents(), became_nonfinite=count
        )

    names = {"": 9, "block": 9, "block.linear": 0, "block.norm": 2, "head": 9}
    ranges = Ranges(rows=tuple(overflowed(name, count) for name, count in names.items()))
    assert ranges.first_overflow is not None and ranges.first_overflow.module == "block.norm"
    assert Ranges(rows=(overflowed("head", 0),)).first_overflow is None


def test_parts_survive_the_line() -> None:
    event = PartMeasured(result=Ranges(rows=(row(2.0**-30, 3.0),), scale=1024.0, step=3))
    assert from_line(to_line(event)) == event


def row(*values: float) -> ModuleRange:
    return ModuleRange(
        module="fc", quantity="gradient", exponents=histogram(torch.tensor(values, dtype=torch.float64))
    )


def histogram(numbers: torch.Tensor) -> Exponents:
    exponents = [math.frexp(float(number))[1] - 1 for number in numbers]
    first = min(exponents)
    counts = [0] * (max(exponents) - first + 1)
    for exponent in exponents:
        counts[exponent - first] += 1
    return Exponents(
        first=first, counts=tuple(counts), smallest=float(numbers.min()), largest=float(numbers.max())
    )
