"""A store of the format before studies, such as `format15.sql`, is brought over with all in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.problem import ProblemError
from engine.store.queue import WaitingItem
from engine.store.store import Store
from gui.session.order import Order, order_of


@pytest.fixture
def brought(path: Path, older: Callable[[], None]) -> Store:
    older()
    return Store(path)


def test_every_study_of_it_is_there(brought: Store) -> None:
    with brought as store:
        found = {entry.id: store.studies.find(entry.id) for entry in store.studies.newest()}
        assert [run.name for run in store.runs()] == ["Old"]
        assert [sweep.name for sweep in store.sweeps.newest()] == ["Old sweep"]
    limit, numerics, profile, tune = (found[f"{kind}-1"] for kind in ("limit", "numerics", "profile", "tune"))
    assert all(study.device_name == "a card" and study.number == 1 for study in found.values())
    assert [(side.label, side.granularity) for side in limit.answer.sides] == [("FP32", 8), ("FP16 AMP", 8)]
    assert limit.answer.digest == "FP32 fits 8, FP16 AMP fits at least 8."
    assert limit.answer.sides[0].is_proven and limit.answer.margin_fraction == 0.2
    assert numerics.answer.run_id == "run-1" and numerics.problem.message == "It did not fit."
    assert numerics.answer.has("map") and numerics.answer.results.nan.least_scale == float("inf")
    first, second = profile.answer.sides
    assert first.profile.step_ms == 4.0 and first.run_id == "run-1" and second.problem is not None
    assert profile.is_over and numerics.is_over and not tune.is_over
    assert [trial.words for trial in tune.answer.trials] == ["FP32, plain"]


def test_what_waits_in_its_queue_is_taken_over(brought: Store) -> None:
    with brought as store:
        items = store.waiting.claimable()
    orders: dict[str, Order] = {item.kind: order_of(item) for item in items}
    assert list(orders) == ["limit", "numerics", "profile", "sweep", "tune"]

    def answer(kind: str) -> Any:
        study = orders[kind].study
        assert study is not None and study.id == orders[kind].key
        return study.answer

    assert [side.granularity for side in answer("limit").sides] == [4, 4]
    assert answer("limit").margin_fraction == 0.3
    assert (answer("numerics").parts, answer("numerics").steps) == (("ladder",), 10)
    assert answer("profile").run_ids == ("run-1",)
    assert orders["tune"].key == "tune-1" and len(answer("tune").trials) == 1
    assert orders["sweep"].key == "sweep-1"


def test_an_order_that_cannot_be_read_says_so(path: Path, older: Callable[[], None]) -> None:
    older()
    with Store(path) as store:
        store.waiting.add([WaitingItem("strange", "limit", "A search", "{}")])
        (strange,) = (item for item in store.waiting.claimable() if item.key == "strange")
    with pytest.raises(ProblemError, match="cannot be read from the queue"):
        order_of(strange)
