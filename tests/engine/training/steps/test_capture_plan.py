"""When a step is captured, decided from shapes alone, and without garbage collection."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import torch

from engine.protocol.events import PhaseName
from engine.training.steps.captured import Action, CapturePlan, no_collection

Group = list[tuple[torch.Tensor, torch.Tensor]]


def group(*sizes: int, side: int = 8) -> Group:
    return [(torch.empty(size, 1, side, side), torch.empty(size)) for size in sizes]


def actions(plan: CapturePlan, *groups: Group) -> list[Action]:
    return [plan.action_for(batches) for batches in groups]


def test_groups_of_one_shape_warm_up_are_captured_once_and_replayed() -> None:
    plan = CapturePlan()
    phases = []
    for number in range(7):
        phases.append(plan.phase)
        expected = Action.WARM_UP if number < 3 else Action.CAPTURE if number == 3 else Action.REPLAY
        assert plan.action_for(group(16)) is expected
    assert phases == [PhaseName.WARMING_UP] * 3 + [PhaseName.CAPTURING, None, None, None]


def test_a_smaller_last_batch_goes_beside_the_graph() -> None:
    plan = CapturePlan()
    actions(plan, *[group(16)] * 4)
    found = actions(plan, group(9), group(16), group(9), group(16))
    assert found == [Action.BESIDE, Action.REPLAY] * 2


def test_fewer_batches_of_a_group_go_beside_the_graph() -> None:
    plan = CapturePlan()
    actions(plan, *[group(16, 16)] * 4)
    assert actions(plan, group(16), group(16, 16)) == [Action.BESIDE, Action.REPLAY]


def test_a_run_that_begins_with_a_small_group_captures_the_whole_ones() -> None:
    plan = CapturePlan()
    found = actions(plan, group(3), *[group(16)] * 4, group(3))
    assert found == [*[Action.WARM_UP] * 4, Action.CAPTURE, Action.BESIDE]


def test_an_epoch_of_one_whole_and_one_small_group_is_captured_all_the_same() -> None:
    plan = CapturePlan()
    found = actions(plan, *[group(3), group(16)] * 6)
    assert found.count(Action.CAPTURE) == 1 and found[-1] is Action.REPLAY and not plan.is_given_up


def test_shapes_that_keep_changing_are_given_up() -> None:
    plan = CapturePlan()
    found = actions(plan, *(group(16, side=side) for side in range(8, 30)))
    assert plan.is_given_up and plan.phase is None
    assert Action.CAPTURE not in found and found[-1] is Action.GO_WITHOUT
    assert plan.action_for(group(16)) is Action.GO_WITHOUT


def test_after_giving_up_nothing_is_captured() -> None:
    plan = CapturePlan()
    plan.is_given_up = True
    assert actions(plan, *[group(16)] * 5) == [Action.GO_WITHOUT] * 5


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
    with no_collection():
        assert before() is None and not gc.isenabled()
        inside = weakref.ref(Cycle())
        junk = [[] for _ in range(100_000)]  # far past the threshold of a collection
        assert inside() is not None and len(junk) == 100_000
    assert gc.isenabled()


@pytest.mark.usefixtures("collects")
def test_it_is_as_before_after_an_error_too() -> None:
    with pytest.raises(ValueError, match="broken"), no_collection():
        raise ValueError("broken")
    assert gc.isenabled()
    gc.disable()
    with no_collection():
        assert not gc.isenabled()
    assert not gc.isenabled()
