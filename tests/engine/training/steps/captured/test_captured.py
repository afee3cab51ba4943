"""Capturing a step and replaying it, bit for bit beside the same step uncaptured, on imitated CUDA."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from engine.experiment.experiment import Experiment, layered
from engine.experiment.settings import UNCAPTURED_STEPS as WARMUP
from engine.training.data.batches import Batch
from engine.training.steps.counters import HostCounters
from engine.training.steps.optimizers import build_optimizer
from engine.training.steps.plain import PlainStep, RecipeRecord
from engine.training.steps.recipe import Capture, CapturedStep

CPU = torch.device("cpu")
NOT_PERMITTED = "operation not permitted when stream is capturing"


def no_such_kernel(*_: Any) -> None:
    raise RuntimeError("no such kernel")


class Moody(nn.Module):
    """A tiny CNN that may read the device, or break, when it is captured."""

    def __init__(self, cuda: Any, mood: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4)]
        self.inner = nn.Sequential(*layers)
        self.cuda, self.mood = cuda, mood
        self.streams: list[Any] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.streams.append(self.cuda.streams[-1])
        outputs: torch.Tensor = self.inner(inputs)
        if self.mood == "reads":
            assert outputs.sum().item() is not None
        if self.mood == "breaks" and self.cuda.is_capturing:
            no_such_kernel()
        return outputs

    def __deepcopy__(self, memo: Any) -> Moody:
        other = Moody(self.cuda, self.mood)
        other.load_state_dict(self.state_dict())
        return other


def step_of(kind: type[PlainStep], model: nn.Module, **settings: Any) -> Any:
    table = {"optimizer": {"learning_rate": 0.01, "weight_decay": 0.1}}
    scaler = {"scaler": {"init_scale": 1024.0, "growth_interval": 3}}
    experiment = Experiment.model_validate(layered(table, scaler, settings))
    optimizer = build_optimizer(model, experiment, fused=True, capturable=True)
    record = RecipeRecord(("fused", "capture"))
    return kind(
        model.train(), cross_entropy, experiment, CPU, optimizer=optimizer, record=record, cache_casts=False
    )


@dataclass
class Pair:
    """A captured step, and the same step uncaptured."""

    captured: CapturedStep
    reference: PlainStep

    def train(self, groups: Sequence[Sequence[Batch]]) -> None:
        """Trains both on the groups, and holds each figure and value to the last bit."""
        batches = copy.deepcopy(groups)
        for number, group in enumerate(groups):
            row, expected = self.captured(group), self.reference(group)
            assert is_same(row, expected), f"group {number}: {row.tolist()} for {expected.tolist()}"
        expected_values = values(self.reference)
        for name, value in values(self.captured).items():
            assert is_same(value, expected_values[name]), name
        assert all(
            is_same(tensor, before)
            for group, copied in zip(groups, batches, strict=True)
            for batch, copied_batch in zip(group, copied, strict=True)
            for tensor, before in zip(batch, copied_batch, strict=True)
        ), "a replay wrote into a batch"


def is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """To the last bit, an overflow's NaN included."""
    return torch.equal(one.nan_to_num(12345.0), other.nan_to_num(12345.0))


def values(step: Any) -> dict[str, torch.Tensor]:
    """Weights, statistics, gradients and the states of optimizer and scaler, by name."""
    named: dict[str, torch.Tensor] = dict(step.model.state_dict())
    named |= {f"{name}.grad": p.grad for name, p in step.model.named_parameters() if p.grad is not None}
    for number, state in step.optimizer.state_dict()["state"].items():
        named |= {f"{number}.{key}": value for key, value in state.items() if value is not None}
    if step.scaler.is_enabled() and step.scaler._scale is not None:
        named |= {"scale": step.scaler._scale, "growth": step.scaler._growth_tracker}
    return {name: value.detach().clone() for name, value in named.items()}


@pytest.fixture
def pair_of(cuda: Any) -> Callable[..., Pair]:
    def make(mood: str = "", **settings: Any) -> Pair:
        model = Moody(cuda, mood)
        reference = step_of(PlainStep, copy.deepcopy(model), **settings)
        captured = step_of(CapturedStep, model, **settings)

        def before_update(*_: Any) -> None:
            if mood == "breaks late" and cuda.is_capturing:
                no_such_kernel()

        captured.optimizer.register_step_pre_hook(before_update)
        return Pair(captured, reference)

    return make


def groups_of(*sizes: int | tuple[int, ...], infinite: int = -1) -> list[list[Batch]]:
    """A group for each entry, with a batch for each size; the group at `infinite` overflows."""
    generator = torch.Generator().manual_seed(1)
    groups = []
    for number, entry in enumerate(sizes):
        group = []
        for size in (entry,) if isinstance(entry, int) else entry:
            inputs = torch.randn(size, 1, 8, 8, generator=generator)
            targets = torch.randint(4, (size,), generator=generator)
            group.append((inputs * (float("inf") if number == infinite else 1.0), targets))
        groups.append(group)
    return groups


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize(
    ("optimizer", "clip_norm", "sizes"),
    [("adamw", None, 4), ("adam", 0.1, 4), ("sgd", None, (4, 4)), ("adamw", 0.1, (4, 4, 4))],
)
def test_replays_train_bit_for_bit_as_the_step_itself(cuda, pair_of, precision, optimizer, clip_norm, sizes):
    settings = {"optimizer": {"name": optimizer}, "step": {"clip_norm": clip_norm}}
    pair_of(precision=precision, **settings).train(groups_of(*[sizes] * 9))
    assert [graph.replays for graph in cuda.graphs] == [9 - WARMUP]


