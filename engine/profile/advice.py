"""The advice on profiles, with the sides that it is for."""

from __future__ import annotations

from engine.profile.names import side_names
from engine.protocol.advice import Advice
from engine.protocol.profiles import Profiles


def advice_by_side(profiles: Profiles) -> tuple[tuple[str, Advice], ...]:
    """Pieces of advice after the names of their sides; no name where there is one side.

    None comes from a side that was disturbed.
    """
    sides: dict[Advice, list[str]] = {}
    for name, side in zip(side_names(profiles), profiles.sides, strict=True):
        if side.profile is None or side.profile.disturbance is not None:
            continue
        for advice in side.profile.advice:
            sides.setdefault(advice, []).append(name if len(profiles.sides) > 1 else "")
    return tuple((", ".join(names), advice) for advice, names in sides.items())
