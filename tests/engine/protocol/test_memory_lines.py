"""Memory by batch size as straight lines: what a batch needs, and which one still fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.protocol.trials import MemoryLine, largest_batch, line_near, needed_mib, upper_hull

OPTIMIZER = MemoryLine(fixed_mib=400, per_sample_mib=0)
BACKWARD = MemoryLine(fixed_mib=300, per_sample_mib=10)

sizes = st.floats(0, 10_000, allow_nan=False)
some_lines = st.lists(
    st.builds(MemoryLine, fixed_mib=sizes, per_sample_mib=st.floats(0, 100, allow_nan=False)),
    min_size=1,
    max_size=12,
)


def test_at_each_batch_the_highest_moment_decides():
    assert needed_mib([OPTIMIZER, BACKWARD], 2) == 400
    assert needed_mib([OPTIMIZER, BACKWARD], 20) == 500


def test_the_largest_batch_fits_and_the_next_one_does_not():
    lines = [OPTIMIZER, BACKWARD]
    found = largest_batch(lines, 1_005)
    assert found == 70
    assert needed_mib(lines, found) <= 1_005 < needed_mib(lines, found + 1)


def test_a_budget_below_the_fixed_part_fits_nothing():
    assert largest_batch([OPTIMIZER, BACKWARD], 399) == 0
    assert largest_batch([BACKWARD], 305) == 0


def test_where_memory_does_not_grow_no_batch_is_the_largest():
    assert largest_batch([OPTIMIZER], 500) is None


def test_a_search_begins_with_the_line_that_holds_at_the_limit():
    assert line_near([OPTIMIZER, BACKWARD], 2_000) == BACKWARD
    assert line_near([OPTIMIZER, BACKWARD], 100) == OPTIMIZER


@given(some_lines, st.integers(1, 5_000))
def test_the_hull_says_the_same_as_all_lines(lines, batch_size):
    hull = upper_hull(lines)
    assert len(hull) <= len(lines)
    assert needed_mib(hull, batch_size) == pytest.approx(needed_mib(lines, batch_size), abs=1e-3)
