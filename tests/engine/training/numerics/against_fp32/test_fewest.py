"""The search finds a set of modules that suffices and of which none can be left out, in few tries."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from engine.training.numerics.islands import IslandTree, Kept, fewest


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


def search(tree: IslandTree, is_good: Callable[[Kept], bool]) -> tuple[tuple[str, ...] | None, list[Kept]]:
    tried: list[Kept] = []
    searching = fewest(tree)
    try:
        kept = next(searching)
        while True:
            assert kept == tree.kept_with(kept)  # whatever is kept keeps all within it
            if kept not in tried:
                tried.append(kept)
            kept = searching.send(is_good(kept))
    except StopIteration as end:
        return end.value, tried


@given(MODELS.map(IslandTree.of), st.data())
def test_what_is_found_suffices_and_none_of_it_can_be_left_out(tree, data):
    sets = st.sets(st.sampled_from(tree.names), max_size=4) if tree.names else st.just(set())
    sufficient = data.draw(st.lists(sets, min_size=1, max_size=3))

    def is_good(kept: Collection[str]) -> bool:
        return any(needed <= set(kept) for needed in sufficient)

    found, tried = search(tree, is_good)
    assert found is not None and is_good(tree.kept_with(found))
    for name in found:
        rest = tree.kept_with(other for other in found if other != name)
        assert not is_good(rest) and rest in tried


@pytest.mark.parametrize("needed", [{"m3"}, {"m0", "m149"}, {"m20", "m21", "m90"}])
def test_the_number_of_tries_grows_with_the_logarithm(needed):
    tree = IslandTree.of(Own(*(nn.Identity() for _ in range(150))))
    found, tried = search(tree, lambda kept: needed <= kept)
    assert found is not None and set(found) == needed
    assert len(tried) <= 2 + len(needed) * (math.ceil(math.log2(150)) + 2)


def test_where_all_are_not_enough_there_is_no_answer():
    assert search(IslandTree.of(nn.Sequential(nn.Identity())), lambda kept: False)[0] is None


def test_a_sequence_stands_for_what_it_holds_and_a_parent_for_its_own_part():
    tree = IslandTree.of(
        nn.Sequential(nn.Sequential(nn.Identity(), nn.ReLU()), Own(nn.Identity(), nn.ReLU()))
    )
    assert tree.names == ["0.0", "0.1", "1", "1.m0", "1.m1"]
    assert tree.shortest({"0.0", "0.1"}) == ("0",)
    assert tree.shortest({"0.1", "1.m0", "1.m1"}) == ("0.1", "1.m0", "1.m1")
    assert tree.shortest({"0.1", *tree.covers["1"]}) == ("0.1", "1")
