"""A run of any length as curves: a bounded number of rows that keep its envelope, its means and its end."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import curves as module
from engine.curves import MOST_ROWS, Columns, Curves, bins_of

STEPS = 1_000_000


def columns(steps: int, first: int = 1) -> Columns:
    """A noisy run with a rare spike, as its samples."""
    generator = np.random.default_rng(first)
    step = np.arange(first, first + steps, dtype=float)
    loss = 5 * np.exp(-step / 3e5) + generator.normal(0, 0.1, steps)
    loss[::9_973] += 50
    return {
        "step": step,
        "seconds": step / 100,
        "loss": loss,
        "samples_per_second": generator.uniform(1, 3, steps),
    }


def curves_of(all_columns: Columns, batch: int) -> Curves:
    curves = Curves()
    for first in range(0, len(all_columns["step"]), batch):
        curves.extend({name: values[first : first + batch] for name, values in all_columns.items()})
    return curves


def test_a_run_of_usual_length_has_a_row_for_each_step() -> None:
    whole = columns(MOST_ROWS)
    curves = curves_of(whole, 1_000)
    for name, values in whole.items():
        np.testing.assert_array_equal(curves.column(name), values)
        np.testing.assert_array_equal(curves.means(name), values)
        np.testing.assert_array_equal(curves.bins()[name], values)
    assert curves.changes == 0 and (curves.steps_by_row == 1).all()


@pytest.mark.slow
def test_a_million_steps_keep_their_envelope_in_a_bounded_number_of_rows() -> None:
    whole = columns(STEPS)
    curves = curves_of(whole, 1_000)
    assert len(curves) == len(curves.column("loss")) <= MOST_ROWS
    # as a plot 500 pixels wide would show them
    edges = np.linspace(0, STEPS, 501)
    seen, kept = (
        np.digitize(steps, edges[1:-1], right=True) for steps in (whole["step"], curves.column("step"))
    )
    for pixel in range(500):
        near = np.isin(kept, (pixel - 1, pixel, pixel + 1))
        inside = whole["loss"][seen == pixel]
        assert (
            curves.column("loss")[near].min() <= inside.min()
            and inside.max() <= curves.column("loss")[near].max()
        )
    assert np.isin(curves.column("loss"), whole["loss"]).all()
    assert curves.steps_by_row.sum() == STEPS
    np.testing.assert_array_equal(curves.column("step")[-4_096:], whole["step"][-4_096:])
    np.testing.assert_array_equal(curves.column("loss")[-4_096:], whole["loss"][-4_096:])


def test_what_is_read_off_them_is_that_of_all_steps() -> None:
    whole = columns(STEPS)
    curves = curves_of(whole, 777)
    curves.merge_all()
    bins = curves.bins()
    steps = np.diff(bins["step"], prepend=0)
    assert len(steps) <= MOST_ROWS // 4 and bins["step"][-1] == STEPS and bins["seconds"][-1] == STEPS / 100
    assert np.average(bins["loss"], weights=steps) == pytest.approx(whole["loss"].mean())
    # a rate over all of it is its samples over its time, whatever is merged
    rate = steps.sum() / (steps / bins["samples_per_second"]).sum()
    assert rate == pytest.approx(STEPS / (1 / whole["samples_per_second"]).sum())


@pytest.mark.slow
def test_memory_stays_as_it_is() -> None:
    curves, held = Curves(), []
    tracemalloc.start()
    for first in range(1, 2_000_001, 10_000):
        curves.extend(columns(10_000, first))
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert max(held[20:]) < 2 * 4 * 2 * 8 * MOST_ROWS


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 64)
    monkeypatch.setattr(module, "MOST_BINS", 16)
    monkeypatch.setattr(module, "_NEWEST", 8)


VALUES = st.one_of(st.floats(-1e9, 1e9), st.just(np.nan), st.just(np.inf))


@given(st.lists(VALUES, min_size=1, max_size=600), st.integers(1, 200), st.integers(1, 200))
@settings(max_examples=100, deadline=None)
def test_every_value_is_within_its_bin_however_they_came(values: list[float], one: int, other: int) -> None:
    whole = {"step": np.arange(1.0, len(values) + 1), "loss": np.array(values)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_ROWS", 64)
        patch.setattr(module, "MOST_BINS", 16)
        patch.setattr(module, "_NEWEST", 8)
        curves, again = curves_of(whole, one), curves_of(whole, other)
        for name in whole:
            np.testing.assert_array_equal(curves.column(name), again.column(name))
            np.testing.assert_array_equal(curves.means(name), again.means(name))
        assert len(curves) <= 64
        curves.merge_all()
    steps, loss = curves.column("step"), curves.column("loss")
    is_merged = curves.changes > 0
    firsts, lasts = (steps[0::2], steps[1::2]) if is_merged else (steps, steps)
    assert firsts[0] == 1 and lasts[-1] == len(values) and (firsts[1:] == lasts[:-1] + 1).all()
    for place, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
        inside = whole["loss"][int(first) - 1 : int(last)]
        rows = loss[2 * place : 2 * place + 2] if is_merged else loss[place : place + 1]
        known = inside[~np.isnan(inside)]
        if not len(known):
            assert np.isnan(rows).all()
            continue
        assert (rows.min(), rows.max()) == (known.min(), known.max())
        finite = inside[np.isfinite(inside)]
        if len(finite):
            mean = curves.means("loss")[2 * place if is_merged else place]
            assert mean == pytest.approx(finite.mean(), rel=1e-9, abs=1e-3)


def test_values_stand_in_the_order_in_which_they_came(small: None) -> None:
    steps = np.arange(1.0, 201)
    curves = curves_of({"step": steps, "loss": -steps, "grad_scale": steps}, 7)
    assert (np.diff(curves.column("loss")) <= 0).all() and (np.diff(curves.column("grad_scale")) >= 0).all()


def test_what_came_after_a_step_is_forgotten(small: None) -> None:
    curves = curves_of(columns(500), 50)
    before = curves.changes
    curves.truncate(495)
    assert curves.column("step")[-1] == 495 and curves.changes > before
    curves.truncate(203)
    assert 203 - 64 < curves.column("step")[-1] <= 203
    curves.extend(columns(300, 204))
    assert (
        curves.column("step")[-1] == 503 and (np.diff(curves.column("step")) > 0).all() and len(curves) <= 64
    )
    curves.truncate(0)
    assert len(curves) == 0 and len(curves.column("loss")) == 0


def test_a_column_that_some_steps_lack_is_nan_there(small: None) -> None:
    curves = Curves()
    curves.extend({"step": np.arange(1.0, 101)})
    curves.extend({"step": np.arange(101.0, 201), "loss": np.ones(100)})
    curves.extend({"step": np.arange(201.0, 301)})
    steps, loss = curves.column("step"), curves.column("loss")
    assert (
        len(steps) == len(loss)
        and np.isnan(loss[steps < 80]).all()
        and (loss[(steps > 120) & (steps < 180)] == 1).all()
    )
    assert np.isnan(loss[-8:]).all() and len(curves.bins()["loss"]) == len(curves.bins()["step"])
    assert len(curves.column("resident_mib")) == len(curves.means("resident_mib")) == 0


def test_steps_may_be_added_to_bins_that_are_known() -> None:
    whole = columns(600_000)
    first = {name: values[:500_000] for name, values in whole.items()}
    curves = Curves(bins_of(first, 32))
    curves.extend({name: values[500_000:] for name, values in whole.items()})
    assert len(curves) <= MOST_ROWS and curves.steps_by_row.sum() == 600_000
    assert (
        curves.column("loss").max() == whole["loss"].max()
        and curves.column("loss").min() == whole["loss"].min()
    )
    bins = curves.bins()
    weights = np.diff(bins["step"], prepend=0)
    assert np.average(bins["loss"], weights=weights) == pytest.approx(whole["loss"].mean())
