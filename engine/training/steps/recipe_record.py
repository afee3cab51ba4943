"""Which parts of a recipe are in force, and why the others are not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.parts import RecipePart, joined


class RecipeRecord:
    """The parts that were asked for, and what became of them as steps were made."""

    def __init__(self, wanted: Iterable[RecipePart]) -> None:
        self._in_force = list(wanted)
        self._left_out: dict[str, str] = {}
        self._notes: list[str] = []

    @property
    def recipe(self) -> str:
        """What is in force, by the name that `engine.parts.joined` gives it."""
        return joined(self._in_force)

    @property
    def left_out(self) -> Mapping[str, str]:
        """Parts that could not be had, each with the reason as a short clause."""
        return self._left_out

    def has(self, part: RecipePart) -> bool:
        """Whether the part was asked for and is still in force."""
        return part in self._in_force

    def leave_out(self, part: RecipePart, reason: str) -> None:
        """Takes a part out of force; only the first reason is kept."""
        if part in self._left_out:
            return
        self._in_force = [other for other in self._in_force if other != part]
        self._left_out[part] = reason
        self._notes.append(f"The recipe goes without {part}: {reason}.")

    def take_notes(self) -> list[str]:
        """What was left out since the last call, a sentence each."""
        notes, self._notes = self._notes, []
        return notes
