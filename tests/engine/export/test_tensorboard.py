"""The event files are read back by TensorBoard's own reader."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.metadata import (
    parse_session_end_info_plugin_data,
    parse_session_start_info_plugin_data,
)

from engine.export.content import content_of
from engine.export.formats import COMPARISON
from engine.store.record import RunRecord
from engine.store.store import Store

Opened = Callable[[RunRecord], EventAccumulator]


@pytest.fixture
def store(tmp_path: Path, fill: Callable[[Store], None]) -> Iterator[Store]:
    with Store(tmp_path / "ammeter.sqlite") as opened:
        fill(opened)
        yield opened


@pytest.fixture
def opened(store: Store, tmp_path: Path) -> Opened:
    """A run as TensorBoard has read it, from a folder with all runs of the store."""
    folder = tmp_path / "board"
    COMPARISON.export(content_of(store, [run.id for run in store.runs()]), f"{folder}/")
    assert len(list(folder.iterdir())) == len(store.runs())

    def read(run: RunRecord) -> EventAccumulator:
        (found,) = folder.glob(f"*-{run.id}")
        (_,) = found.iterdir()
        accumulator = EventAccumulator(str(found), size_guidance={"scalars": 0, "tensors": 0})
        return accumulator.Reload()

    return read


def test_curves_and_validation_are_there_step_by_step_with_nan_and_infinity(
    store: Store, opened: Opened
) -> None:
    run = store.runs()[-1]
    columns, began = store.samples(run.id), run.started
    assert began is not None
    loss = opened(run).Scalars("train/loss")
    assert [one.step for one in loss] == columns["step"].tolist()
    np.testing.assert_array_equal([one.value for one in loss], columns["loss"].astype(np.float32))
    times = [one.wall_time - began.timestamp() for one in loss]
    np.testing.assert_allclose(times, columns["seconds"], atol=1e-5)
    board = opened(store.runs()[-1])
    (accuracy,) = board.Scalars("validation/accuracy")
    assert (accuracy.step, accuracy.value) == (60, 0.5)
    assert math.isinf(board.Scalars("train/epoch_loss")[0].value)
    values = [one.value for one in opened(store.runs()[2]).Scalars("train/loss")]
    np.testing.assert_array_equal(values, [1.0, math.nan, -math.inf])


def test_settings_are_text_and_hyperparameters_of_any_run(store: Store, opened: Opened) -> None:
    board = opened(store.runs()[-1])
    (settings,) = board.Tensors("settings/text_summary")
    (environment,) = board.Tensors("environment/text_summary")
    (run,) = board.Tensors("run/text_summary")
    assert b"| precision | fp32 |" in settings.tensor_proto.string_val[0]
    assert b"| device\\_name | a card |" in environment.tensor_proto.string_val[0]
    assert rb"\<b\>bold\</b\>" in run.tensor_proto.string_val[0]
    failed, finished = store.runs()[2], store.runs()[-1]
    endings = []
    for run in (failed, finished):
        board = opened(run)
        begun = board.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        assert parse_session_start_info_plugin_data(begun).hparams["batch_size"].number_value == 64
        ended = board.SummaryMetadata("_hparams_/session_end_info").plugin_data.content
        endings.append(parse_session_end_info_plugin_data(ended).status)
    (speed,) = opened(finished).Scalars("summary/samples_per_second")
    assert (speed.step, speed.value) == (60, 12.5)
    success, failure = 1, 2
    assert endings == [failure, success]
    tags = opened(store.runs()[0]).Tags()
    assert "train/loss" not in tags["scalars"] and "settings/text_summary" in tags["tensors"]