def test_counters_on_the_host_count_replays_too(cuda, pair_of):
    pair = pair_of()
    pair.captured.counters = HostCounters(pair.captured.model)
    pair.train(groups_of(*[4] * 8, 2, 4))
    assert cuda.graphs[0].replays == 9 - WARMUP
    assert int(values(pair.captured)["inner.1.num_batches_tracked"]) == 10


def test_capturing_changes_no_value_and_needs_no_batch_of_its_own(cuda: Any) -> None:
    step = step_of(PlainStep, Moody(cuda, ""), precision="fp16", step={"clip_norm": 0.1})
    for group in groups_of(4, 4, 4):
        step(group)
    step.optimizer.zero_grad()
    before, random = values(step), torch.get_rng_state()
    Capture(step, groups_of(4)[0], torch.cuda.Stream(CPU))
    after = values(step)
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert torch.equal(torch.get_rng_state(), random)


def test_odd_groups_train_beside_the_graph_which_then_goes_on(cuda, pair_of):
    sizes = [4, 2, 4, 4, 4, 2, 4, (2, 2), 4, 1, 4]
    pair = pair_of(precision="fp16", step={"clip_norm": 0.1})
    pair.train(groups_of(*sizes))
    assert cuda.captures == 1 and cuda.graphs[0].replays == 4
    streams = pair.captured.model.streams[: len(sizes)]  # type: ignore[union-attr, index]
    assert len(set(map(id, streams))) == 1, "gradients belong to the stream that first made them"


def test_a_larger_group_gives_the_memory_of_the_first_graph_back_and_is_captured_anew(cuda, pair_of):
    pair = pair_of(precision="fp16")
    pair.train(groups_of(*[4] * 5, 6))
    assert pair.captured._capture is None
    pair.train(groups_of(*[6] * 5, 4, 6))
    assert cuda.captures == 2 and [graph.replays for graph in cuda.graphs] == [2, 4]
    assert pair.captured.record.recipe == "fused+capture" and not pair.captured.record.left_out
    first = pair.captured._capture
    assert first is not None and first._graph is cuda.graphs[1]


def test_batches_that_keep_changing_their_shape_are_trained_without_a_graph(cuda, pair_of):
    pair = pair_of(precision="bf16")
    pair.train(groups_of(8, *itertools.islice(itertools.cycle([2, 3, 4, 5]), 14), 8))
    assert cuda.captures == 0
    assert pair.captured.record.left_out == {"capture": "the shape of the batches changes"}
    assert pair.captured.next_phase() is None


@pytest.mark.parametrize("clip_norm", [None, 0.1])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("at", [0, WARMUP, WARMUP + 2])
def test_an_infinite_gradient_skips_its_step_in_a_replay_too(pair_of, optimizer, clip_norm, at):
    pair = pair_of(precision="fp16", optimizer={"name": optimizer}, step={"clip_norm": clip_norm})
    groups = groups_of(*[4] * 8, infinite=at)
    pair.train(groups[:at])
    before = [parameter.detach().clone() for parameter in pair.captured.model.parameters()]
    scale = pair.captured.scaler.get_scale()
    pair.train(groups[at : at + 1])
    assert all(map(torch.equal, before, pair.captured.model.parameters()))
    assert pair.captured.scaler.get_scale() == scale / 2
    pair.train(groups[at + 1 :])


def test_a_new_learning_rate_reaches_the_graph(pair_of: Callable[..., Pair]) -> None:
    pair = pair_of()
    for group, rate in zip(groups_of(*[4] * 8), (0.1, 0.1, 0.2, 0.2, 0.0, 0.3, 0.4, 0.4), strict=True):
        pair.captured.set_learning_rate(rate)
        pair.reference.set_learning_rate(rate)
        pair.train([group])


@pytest.mark.parametrize("ends_allocation", [False, True], ids=["newest", "torch 2.11"])
@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        ("reads", f"it failed here (CUDA error: {NOT_PERMITTED})"),
        ("breaks", "it failed here (no such kernel)"),
        ("breaks late", "it failed here (no such kernel)"),
    ],
)
def test_a_broken_capture_leaves_no_trace_but_its_reason(cuda, pair_of, mood, reason, ends_allocation):
    cuda.ends_allocation = ends_allocation
    pair = pair_of(mood, precision="fp16", step={"clip_norm": 0.1})
    pair.train(groups_of(*[4] * 5, *[6] * 5))
    assert pair.captured.record.left_out == {"capture": reason} and pair.captured.record.recipe == "fused"
    assert [graph.operations for graph in cuda.graphs] == [[]], "the broken graph keeps no memory"
    assert cuda.restored == ["state"] and len(cuda.released) == ends_allocation
    assert pair.captured.record.pop_notes() == [f"capture is not applied: {reason}."]


def test_the_imitation_computes_nothing_while_it_captures_and_reads_its_memory_anew(cuda: Any) -> None:
    source, total, graph = torch.ones(2), torch.zeros(2), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        doubled = source * 2
        total += doubled
    assert total.tolist() == [0, 0] and doubled.isnan().all()
    source.fill_(3)
    graph.replay()
    graph.replay()
    assert total.tolist() == [12, 12] and doubled.tolist() == [6, 6]
    del source
    with pytest.raises(AssertionError, match="given back"):
        graph.replay()
