"""Counts the exponents of tensors where they are; the host reads many counts at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.protocol.numerics.formats import LEAST_EXPONENT, MOST_EXPONENT, Exponents

_ZERO, _INFINITE, _NAN, _FIRST = range(4)
_PLACES = _FIRST + MOST_EXPONENT - LEAST_EXPONENT + 1
_PART = 2**24
"""Numbers counted at once, which bounds the memory that counting takes."""


class ExponentCount:
    """The exponents of all numbers added so far."""

    def __init__(self) -> None:
        self.counts: Tensor | None = None
        self.ends: Tensor | None = None

    def add(self, values: Tensor) -> None:
        """Counts a tensor's numbers exactly, whatever floating-point format they have."""
        with torch.no_grad():
            values = values.detach()
            if values.layout is not torch.strided:
                values = values.to_dense()
            for part in torch.split(values.reshape(-1), _PART):
                if len(part):
                    self._add(part.float() if part.element_size() < 4 else part)

    def _add(self, part: Tensor) -> None:
        magnitude = part.abs()
        # |x| = mantissa * 2**exponent, with a mantissa from 0.5 to 1; undefined for Inf and NaN
        exponent = torch.frexp(magnitude).exponent
        places = exponent + (_FIRST - 1 - LEAST_EXPONENT)
        places.masked_fill_(magnitude == 0, _ZERO)
        places.masked_fill_(magnitude.isinf(), _INFINITE)
        places.masked_fill_(magnitude.isnan(), _NAN)
        counts = torch.bincount(places, minlength=_PLACES)
        smallest = magnitude.masked_fill(~(magnitude > 0), math.inf).amin()
        largest = magnitude.masked_fill(~magnitude.isfinite(), 0.0).amax()
        if self.counts is None or self.ends is None:
            self.counts, self.ends = counts, torch.stack([smallest, largest])
        else:
            self.counts += counts
            least, most = self.ends
            self.ends = torch.stack([torch.minimum(least, smallest), torch.maximum(most, largest)])


def read(counts: Sequence[ExponentCount]) -> list[Exponents]:
    """The histogram of each count. Waits for the device, once."""
    known = [count for count in counts if count.counts is not None and count.ends is not None]
    if not known:
        return [Exponents() for _ in counts]
    rows = torch.stack([count.counts for count in known if count.counts is not None]).cpu().tolist()
    ends = torch.stack([count.ends.double() for count in known if count.ends is not None]).cpu().tolist()
    histograms = {id(count): _histogram(row, *end) for count, row, end in zip(known, rows, ends, strict=True)}
    return [histograms.get(id(count), Exponents()) for count in counts]


def _histogram(row: list[int], smallest: float, largest: float) -> Exponents:
    filled = [place for place in range(_FIRST, _PLACES) if row[place]]
    first, end = (filled[0], filled[-1] + 1) if filled else (_FIRST, _FIRST)
    return Exponents(
        first=first - _FIRST + LEAST_EXPONENT if filled else 0,
        counts=tuple(row[first:end]),
        zeros=row[_ZERO],
        infinite=row[_INFINITE],
        nan=row[_NAN],
        smallest=smallest if filled else None,
        largest=largest if filled else None,
    )
