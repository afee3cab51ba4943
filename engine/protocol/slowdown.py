"""Reasons for low clocks of a card: the bits of the column `slowdown` of `Samples`, and their words."""

from __future__ import annotations

from enum import IntFlag


class Slowdown(IntFlag):
    """Reasons that hold the clocks down at the same time.

    A busy card normally works at its power limit, which is no disturbance; the others are.
    """

    HEAT = 1
    POWER_SUPPLY = 2
    POWER_LIMIT = 4

    @property
    def disturbances(self) -> Slowdown:
        """Without the card's own power limit."""
        return self & ~Slowdown.POWER_LIMIT

    @property
    def words(self) -> tuple[str, ...]:
        """Each reason as a phrase: "heat"."""
        return tuple(_WORDS[reason] for reason in self)


_WORDS = {
    Slowdown.HEAT: "heat",
    Slowdown.POWER_SUPPLY: "the power supply",
    Slowdown.POWER_LIMIT: "the power limit",
}
