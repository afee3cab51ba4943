"""Ranges count every number exactly, say what a precision loses, and come out of any model."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment, layered
from engine.protocol import jobs
from engine.protocol.events import Phase, Samples
from engine.protocol.jobs import Control
from engine.protocol.ranges import QUANTITIES, Exponents
from engine.training.numerics.bench import StoppedError, with_precision
from engine.training.numerics.ranges import ExponentCount, measure_ranges, read_histograms, record_tensors
from engine.training.numerics.study import _MAKERS
from engine.training.runs.loop import train
from tests.benchmarks.planted import Planted

from .conftest import FEW, TINY, end_of, part_of

NUMBERS = arrays.arrays(
    st.sampled_from([np.float16, np.float32, np.float64]), st.integers(0, 60), elements=None
)


def histogram(*tensors: Tensor) -> Exponents:
    count = ExponentCount()
    for tensor in tensors:
        count.add(tensor)
    return read_histograms([count])[0]


def by_numpy(numbers: NDArray[Any]) -> tuple[Counter[int], int, int, int]:
    finite = np.abs(numbers[np.isfinite(numbers) & (numbers != 0)].astype(np.float64))
    exponents = Counter((np.frexp(finite)[1] - 1).tolist())
    return exponents, int((numbers == 0).sum()), int(np.isinf(numbers).sum()), int(np.isnan(numbers).sum())


def counted(exponents: Exponents) -> tuple[Counter[int], int, int, int]:
    bins = enumerate(exponents.counts, exponents.first)
    return (
        Counter({place: count for place, count in bins if count}),
        exponents.zeros,
        exponents.infinite,
        exponents.nan,
    )


@given(NUMBERS)
def test_counts_are_those_of_numpy(numbers):
    counts = histogram(torch.from_numpy(numbers))
    assert counted(counts) == by_numpy(numbers)
    magnitudes = np.abs(numbers[np.isfinite(numbers) & (numbers != 0)])
    assert counts.smallest == (float(magnitudes.min()) if len(magnitudes) else None)
    assert counts.largest == (float(magnitudes.max()) if len(magnitudes) else None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_ends_of_a_format_are_counted_where_they_are(dtype):
    known = torch.finfo(dtype)
    subnormal = torch.nextafter(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype))
    ends = torch.tensor([known.max, -known.tiny, 0.0, -0.0, float("inf"), float("nan")], dtype=dtype)
    counts = histogram(ends, subnormal.reshape(1))
    assert counted(counts) == by_numpy(torch.cat([ends, subnormal.reshape(1)]).double().numpy())
    assert (counts.smallest, counts.largest) == (subnormal.item(), known.max)


@pytest.mark.parametrize("part", _MAKERS)
def test_a_stop_ends_any_part(make_bench, part):
    control = Control()
    bench = make_bench(control, precision="bf16")
    making = _MAKERS[part](bench, jobs.StudyNumerics(experiment=bench.experiment))
    assert isinstance(next(making), Phase)
    control.stop_requested.set()
    with pytest.raises(StoppedError):
        end_of(making)


def test_every_module_has_its_rows(make_bench):
    bench = make_bench()
    ranges = part_of(bench, measure_ranges)
    with bench.trainee() as trainee:
        modules = dict(trainee.model.named_modules())
        sizes = {
            name: sum(weight.numel() for weight in module.parameters(recurse=False))
            for name, module in modules.items()
        }
    for quantity in ("weight", "gradient"):
        rows = ranges.of(quantity)
        assert {row.module: row.exponents.total for row in rows} == {
            n: size for n, size in sizes.items() if size
        }
    leaves = {name for name, module in modules.items() if not list(module.children())}
    assert {row.module for row in ranges.of("activation")} >= leaves
    order = list(modules)
    for quantity in QUANTITIES:
        places = [order.index(row.module) for row in ranges.of(quantity)]
        assert places == sorted(places)
    assert ranges.scale == 1 and ranges.notes


def test_a_pass_in_fp32_uses_no_attention_kernel_for_16_bits(make_bench, monkeypatch):
    used = []
    monkeypatch.setattr(
        "engine.training.numerics.bench.attention_kernel", lambda name: nullcontext(used.append(name))
    )
    bench = make_bench(precision="bf16", step={"attention": "flash"})
    bench.device = torch.device("cuda")  # the plan's device stays the CPU
    part_of(bench, measure_ranges)
    assert used == ["auto", "flash"]


def test_gradients_are_fp32s_whatever_the_precision_and_the_scale(make_bench):
    plain = part_of(make_bench(**FEW), measure_ranges)
    scaled = part_of(make_bench(**FEW, precision="fp16", scaler={"init_scale": 256.0}), measure_ranges)
    assert scaled.scale == 256
    assert [row.exponents for row in plain.rows] == [row.exponents for row in scaled.rows]
    assert "float16" in {row.dtype for row in scaled.of("activation")}


def test_what_a_scale_too_small_makes_zero_is_counted_and_said(make_bench):
    lost = {}
    for scale in (2.0**-12, 2.0**10):
        bench = make_bench(**FEW, precision="fp16", scaler={"init_scale": scale})
        ranges = part_of(bench, measure_ranges)
        lost[scale] = sum(row.became_zero for row in ranges.of("gradient"))
        said = any("of all gradients underflow" in note for note in ranges.notes)
        assert said == (scale < 1)
    assert lost[2.0**-12] > lost[2.0**10]


def test_a_scale_that_overflows_comes_down_as_in_a_run(make_bench):
    ranges = part_of(
        make_bench(**FEW, precision="fp16", scaler={"init_scale": 2.0**40, "backoff_factor": 0.01}),
        measure_ranges,
    )
    assert 1 < ranges.scale < 2.0**40
    assert not any(row.became_nonfinite for row in ranges.rows)
    assert "At a loss scale of 1,099,511,627,776, gradients overflow" in ranges.notes[0]


def test_where_no_scale_helps_the_losses_are_those_at_the_scale_told(make_bench, tmp_path):
    text = """
    class Steep(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            return torch.full_like(gradient, math.inf)

    def model():
        return nn.Sequential(nn.Linear(8, 16), Do(Steep.apply), nn.Linear(16, 4))

    def loss(outputs, targets):
        return F.cross_entropy(outputs.float(), targets) * 1e-6
    """
    experiment = Planted("", text, "", (), ()).experiment(tmp_path)
    ranges = part_of(make_bench(**experiment.model_dump()), measure_ranges)
    assert ranges.scale == 65_536
    (row,) = [row for row in ranges.of("gradient") if row.module == "2"]
    assert row.became_zero == 0  # at a scale of 1 all would be


class Nested(nn.Module):
    """Returns tuples and dicts, passes on what a child returned, and changes it in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act = nn.Linear(3, 4), nn.ReLU(inplace=True)
        self.wrapper = nn.Sequential(nn.Linear(4, 2))

    def forward(self, x: Tensor) -> dict[str, Any]:
        hidden = self.act(self.first(x))
        out = self.wrapper(hidden)
        return {"out": out, "more": (hidden * 2, None, torch.arange(3))}


def test_outputs_are_counted_once_and_wherever_they_are():
    model = Nested()
    with record_tensors(model) as seen:
        model(torch.ones(5, 3))["out"].sum().backward()
    counts = dict(zip(seen.activations, read_histograms(list(seen.activations.values())), strict=True))
    # the wrapper only passes on its child's output; the model's own is only what it multiplied
    assert {name: count.total for name, count in counts.items()} == {
        "first": 20,
        "act": 20,
        "wrapper.0": 10,
        "": 20,
    }
    assert set(seen.gradients) == {name for name, _ in model.named_parameters()}


def test_an_activation_that_is_computed_again_counts_once():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    with record_tensors(model) as seen:
        checkpoint(model, torch.ones(5, 3), use_reentrant=False).sum().backward()
    assert [count.total for count in read_histograms(list(seen.activations.values()))] == [20, 20]
    assert len(seen.gradients) == 2


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_trainee_has_the_losses_of_the_run_to_the_last_bit(make_bench, precision):
    settings = {**FEW, "precision": precision, "schedule": {"name": "cosine", "warmup_steps": 2}}
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


def test_a_trainee_that_is_done_with_leaves_no_model_in_memory(make_bench):
    with make_bench().trainee() as trainee:
        model = weakref.ref(trainee.model)
    gc.collect()
    assert model() is None and trainee.steps == 0
