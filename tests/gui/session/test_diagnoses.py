"""Diagnoses that wait, and those that are saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.protocol.numerics.nonfinite import NonfiniteSearch
from engine.store.store import Store
from engine.worker.launcher import Launcher
from gui.session.engine_thread import EngineThread
from gui.session.orders.diagnoses import Diagnoses

SMALL_CNN = Experiment(model="small-cnn")
NOTHING = NonfiniteSearch(steps=1, sentence="Every number was finite.")


@pytest.fixture
def diagnoses(saved: Store, tmp_path: Path) -> Iterator[Diagnoses]:
    thread = EngineThread(tmp_path / "ammeter.sqlite", Launcher())
    yield Diagnoses(saved, thread)
    thread.shut_down()


def test_one_that_waits_is_shown_and_taken_out(diagnoses: Diagnoses) -> None:
    ended: list[str] = []
    diagnoses.ended.connect(ended.append)
    key = diagnoses.submit(SMALL_CNN, ("map", "nan"))
    view = diagnoses.view(key)
    assert view is not None and view.is_waiting and view.is_awaited("map") and not view.is_awaited("ladder")
    assert diagnoses.waiting == 1
    diagnoses.stop(key)
    assert diagnoses.waiting == 0 and ended == [key] and diagnoses.view(key) is None


def test_saved_ones_are_listed_newest_first_without_those_of_which_nothing_is_known(
    diagnoses: Diagnoses, saved: Store
) -> None:
    first, second, empty = (saved.diagnoses.add(SMALL_CNN, ("nan",), device_name="A card") for _ in range(3))
    for diagnosis_id in (first, second):
        saved.diagnoses.record(diagnosis_id, NOTHING)
    assert list(diagnoses.saved()) == [second, first] and diagnoses.newest() == second
    assert diagnoses.view(empty) is None
    view = diagnoses.view(first)
    assert view is not None and view.diagnosis.nan == NOTHING and view.device_name == "A card"
    diagnoses.delete(first)
    assert list(diagnoses.saved()) == [second] and diagnoses.view(first) is None
