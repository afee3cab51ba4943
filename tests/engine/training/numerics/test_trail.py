"""What a trail follows, and what it takes."""

from __future__ import annotations

import math
import sys

import pytest
import torch

from engine.training.measuring.memory import _reset_resident_peak, status_bytes
from engine.training.numerics.trail import span


def test_the_span_is_that_of_the_finite_values() -> None:
    mixed = torch.tensor([math.nan, -3.0, math.inf, 2.0, -math.inf], dtype=torch.float16)
    assert span([mixed, torch.tensor([5, 6]), torch.tensor([0.5])]) == (-3.0, 2.0)
    assert span([torch.tensor([math.nan, math.inf, -math.inf])]) == (None, None)
    assert span([torch.empty(0), torch.tensor([7])]) == (None, None)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the resident peak from /proc")
def test_the_span_of_a_large_activation_takes_a_copy_of_it_at_most() -> None:
    activation = torch.full((16, 64, 112, 112), 1.0)
    activation[0, 0, 0, 0] = math.inf
    if not _reset_resident_peak():
        pytest.skip("the resident peak cannot be reset here")
    before = status_bytes("VmHWM")
    assert span([activation]) == (1.0, 1.0)
    after = status_bytes("VmHWM")
    assert before is not None and after is not None and after - before < 2 * activation.nbytes
