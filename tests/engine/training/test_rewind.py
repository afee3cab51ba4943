"""A run keeps a state from before it goes wrong, from which the search for the first NaN begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment, layered
from engine.experiment.paths import checkpoint_path
from engine.experiment.problem import ProblemError
from engine.protocol import jobs
from engine.protocol.events import Event, Log, PartMeasured, Samples
from engine.protocol.jobs import Control
from engine.protocol.numerics.nonfinite import NonfiniteSearch
from engine.training.numerics.parts import study_numerics
from engine.training.runs.checkpoints import Checkpoints
from engine.training.runs.loop import train
from tests.benchmarks.planted import PLANTED

from .numerics.conftest import TINY

(LARGE_RATE,) = [fault for fault in PLANTED if fault.name == "a learning rate that is too large"]
(STEEP,) = [fault for fault in PLANTED if fault.name == "a gradient overflows at any loss scale"]


def trained(experiment: Experiment, folder: Path | None) -> list[Event]:
    return list(train(experiment, Control(), folder))


def losses(events: list[Event]) -> list[float]:
    return [loss for event in events if isinstance(event, Samples) for loss in event.loss]


def keeping(experiment: Experiment, every: int) -> Experiment:
    checkpoint = experiment.checkpoint.model_copy(update={"rewind_every": every})
    return experiment.model_copy(update={"checkpoint": checkpoint})


def searched(experiment: Experiment, folder: Path, trouble_step: int) -> NonfiniteSearch:
    job = jobs.StudyNumerics(
        experiment=experiment, parts=("nan",), checkpoints=str(folder), trouble_step=trouble_step
    )
    results = [event.result for event in study_numerics(job, Control()) if isinstance(event, PartMeasured)]
    (search,) = [result for result in results if isinstance(result, NonfiniteSearch)]
    return search


def test_a_state_from_before_the_nan_is_saved_and_the_search_begins_there(tmp_path: Path) -> None:
    experiment = keeping(LARGE_RATE.experiment(tmp_path), 4)
    folder = tmp_path / "checkpoints"
    events = trained(experiment, folder)
    saved = [event.message for event in events if isinstance(event, Log) and "Find it" in event.message]
    assert saved == ["The state after step 17 is saved: Find it in Numerics begins there."]
    assert Checkpoints(folder).load("rewind")["progress"]["tally"]["steps"] == 17
    search = searched(experiment, folder, 18)
    assert search.from_step == 17 and LARGE_RATE.is_named_by(search)
    assert search.first is not None and search.first.step == 18


def test_while_steps_are_skipped_no_state_is_kept(tmp_path: Path) -> None:
    experiment = keeping(STEEP.experiment(tmp_path), 1)
    trained(experiment, tmp_path / "checkpoints")
    assert not (tmp_path / "checkpoints").exists()  # every step was skipped


def test_keeping_states_changes_no_loss_and_saves_nothing_in_a_healthy_run(tmp_path: Path) -> None:
    experiment = Experiment.model_validate(layered(TINY, {"steps": 6}))
    plain = losses(trained(experiment, None))
    kept = losses(trained(keeping(experiment, 2), tmp_path))
    assert kept == plain and not any(tmp_path.iterdir())


def test_without_a_kept_state_the_search_begins_at_the_first_step(tmp_path: Path) -> None:
    experiment = LARGE_RATE.experiment(tmp_path)
    search = searched(experiment, tmp_path / "gone", 18)
    assert search.from_step == 0 and LARGE_RATE.is_named_by(search)
    assert "began at step 0" in search.sentence


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    checkpoint_path(tmp_path, "rewind").write_bytes(b"nothing")
    with pytest.raises(ProblemError, match="damaged"):
        searched(LARGE_RATE.experiment(tmp_path), tmp_path, 18)
