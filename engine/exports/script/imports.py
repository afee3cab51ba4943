"""The imports of a script: those whose names occur in it, in their usual order."""

from __future__ import annotations

import re

_STANDARD = (
    ("import argparse", "argparse."),
    ("import itertools", "itertools."),
    ("import math", "math."),
    ("import sys", "sys."),
    ("import sysconfig", "sysconfig."),
)
_STANDARD_FROM = (
    ("collections", ("Counter(", "OrderedDict(")),
    ("fnmatch", ("fnmatchcase(",)),
    ("functools", ("partial(",)),
    ("pathlib", ("Path(",)),
)
_OTHERS = (
    ("import numpy as np", "np."),
    ("import torch", "torch."),
    ("import torchvision", "torchvision."),
)
_OTHERS_FROM = (
    ("torch", ("nn.",)),
    ("torch.utils.checkpoint", ("checkpoint",)),
    ("torch.utils.data", ("DataLoader(",)),
    ("torchvision.datasets.folder", ("ImageFolder(", "default_loader(")),
    ("torchvision.transforms", ("v2.",)),
    ("transformers", ("LlamaConfig(", "LlamaForCausalLM(")),
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
        found = [name.rstrip("(.") for name in names if _occurs(name, body)]
        if found:
            lines.append(f"from {module} import {', '.join(found)}")
    return lines


def _occurs(name: str, body: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}", body) is not None
