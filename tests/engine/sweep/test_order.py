"""Pilots come first, then runs in turns, then repeats of what is least known; nothing is done twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.compare.comparison import compare
from engine.compare.evidence import evidence_of
from engine.compare.metrics import SPEED
from engine.experiment.problem import Kind, Problem
from engine.experiment.sweep import MOST_EXTRA_REPEATS, Grid, Plan
from engine.sweep.order import groups_of, turns
from tests.engine.sweep.conftest import Sweeping

Sweepings = Callable[..., Sweeping]


def coming(sweeping: Sweeping) -> list[tuple[int, str, int]]:
    return [(turn.cell, turn.kind, turn.repeat) for turn in turns(sweeping.record)]


def test_compared_cells_are_piloted_and_trained_next_to_each_other_in_turns(sweeping):
    sweep = sweeping(repeats=2)
    assert coming(sweep) == [
        *((cell, "pilot", 1) for cell in (0, 2, 1, 3)),
        *((cell, "run", 1) for cell in (0, 2, 1, 3)),
        *((cell, "run", 2) for cell in (2, 0, 3, 1)),
    ]


def test_a_turn_that_was_taken_is_taken_no_more(store, sweeping):
    sweep = sweeping(repeats=2)
    sweep.pilot(0, 1, 2)
    sweep.train(0, 1)
    assert coming(sweep)[:3] == [(3, "pilot", 1), (2, "run", 1), (1, "run", 1)]
    # a run that did not come to its end is trained anew
    store.add(sweep.grid.cells[2].experiment, sweep=sweep.id, cell=2, repeat=1)
    assert coming(sweep)[1] == (2, "run", 1)


def test_a_cell_without_a_turn_stops_no_other(store, sweeping):
    sweep = sweeping(repeats=2)
    sweep.pilot()
    problem = Problem(kind=Kind.NOT_A_NUMBER, message="It is NaN.", remedy="Lower the rate.")
    store.sweeps.set_cell_problem(sweep.id, 0, problem)
    store.sweeps.pause(sweep.id, 1, True)
    store.sweeps.leave_out(sweep.id, 2, "It does not fit.")
    sweep.train(3, 1)
    assert coming(sweep) == [(3, "run", 2)]
    sweep.train(3, 2, fails=True)
    assert coming(sweep) == []
    store.sweeps.pause(sweep.id, 1, False)
    assert coming(sweep) == [(1, "run", 1), (1, "run", 2)]


def test_a_run_no_longer_than_a_pilot_has_none(store, sweeping):
    sweep = sweeping()
    short = Grid(base={**sweep.grid.base, "steps": 10}, axes=sweep.grid.axes)
    short_id = store.sweeps.add("Short", short, Plan(), device_name="CPU")
    assert {turn.kind for turn in turns(store.sweeps.find(short_id))} == {"run"}


def test_the_group_with_the_widest_interval_is_repeated(sweeping):
    sweep = sweeping(repeats=3, precision_percent=2.0)
    sweep.pilot()
    for repeat in (1, 2, 3):
        drift = 1 + repeat / 100
        for cell, speed in ((0, 100.0), (2, 200.0 + repeat / 10), (1, 100.0), (3, 200.0 + 10 * repeat)):
            sweep.train(cell, repeat, speed * drift)
    exact, wide = groups_of(sweep.record)
    assert exact.reach < 0.02 < wide.reach
    likely = coming(sweep)
    assert likely[:4] == [(3, "run", 4), (1, "run", 4), (1, "run", 5), (3, "run", 5)]
    assert {cell for cell, _, _ in likely} == {1, 3}
    # begun, the round is completed first
    sweep.train(3, 4, 215.0)
    assert coming(sweep)[0] == (1, "run", 4)


def test_the_interval_is_the_comparison_s(store, sweeping):
    sweep = sweeping(repeats=3, precision_percent=1.0)
    for repeat in (1, 2, 3):
        sweep.train(0, repeat, 100.0 + repeat)
        sweep.train(2, repeat, 150.0 + repeat**2)
    compared = compare(evidence_of(store, store.runs()[::-1]))
    ratio = compared.cells(compared.sides[1].id)[SPEED.name]
    assert ratio.ratio is not None and ratio.ratio_interval is not None
    low, high = ratio.ratio_interval
    reach = max(high / ratio.ratio - 1, 1 - low / ratio.ratio)
    assert groups_of(sweep.record)[0].reach == pytest.approx(reach)


def test_repeats_end_where_the_ratio_is_known_or_never_will_be(sweeping):
    precise = sweeping(repeats=2, precision_percent=2.0)
    precise.pilot()
    for repeat in (1, 2):
        for cell in range(4):
            precise.train(cell, repeat)
    assert coming(precise) == []
    without_speed = sweeping(precision_percent=2.0)
    without_speed.pilot()
    for cell in range(4):
        without_speed.train(cell, 1, None)
    assert coming(without_speed) == []


def test_a_ratio_that_stays_unknown_is_given_up(sweeping):
    sweep = sweeping(precision_percent=0.01)
    for cell in (1, 3):
        sweep.pilot(cell)
        sweep.train(cell, 1, None)
    for repeat in range(1, MOST_EXTRA_REPEATS + 1):
        sweep.train(0, repeat, 100.0 + repeat)
        sweep.train(2, repeat, 100.0 + 20 * (repeat % 2))
    assert coming(sweep) == []
