"""The fewest FP32 modules of small models on the CPU, where FP16 is real."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from engine.experiment.problem import ProblemError
from engine.protocol import jobs
from engine.protocol.events import Phase
from engine.protocol.jobs import Control
from engine.protocol.numerics import Fp32Modules
from engine.training.numerics.bench import Bench
from engine.training.numerics.fp32_modules import KeepableModules, Kept, find_fp32_modules, search_fewest

from .conftest import MakeBench, end_of, own_settings, part_of

MODEL = """
import torch
from torch import nn


class Overflows(nn.Module):
    def forward(self, x):
        return (x * 3000).square() / 9e6


class Block(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("weight", torch.eye(8) * factor)

    def forward(self, x):
        return torch.tanh(nn.functional.linear(self.linear(x), self.weight) / self.weight[0, 0])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(8, 8)
        self.body = nn.Sequential({body})
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        x = self.head(torch.tanh(self.body(self.stem(x))))
        return {after} if torch.is_autocast_enabled("cpu") else x


def batch(size):
    x = torch.randn(size, 8)
    return x, x.sum(1, keepdim=True)


def loss(outputs, targets):
    return nn.functional.mse_loss(outputs.float(), targets)
"""


def bench_of(make_bench: MakeBench, folder: Path, body: str, after: str = "x", **settings: Any) -> Bench:
    own = own_settings(folder, MODEL.format(body=body, after=after), "Net")
    return make_bench(**own, **{"steps": 10, "precision": "fp16", **settings})


def modules_of(bench: Bench) -> Fp32Modules:
    return part_of(bench, find_fp32_modules)


def test_the_module_that_overflows_is_found_and_proven(make_bench, tmp_path):
    body = "nn.Linear(8, 8), nn.Tanh(), Overflows(), nn.Linear(8, 8), nn.Tanh()"
    found = modules_of(bench_of(make_bench, tmp_path, body, step={"fp32_modules": ("stem",)}))
    assert found.modules == ("body.2",) and found.is_minimal
    assert found.changes == (("step.fp32_modules", "body.2"),)
    tried = {trial.modules: trial for trial in found.trials}
    assert not tried[()].is_good and tried[()].reason
    assert tried[("body.2",)].is_good
    assert "body.2 needs FP32" in found.sentence
    assert found.speed_ratio is not None and found.memory_added_mib is None


@pytest.mark.parametrize(
    ("body", "modules"),
    [
        # the second block's own forward overflows
        ("Block(1.0), Block(1e6), nn.Linear(8, 8), Overflows()", ("body.1", "body.3")),
        ("Block(1.0)", ()),
    ],
)
def test_a_parent_is_named_for_its_own_forward_and_nothing_of_a_healthy_model(
    body, modules, make_bench, tmp_path
):
    found = modules_of(bench_of(make_bench, tmp_path, body))
    assert found.modules == modules and found.is_minimal
    assert bool(found.changes) == bool(modules)


def test_a_fault_outside_of_the_modules_is_said(make_bench, tmp_path):
    found = modules_of(bench_of(make_bench, tmp_path, "nn.Tanh()", after="(x.half() * 1e6).float() / 1e6"))
    assert found.modules is None and not found.changes
    assert "Even with all modules in FP32" in found.sentence and "loss" in found.sentence


def test_a_precision_without_autocast_is_refused(make_bench):
    with pytest.raises(ProblemError) as caught:
        modules_of(make_bench(precision="fp32"))
    assert caught.value.problem.key == "precision" and "FP16 AMP" in caught.value.problem.remedy


def test_modules_that_were_found_outlast_a_stop(make_bench, tmp_path):
    control = Control()
    bench = bench_of(make_bench, tmp_path, "Overflows()", control=control)
    search = find_fp32_modules(bench, jobs.StudyNumerics(experiment=bench.experiment, parts=("islands",)))
    for event in search:
        if isinstance(event, Phase) and event.detail == "cost of the FP32 modules":
            break
    control.stop_requested.set()
    found = end_of(search)
    assert found.modules == ("body.0",) and found.speed_ratio is None


class Own(nn.Module):
    """A parent that computes something itself."""

    def __init__(self, *children: nn.Module) -> None:
        super().__init__()
        for number, child in enumerate(children):
            self.add_module(f"m{number}", child)

    def forward(self, x: object) -> object:
        return x


LEAVES = st.builds(nn.Identity)
MODELS = st.recursive(
    LEAVES,
    lambda parts: st.tuples(st.sampled_from([Own, nn.Sequential]), st.lists(parts, max_size=4)).map(
        lambda made: made[0](*made[1])
    ),
    max_leaves=30,
)


def search(
    tree: KeepableModules, is_good: Callable[[Kept], bool]
) -> tuple[tuple[str, ...] | None, list[Kept]]:
    tried: list[Kept] = []
    searching = search_fewest(tree)
    try:
        kept = next(searching)
        while True:
            assert kept == tree.covered_by(kept)  # whatever is kept keeps all within it
            if kept not in tried:
                tried.append(kept)
            kept = searching.send(is_good(kept))
    except StopIteration as end:
        return end.value, tried


@given(MODELS.map(KeepableModules.of), st.data())
def test_what_is_found_suffices_and_none_of_it_can_be_left_out(tree, data):
    sets = st.sets(st.sampled_from(tree.names), max_size=4) if tree.names else st.just(set())
    sufficient = data.draw(st.lists(sets, min_size=1, max_size=3))

    def is_good(kept: Collection[str]) -> bool:
        return any(needed <= set(kept) for needed in sufficient)

    found, tried = search(tree, is_good)
    assert found is not None and is_good(tree.covered_by(found))
    for name in found:
        rest = tree.covered_by(other for other in found if other != name)
        assert not is_good(rest) and rest in tried


@pytest.mark.parametrize("needed", [{"m3"}, {"m0", "m149"}, {"m20", "m21", "m90"}])
def test_the_number_of_tries_grows_with_the_logarithm(needed):
    tree = KeepableModules.of(Own(*(nn.Identity() for _ in range(150))))
    found, tried = search(tree, lambda kept: needed <= kept)
    assert found is not None and set(found) == needed
    assert len(tried) <= 2 + len(needed) * (math.ceil(math.log2(150)) + 2)


def test_a_sequence_stands_for_what_it_holds_and_a_parent_for_its_own_part():
    assert search(KeepableModules.of(nn.Sequential(nn.Identity())), lambda kept: False)[0] is None
    tree = KeepableModules.of(
        nn.Sequential(nn.Sequential(nn.Identity(), nn.ReLU()), Own(nn.Identity(), nn.ReLU()))
    )
    assert tree.names == ["0.0", "0.1", "1", "1.m0", "1.m1"]
    assert tree.shortest({"0.0", "0.1"}) == ("0",)
    assert tree.shortest({"0.1", "1.m0", "1.m1"}) == ("0.1", "1.m0", "1.m1")
    assert tree.shortest({"0.1", *tree.covers["1"]}) == ("0.1", "1")
