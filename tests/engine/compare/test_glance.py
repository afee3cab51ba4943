"""A run at a glance says what the run whole says, whether it was parsed or not."""

from __future__ import annotations

import json
import math
import sqlite3
from pathlib import Path

import pytest

from engine.compare.glance import glance, settings_but_precision
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import ProblemError
from engine.experiment.settings import Step
from engine.protocol.events import Finished, Summary
from engine.store.record import text_of
from engine.store.store import Store

SETTINGS = Experiment(model="resnet50", precision=Precision.FP16, batch_size=96, step=Step(recipe="fast"))


def test_a_glance_is_the_same_before_and_after_parsing(store: Store) -> None:
    run_id = store.add(SETTINGS).id
    queued = store.run(run_id)
    assert glance(queued).recipe == "fast" and glance(queued).speed is None
    figures = {"samples_per_second": 12.5, "peak_resident_mib": 400.0, "final_validation_accuracy": 0.5}
    store.record(run_id, [Finished(summary=Summary(recipe="plain", **figures))])
    run = store.run(run_id)
    before, key = glance(run), settings_but_precision(run)
    assert text_of(run, "experiment") is not None, "a glance parses nothing"
    assert (run.experiment, text_of(run, "experiment")) == (SETTINGS, None)
    assert glance(run) == before and settings_but_precision(run) == key
    assert (before.speed, before.peak_mib, before.accuracy, before.recipe) == (12.5, 400.0, 0.5, "fast")


def test_what_is_allocated_goes_before_what_is_resident_and_nan_stays(store: Store) -> None:
    run_id = store.add(SETTINGS).id
    summary = Summary(samples_per_second=math.nan, peak_allocated_mib=3.0, peak_resident_mib=400.0)
    store.record(run_id, [Finished(summary=summary)])
    seen = glance(store.run(run_id))
    assert math.isnan(seen.speed or 0.0) and seen.peak_mib == 3.0


def test_only_the_precision_makes_no_difference_to_the_key(store: Store) -> None:
    def key(**changes: object) -> str:
        return settings_but_precision(store.run(store.add(SETTINGS.model_copy(update=changes)).id))

    assert key() == key(precision=Precision.FP32) == settings_but_precision(store.run(store.runs()[0].id))
    assert key() != key(seed=1)


def test_settings_of_another_version_have_the_key_of_this_one(path: Path, store: Store) -> None:
    run_id = store.add(Experiment(seed=5)).id
    now = settings_but_precision(store.run(run_id))
    fewer = {"model": "small-cnn", "dataset": "fashion", "precision": "bf16", "batch_size": 64, "seed": 5}
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET experiment = ?", (json.dumps(fewer),))
    connection.close()
    assert settings_but_precision(store.run(run_id)) == now


def test_damaged_settings_are_told_when_they_are_asked_for(path: Path, store: Store) -> None:
    run_id = store.add(Experiment()).id
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET experiment = '{\"batch_size\": 0}'")
    connection.close()
    run = store.run(run_id)
    with pytest.raises(ProblemError, match="Batch size"):
        run.to_dict()
    with pytest.raises(ValueError, match="model"):
        glance(run)
