"""The names of the models of timm and transformers, read from their sources.

Importing either library takes seconds, so none is imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from engine.experiment.checks import ModelEntry, Task

_REGISTERED = re.compile(r"^@register_model\b.*\n(?:[@#].*\n)*def (\w+)\(", re.MULTILINE)
_AUTO_CLASSES = "models/auto/modeling_auto.py"

CAUSAL, IMAGE, SEQUENCE, AUDIO = (
    "CAUSAL_LM",
    "IMAGE_CLASSIFICATION",
    "SEQUENCE_CLASSIFICATION",
    "AUDIO_CLASSIFICATION",
)
HEADS: Mapping[str, Task] = {CAUSAL: "language", IMAGE: "classification", SEQUENCE: "own", AUDIO: "own"}
"""The heads that a type is built with, the first that it has: by transformers' own names."""


def library_entries() -> tuple[ModelEntry, ...]:
    """All models of the libraries that are installed. How many parameters they have is not known."""
    return (*_timm_entries(), *_transformers_entries())


def heads_by_type() -> Mapping[str, str]:
    """The head of each of transformers' types that can be trained here; empty without the library."""
    folder = _folder("transformers")
    if folder is None:
        return {}
    by_head = _types_by_head((folder / _AUTO_CLASSES).read_text(encoding="utf-8"))
    heads: dict[str, str] = {}
    for head in HEADS:
        for name in by_head.get(head, ()):
            heads.setdefault(name, head)
    return heads


def _timm_entries() -> Iterator[ModelEntry]:
    folder = _folder("timm")
    if folder is None:
        return
    names = {
        name
        for path in (folder / "models").rglob("*.py")
        for name in _REGISTERED.findall(path.read_text(encoding="utf-8"))
    }
    for name in sorted(names):
        yield ModelEntry(name=f"timm:{name}", task="classification", family="timm")


def _transformers_entries() -> Iterator[ModelEntry]:
    for name, head in sorted(heads_by_type().items()):
        yield ModelEntry(name=f"hf:{name}", task=HEADS[head], family="transformers")


def _folder(package: str) -> Path | None:
    spec = find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _types_by_head(source: str) -> dict[str, list[str]]:
    """The first names in the ordered dictionaries `MODEL_FOR_{head}_MAPPING_NAMES`."""
    names = {f"MODEL_FOR_{head}_MAPPING_NAMES": head for head in HEADS}
    found: dict[str, list[str]] = {}
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        head = names.get(statement.targets[0].id)
        if head is not None and isinstance(statement.value, ast.Call):
            (pairs,) = statement.value.args
            found[head] = [name for name, _ in ast.literal_eval(pairs)]
    return found
