"""A run that samples its ranges trains as without, tells their time apart, and a saved run has them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch

from engine.experiment.experiment import Experiment, experiment_from, layered
from engine.experiment.own.code import with_code
from engine.export.archive.reader import import_archive
from engine.export.content import content_of
from engine.export.formats import COMPARISON
from engine.protocol.events import Event, Log, PartMeasured, Phase, PhaseName
from engine.protocol.jobs import Control
from engine.protocol.numerics.ranges import Ranges
from engine.store.store import Store
from engine.training.runs import loop
from engine.training.runs.loop import train

from .conftest import PICTURES, Trained

Train = Callable[..., Trained]
EVERY_2 = {"measure": {"range_every": 2}}


def ranges_in(events: tuple[Event, ...]) -> list[Ranges]:
    results = [event.result for event in events if isinstance(event, PartMeasured)]
    return [result for result in results if isinstance(result, Ranges)]


@pytest.mark.parametrize(
    "settings",
    [
        {"precision": "fp16"},
        {"precision": "bf16", "step": {"gradient_accumulation": 2, "clip_norm": 1.0}},
        {"model": "mobilenet_v3_small", "image_size": 32},
    ],
    ids=["fp16", "bf16", "dropout"],
)
def test_a_run_that_is_sampled_has_the_same_losses(pictures: Train, settings: dict[str, Any]) -> None:
    settings = {"steps": 4, **settings}
    without = pictures(**settings)
    sampled = pictures(**layered(settings, EVERY_2))
    assert sampled.samples.loss == without.samples.loss
    assert sampled.summary.final_train_loss == without.summary.final_train_loss
    assert not ranges_in(without.events) and without.summary.sampling_seconds is None
    assert [ranges.step for ranges in ranges_in(sampled.events)] == [2, 4]


def test_the_time_of_sampling_is_in_no_other_figure(pictures: Train) -> None:
    run = pictures(steps=4, **EVERY_2)
    summary = run.summary
    assert summary.sampling_seconds and summary.paused_seconds is None
    assert summary.seconds == run.samples.seconds[-1]
    named = [event.name for event in run.events if isinstance(event, Phase)]
    place = named.index(PhaseName.NUMERICS)
    # the sample after step 2 comes between two steps, whose times do not hold it
    assert named[place + 1] in (PhaseName.WARMING_UP, PhaseName.MEASURING)
    steps = [count / speed for count, speed in zip([16] * 4, run.samples.samples_per_second, strict=True)]
    assert sum(steps) <= summary.seconds + 1e-6


def test_a_sample_has_the_current_weights_and_scale(pictures: Train) -> None:
    run = pictures(
        precision="fp16", steps=4, scaler={"init_scale": 2.0**40, "backoff_factor": 0.5}, **EVERY_2
    )
    first, last = ranges_in(run.events)
    assert run.skipped_steps == [1, 2, 3, 4] and (first.scale, last.scale) == (2.0**38, 2.0**36)
    assert first.of("weight") == last.of("weight")  # every step was skipped
    run = pictures(steps=4, **EVERY_2)
    first, last = ranges_in(run.events)
    assert first.of("weight") != last.of("weight") and last.of("activation") and last.of("gradient")


class Card:
    """A card's allocator, in MiB: `cached` beside what the run holds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held, self.cached = 100, 300
        monkeypatch.setattr(torch, "get_device_module", lambda device: self)
        monkeypatch.setattr(torch, "empty", self.take)

    def memory_reserved(self, device: torch.device) -> int:
        return self.held + self.cached

    def empty_cache(self) -> None:
        self.cached = 0

    def take(self, size: int, **settings: Any) -> None:
        """Takes a piece that is dropped at once."""
        self.cached = max(self.cached, size)


def test_a_sample_leaves_the_card_s_cache_as_large_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch)
    with loop._own_cache(torch.device("cuda:0")):
        card.cached = 900
    assert (card.held, card.cached) == (100, 300)
    with loop._own_cache(torch.device("cuda:0")):
        card.held = 700  # kept in spite of all
    assert card.cached == 0


