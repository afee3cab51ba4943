"""Names of recipes and of their parts."""

from __future__ import annotations

from collections.abc import Mapping

from engine.records.recipe_words import recipe_words

_PART_NOUNS = {
    "channels_last": "channels last",
    "fused": "fused optimizer",
    "compile": "compiling",
    "capture": "capturing",
}


def recipe_title(recipe: str) -> str:
    """A recipe as a cell or a line begins with it: "Fast", or "Channels last + compiled"."""
    words = recipe_words(recipe)
    return words[:1].upper() + words[1:]


def left_out_words(left_out: Mapping[str, str]) -> str:
    """The parts that were asked for and not had, each with its reason."""
    return "\n".join(
        f"{_PART_NOUNS.get(part, part)}: {reason.rstrip('.')}" for part, reason in left_out.items()
    )
