"""The search for the fewest modules that must stay in FP32, apart from how a set of them is tried."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from dataclasses import dataclass, field

from torch import nn

Kept = frozenset[str]


@dataclass
class IslandTree:
    """The modules of a model that can be kept in FP32, parents before their children.

    A module that is kept keeps all within it: `covers` has the names of both. Sequences and lists compute
    nothing themselves and are not in `names`; `within` has what is in them, and in every other module.
    """

    names: list[str] = field(default_factory=list)
    covers: dict[str, Kept] = field(default_factory=dict)
    within: dict[str, Kept] = field(default_factory=dict)

    @classmethod
    def of(cls, model: nn.Module) -> IslandTree:
        tree = cls()
        tree._visit("", model, set())
        return tree

    def _visit(self, name: str, module: nn.Module, seen: set[int]) -> Kept:
        seen.add(id(module))
        computes = bool(name) and type(module).forward not in (nn.Module.forward, nn.Sequential.forward)
        below = {name} if computes else set()
        if computes:
            self.names.append(name)
        for child_name, child in module.named_children():
            if id(child) not in seen:
                below |= self._visit(f"{name}.{child_name}" if name else child_name, child, seen)
        self.within[name] = frozenset(below)
        if computes:
            self.covers[name] = self.within[name]
        return self.within[name]

    def kept_with(self, names: Iterable[str]) -> Kept:
        """All that is in FP32 if these are."""
        return frozenset().union(*(self.covers[name] for name in names))

    def shortest(self, kept: Collection[str]) -> tuple[str, ...]:
        """The fewest names that keep just these: a parent's in place of all that is within it."""
        whole = [name for name, within in self.within.items() if name and within and within <= set(kept)]
        return tuple(name for name in whole if not any(name.startswith(f"{other}.") for other in whole))


def fewest(tree: IslandTree) -> Generator[Kept, bool, tuple[str, ...] | None]:
    """Yields what is to be tried in FP32 and is sent whether that is good; returns the fewest modules needed.

    None where even all of them are not enough. More modules in FP32 are taken to be no worse. Halving finds
    the shortest end of the tree's order that is good: its first module is needed, and the search goes on
    behind it. So k of n modules take some k * (log2(n) + 1) tries. At last each is left out once, which must
    be bad. Ends and not beginnings: what a module in FP32 passes on is FP32 too, and keeps the operations
    behind it from overflowing that follow their input's format. The last module that helps is the faulty one.
    """
    if (yield frozenset()):
        return ()
    if not (yield frozenset(tree.names)):
        return None
    needed: list[str] = []
    rest, held = list(tree.names), frozenset[str]()
    while True:
        good, bad = 0, len(rest)
        while bad - good > 1:
            middle = (good + bad) // 2
            if (yield held | frozenset(rest[middle:])):
                good = middle
            else:
                bad = middle
        needed.append(rest[good])
        held = tree.kept_with(needed)
        if (yield held):
            break
        rest = [name for name in rest[good + 1 :] if name not in held]
    yield from _proven(tree, needed)
    return tuple(sorted(needed, key=tree.names.index))


def _proven(tree: IslandTree, needed: list[str]) -> Generator[Kept, bool, None]:
    """Leaves each of the needed modules out once, and drops those that can be."""
    index = 0
    while index < len(needed):
        others = [*needed[:index], *needed[index + 1 :]]
        if (yield tree.kept_with(others)):
            needed[:] = others
            index = 0
        else:
            index += 1
