"""When a step is captured, decided from shapes alone, and without garbage collection."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import torch

from engine.training.steps.recipe import CapturePlan, GroupAction, without_garbage_collection

Group = list[tuple[torch.Tensor, torch.Tensor]]


def group(*sizes: int, side: int = 8) -> Group:
    return [(torch.empty(size, 1, side, side), torch.empty(size)) for size in sizes]


def actions(plan: CapturePlan, *groups: Group) -> list[GroupAction]:
    return [plan.action_for(batches) for batches in groups]


W, C, R, B = (GroupAction.WARM_UP, GroupAction.CAPTURE, GroupAction.REPLAY, GroupAction.UNCAPTURED)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([*[group(16)] * 4, group(9), group(16), group(9), group(16)], [W, W, W, C, B, R, B, R]),
        ([*[group(16, 16)] * 4, group(16), group(16, 16)], [W, W, W, C, B, R]),
        ([group(3), *[group(16)] * 4, group(3)], [W, W, W, W, C, B]),
    ],
    ids=["a smaller last batch", "fewer batches", "small first"],
)
def test_smaller_groups_go_beside_the_graph(groups: list[Group], expected: list[GroupAction]) -> None:
    assert actions(CapturePlan(), *groups) == expected


def test_an_epoch_of_one_whole_and_one_small_group_is_captured_all_the_same() -> None:
    plan = CapturePlan()
    found = actions(plan, *[group(3), group(16)] * 6)
    assert found.count(C) == 1 and found[-1] is R and not plan.is_given_up


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collects() -> Iterator[None]:
    """Garbage is collected as in a worker."""
    gc.enable()
    yield
    gc.disable()


@pytest.mark.usefixtures("collects")
def test_what_is_garbage_goes_before_and_nothing_while_it_lasts() -> None:
    before = weakref.ref(Cycle())
    with without_garbage_collection():
        assert before() is None and not gc.isenabled()
        inside = weakref.ref(Cycle())
        junk = [[] for _ in range(100_000)]  # far past the threshold of a collection
        assert inside() is not None and len(junk) == 100_000
    assert gc.isenabled()


@pytest.mark.usefixtures("collects")
def test_it_is_as_before_after_an_error_too() -> None:
    with pytest.raises(ValueError, match="broken"), without_garbage_collection():
        raise ValueError("broken")
    assert gc.isenabled()
    gc.disable()
    with without_garbage_collection():
        assert not gc.isenabled()
    assert not gc.isenabled()
