"""Names of recipes."""

from __future__ import annotations

_PART_WORDS = {
    "channels_last": "channels last",
    "fused": "fused optimizer",
    "compile": "compiled",
    "capture": "captured",
}


def recipe_words(recipe: str) -> str:
    """A recipe as it stands in a sentence: "fast", or "channels last + compiled"."""
    return " + ".join(_PART_WORDS.get(part, part) for part in recipe.split("+"))

