"""Ranges count every number exactly, say what a precision loses, and come out of any model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
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

from engine.protocol import jobs
from engine.protocol.events import Event, Phase
from engine.protocol.jobs import Control
from engine.protocol.numerics.formats import Exponents
from engine.protocol.numerics.ranges import QUANTITIES, Ranges
from engine.training.measuring.ranges import ExponentCount, read, watched
from engine.training.numerics.bench import Bench, StoppedError
from engine.training.numerics.parts import measure_ranges
from tests.benchmarks.planted import Planted

MakeBench = Callable[..., Bench]
NUMBERS = arrays.arrays(
    st.sampled_from([np.float16, np.float32, np.float64]), st.integers(0, 60), elements=None
)


def histogram(*tensors: Tensor) -> Exponents:
    count = ExponentCount()
    for tensor in tensors:
        count.add(tensor)
    return read([count])[0]


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


def measured(bench: Bench) -> tuple[list[Event], Ranges | None]:
    measuring: Generator[Event, None, Ranges | None] = measure_ranges(
        bench, jobs.StudyNumerics(experiment=bench.experiment)
    )
    events = []
    while True:
        try:
            events.append(next(measuring))
        except StopIteration as end:
            return events, end.value


def test_every_module_has_its_rows(make_bench):
    bench = make_bench()
    events, ranges = measured(bench)
    assert ranges is not None and isinstance(events[0], Phase)
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


def test_gradients_are_fp32s_whatever_the_precision_and_the_scale(make_bench):
    _, plain = measured(make_bench())
    _, scaled = measured(make_bench(precision="fp16", scaler={"init_scale": 256.0}))
    assert plain is not None and scaled is not None and scaled.scale == 256
    assert [row.exponents for row in plain.rows] == [row.exponents for row in scaled.rows]
    assert "float16" in {row.dtype for row in scaled.of("activation")}


def test_what_a_scale_too_small_makes_zero_is_counted_and_said(make_bench):
    lost = {}
    for scale in (2.0**-12, 2.0**10):
        _, ranges = measured(make_bench(precision="fp16", scaler={"init_scale": scale}))
        assert ranges is not None
        lost[scale] = sum(row.became_zero for row in ranges.of("gradient"))
        said = any("of all gradients are 0 but not in FP32" in note for note in ranges.notes)
        assert said == (scale < 1)
    assert lost[2.0**-12] > lost[2.0**10]


def test_a_scale_that_overflows_comes_down_as_in_a_run(make_bench):
    _, ranges = measured(make_bench(precision="fp16", scaler={"init_scale": 2.0**40, "backoff_factor": 0.01}))
    assert ranges is not None and 1 < ranges.scale < 2.0**40
    assert not any(row.became_nonfinite for row in ranges.rows)
    assert "At a loss scale of 1,099,511,627,776 gradients overflow" in ranges.notes[0]


def test_where_no_scale_helps_the_losses_are_those_at_the_scale_that_is_reported(make_bench, tmp_path):
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
    _, ranges = measured(make_bench(**experiment.model_dump()))
    assert ranges is not None and ranges.scale == 65_536
    (row,) = [row for row in ranges.of("gradient") if row.module == "2"]
    assert row.became_zero == 0  # at a scale of 1 all would be


def test_a_stop_ends_the_measuring(make_bench):
    control = Control()
    bench = make_bench(control, precision="bf16")
    control.stop_requested.set()
    with pytest.raises(StoppedError):
        measured(bench)


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
    with watched(model) as seen:
        model(torch.ones(5, 3))["out"].sum().backward()
    counts = dict(zip(seen.activations, read(list(seen.activations.values())), strict=True))
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
    with watched(model) as seen:
        checkpoint(model, torch.ones(5, 3), use_reentrant=False).sum().backward()
    assert [count.total for count in read(list(seen.activations.values()))] == [20, 20]
    assert len(seen.gradients) == 2
