"""Python source for a script: literals, calls, and the imports that its body needs.

No value can break out of its literal. Imports are in the usual order.
"""

from __future__ import annotations

import re
from typing import Any

LINE = 110
"""The longest line of a script, in characters."""


def literal(value: Any) -> str:
    """A number, text, flag, or tuple of these as source; text in double quotes if possible."""
    if isinstance(value, tuple):
        parts = [literal(part) for part in value]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    shown = repr(value)
    if isinstance(value, str) and shown.startswith("'") and '"' not in shown:
        return f'"{shown[1:-1]}"'
    return shown


def call(room: int, function: str, *arguments: str, **named: str) -> str:
    """A call as source, with arguments as source; on several lines if it is longer than `room`."""
    parts = [*arguments, *(f"{name}={value}" for name, value in named.items())]
    joined = ", ".join(parts)
    if len(function) + len(joined) + len("()") <= room:
        return f"{function}({joined})"
    if len(joined) <= room:
        return f"{function}(\n    {joined}\n)"
    return f"{function}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def sentence_of(text: str, most: int = 90) -> str:
    """A user's text for a docstring: printable, on one line, and unable to end the docstring."""
    visible = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(visible.split())
    if len(line) > most:
        line = line[: most - 1].rstrip() + "…"
    return line.replace("\\", "\\\\").replace('"', '\\"')


_STANDARD = (
    ("import argparse", "argparse."),
    ("import dataclasses", "dataclasses."),
    ("import inspect", "inspect."),
    ("import itertools", "itertools."),
    ("import math", "math."),
    ("import random", "random."),
    ("import sys", "sys."),
    ("import sysconfig", "sysconfig."),
)
_STANDARD_FROM = (
    ("collections", ("Counter(", "OrderedDict(")),
    ("collections.abc", ("Mapping",)),
    ("contextlib", ("contextmanager", "nullcontext(")),
    ("fnmatch", ("fnmatchcase(",)),
    ("functools", ("partial(",)),
    ("importlib.abc", ("InspectLoader",)),
    ("importlib.util", ("spec_from_loader(",)),
    ("pathlib", ("Path(",)),
)
_OTHERS = (
    ("import numpy as np", "np."),
    ("import pyarrow.parquet", "pyarrow.parquet."),
    ("import safetensors.numpy", "safetensors.numpy."),
    ("import timm", "timm."),
    ("import torch", "torch."),
    ("import torchvision", "torchvision."),
)
_OTHERS_FROM = (
    ("torch", ("nn.",)),
    ("torch.utils.checkpoint", ("checkpoint",)),
    ("torch.utils._pytree", ("tree_leaves(", "tree_map_only(")),
    ("torch.utils.data", ("DataLoader(", "IterableDataset", "default_collate(")),
    ("torchvision.datasets.folder", ("ImageFolder(", "default_loader(")),
    ("torchvision.transforms", ("v2.",)),
    ("transformers", ("LlamaConfig(", "LlamaForCausalLM(")),
    ("transformers", ("AutoConfig.", "AutoModelForCausalLM.", "AutoModelForImageClassification.")),
)


def imports_of(body: str) -> str:
    """The import statements that the source `body` needs."""
    groups = (
        [*_whole(_STANDARD, body), *_parts(_STANDARD_FROM, body)],
        [*_whole(_OTHERS, body), *_parts(_OTHERS_FROM, body)],
    )
    return "\n\n".join("\n".join(lines) for lines in groups if lines)


def _whole(known: tuple[tuple[str, str], ...], body: str) -> list[str]:
    return [statement for statement, name in known if _occurs(name, body)]


def _parts(known: tuple[tuple[str, tuple[str, ...]], ...], body: str) -> list[str]:
    lines = []
    for module, names in known:
        used = [name.rstrip("(.") for name in names if _occurs(name, body)]
        if used:
            lines.append(f"from {module} import {', '.join(used)}")
    return lines


def _occurs(name: str, body: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}", body) is not None
