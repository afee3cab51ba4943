"""A diagnosis trains what a run trains: the same weights, batches and losses, whatever it looks at."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import torch

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment, layered
from engine.experiment.problem import ProblemError
from engine.protocol.events import Samples
from engine.protocol.jobs import Control
from engine.training.numerics.bench import Bench, with_precision
from engine.training.runs.loop import train

from .conftest import TINY

MakeBench = Callable[..., Bench]


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_trainee_has_the_losses_of_the_run_to_the_last_bit(make_bench, precision):
    settings = {"precision": precision, "schedule": {"name": "cosine", "warmup_steps": 2}}
    bench = make_bench(**settings)
    with bench.trainee() as trainee:
        losses = [trainee.train(group).loss for group in bench.groups(4)]
    run = train(Experiment.model_validate(layered(TINY, settings)), Control())
    assert losses == [loss for event in run if isinstance(event, Samples) for loss in event.loss]


def test_every_trainee_begins_at_the_same_weights(make_bench):
    bench = make_bench()
    with bench.trainee() as first:
        before = [weight.detach().clone() for weight in first.model.parameters()]
        for group in bench.groups(2):
            first.train(group)
    with bench.trainee(with_precision(bench.experiment, Precision.BF16, ("*",))) as second:
        assert all(map(torch.equal, before, second.model.parameters()))
        assert second.experiment.precision is Precision.BF16


def test_the_same_batches_come_at_every_call_also_past_the_epoch(make_bench):
    bench = make_bench()
    first, again = list(bench.groups(6)), list(bench.groups(2, first=4))
    assert torch.equal(first[4][0][0], again[0][0][0]) and torch.equal(first[5][0][1], again[1][0][1])


def test_a_part_that_is_not_there_is_named(make_bench):
    bench = make_bench(precision="bf16")
    with (
        pytest.raises(ProblemError, match="'layer9'"),
        bench.trainee(with_precision(bench.experiment, None, ("layer9",))),
    ):
        pass


def test_a_trainee_that_is_done_with_leaves_no_model_in_memory(make_bench):
    with make_bench().trainee() as trainee:
        model = weakref.ref(trainee.model)
    gc.collect()
    assert model() is None and trainee.steps == 0