def test_the_cache_is_given_back_once_nothing_of_a_sample_is_left(pictures, monkeypatch):
    alive: list[int] = []
    watched = loop.watched_pass

    def noted(*arguments: Any) -> Any:
        seen = watched(*arguments)
        weakref.finalize(seen, alive.remove, len(alive))
        alive.append(len(alive))
        return seen

    left: list[int] = []

    @contextmanager
    def own_cache(device: torch.device) -> Iterator[None]:
        yield
        left.append(len(alive))

    monkeypatch.setattr(loop, "watched_pass", noted)
    monkeypatch.setattr(loop, "_own_cache", own_cache)
    pictures(steps=4, **EVERY_2)
    assert left == [0, 0]


DATA = """
    import random
    import torch
    from torch import nn

    def batch(size):
        return torch.rand(size, 3), torch.rand(size, 1)
"""
OWN_STEP = """
    def model():
        return nn.Sequential(nn.Linear(3, 8), nn.Dropout(), nn.Linear(8, 1))

    def step(train, batch):
        inputs, targets = batch
        with train.autocast():
            loss = ((train.model(inputs) - targets) ** 2).mean() * (1 + random.random())
        train.backward(loss)
        train.step(train.optimizer)
        return loss
"""
ONLY_UNDER_AUTOCAST = """
    class Net(nn.Linear):
        def forward(self, inputs):
            if not torch.is_autocast_enabled("cpu"):
                raise ValueError("no FP32, please")
            return super().forward(inputs)

    def model():
        return Net(3, 1)
"""


def trained(folder: Path, text: str, **settings: Any) -> Trained:
    path = folder / "net.py"
    path.write_text(dedent(DATA + text), encoding="utf-8")
    asked = {"model": str(path), "device": "cpu", "batch_size": 4, "samples": 16, "steps": 4, **settings}
    experiment = experiment_from(with_code(asked, names_model=True, names_dataset=False))
    return Trained(tuple(train(experiment, Control())))


def test_a_step_of_the_files_own_is_sampled_with_its_random_numbers(tmp_path: Path) -> None:
    without, sampled = trained(tmp_path, OWN_STEP), trained(tmp_path, OWN_STEP, **EVERY_2)
    assert sampled.samples.loss == without.samples.loss
    first, last = ranges_in(sampled.events)
    assert (
        [row.module for row in first.of("gradient")]
        == ["0", "2"]
        == [row.module for row in last.of("gradient")]
    )


def test_a_sample_that_fails_leaves_the_run_alone(tmp_path: Path) -> None:
    run = trained(tmp_path, ONLY_UNDER_AUTOCAST, precision="bf16", **EVERY_2)
    assert run.summary.steps == 4 and not ranges_in(run.events)
    logs = [event for event in run.events if isinstance(event, Log)]
    (warning,) = [event.message for event in logs if event.level == "warning"]
    assert warning.startswith("No ranges from step 2 on. The run continues. ")
    assert "no FP32, please" in warning


def test_a_saved_run_has_its_ranges_also_elsewhere_and_up_to_the_step_it_resumes_from(
    pictures: Train, store: Store, tmp_path: Path
) -> None:
    run = pictures(steps=6, **EVERY_2)
    experiment = Experiment.model_validate(layered(PICTURES, {"steps": 6, **EVERY_2}))
    saved = store.add(experiment)
    store.begin(saved.id)
    store.record(saved.id, run.events)
    assert store.ranges(saved.id) == tuple(ranges_in(run.events))
    assert store.count_ranges(saved.id) == 3
    assert store.ranges(saved.id, 1) == (ranges_in(run.events)[1],)
    assert not any(isinstance(event, PartMeasured) for event in store.events(saved.id))
    archive = COMPARISON.export(content_of(store, [saved.id]), tmp_path / "runs.ammeter")
    with Store(tmp_path / "there.sqlite") as there:
        import_archive(there, archive)
        assert there.ranges(saved.id) == store.ranges(saved.id)
    store.record(saved.id, [run.started.model_copy(update={"resumed_step": 4})])
    assert [ranges.step for ranges in store.ranges(saved.id)] == [2, 4]
