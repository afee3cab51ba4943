"""Safe settings of library models: sizes, rates, flags, and words such as gelu.

The libraries also have settings that name a file, a repository or code, and each release may add one. So
`resources/model-settings.toml` is an allowlist of names and values.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

# of a name's words, those that mean something else alone come first
_WORDS = re.compile(r"drop_path|d_model|use_cache|[^\W_]+")


def may_set(key: str) -> bool:
    """Return whether anyone may set the model setting of this name, dotted or not."""
    words = _WORDS.findall(key.rpartition(".")[2].lower())
    return bool(words) and _listed("names").issuperset(words)


def is_plain(value: Any) -> bool:
    """Return whether a value holds only numbers, flags, known words, and lists and tables of these."""
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and may_set(key) and is_plain(inner) for key, inner in value.items())
    return value is None or isinstance(value, bool | int | float) or value in _listed("values")


@cache
def _listed(part: str) -> frozenset[str]:
    text = (files("resources") / "model-settings.toml").read_text(encoding="utf-8")
    return frozenset(tomllib.loads(text)[part].split())
