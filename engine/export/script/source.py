"""The Python source of a script: literals, import statements, long lines, and the user's model file."""

from __future__ import annotations

import ast
import io
import keyword
import re
import sys
import tokenize
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from engine.experiment.experiment import Experiment
from engine.experiment.own.code import MODEL, Code

LIBRARIES = ("torch", "torchao", "torchvision", "transformers", "timm", "pyarrow", "safetensors", "numpy")
LINE = 110  # the longest line of a script, in characters


def literal(value: Any) -> str:
    """Return a number, text, boolean, None or a tuple of these as Python source.

    Text is in double quotes if possible.
    """
    if isinstance(value, tuple):
        parts = [literal(part) for part in value]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    shown = repr(value)
    if isinstance(value, str) and shown.startswith("'") and '"' not in shown:
        return f'"{shown[1:-1]}"'
    return shown


def call(function: str, *arguments: str, **named: str) -> str:
    """Return a call as source, with arguments as source."""
    return f"{function}({', '.join([*arguments, *(f'{name}={value}' for name, value in named.items())])})"


def sentence_of(text: str, most: int = 90) -> str:
    """Return a user's text for a docstring: printable, on one line, and unable to end the docstring."""
    visible = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(visible.split())
    if len(line) > most:
        line = line[: most - 1].rstrip() + "…"
    return line.replace("\\", "\\\\").replace('"', '\\"')


def folded(source: str) -> str:
    """Return the source with long lines broken at their longest bracket, as ruff formats them."""
    return "".join(_folded(line) if len(line) > LINE else f"{line}\n" for line in source.splitlines())


def _folded(line: str) -> str:
    indent = " " * (len(line) - len(line.lstrip()))
    opened: list[int] = []
    outer, commas = (0, 0), []
    for token in tokenize.generate_tokens(io.StringIO(line.strip()).readline):
        place = token.start[1] + len(indent)
        if token.string in "([{" and token.type == tokenize.OP:
            opened.append(place)
        elif token.string in ")]}" and token.type == tokenize.OP:
            start = opened.pop()
            if not opened and place - start > outer[1] - outer[0]:
                outer = (start, place)
        elif token.string == "," and len(opened) == 1:
            commas.append(place)
    start, end = outer
    if end - start < 2:
        return f"{line}\n"
    inner = line[start + 1 : end]
    if len(indent) + 4 + len(inner) <= LINE:
        parts = [inner]
    else:
        cuts = [start, *(place for place in commas if start < place < end), end]
        parts = [f"{line[first + 1 : last].strip()}," for first, last in pairwise(cuts)]
    return "\n".join([line[: start + 1], *(f"{indent}    {part}" for part in parts), indent + line[end:], ""])


_MODULES = ("argparse", "dataclasses", "inspect", "itertools", "math", "os", "random", "sys", "sysconfig")
_NAMES = {
    "collections": ("Counter", "OrderedDict"),
    "collections.abc": ("Mapping",),
    "contextlib": ("contextmanager", "nullcontext"),
    "fnmatch": ("fnmatchcase",),
    "functools": ("partial",),
    "pathlib": ("Path",),
}
_LIBRARY_MODULES = (
    *("numpy as np", "pyarrow.parquet", "safetensors.numpy", "timm", "torch"),
    *("torch._functorch.config as functorch_config", "torchvision"),
)
_LIBRARY_NAMES = {
    "torch": ("distributed", "nn"),
    "torch.distributed.algorithms.ddp_comm_hooks": ("default_hooks",),
    "torch.nn.attention": ("SDPBackend", "sdpa_kernel"),
    "torch.nn.parallel": ("DistributedDataParallel",),
    "torch.utils.checkpoint": ("checkpoint", "create_selective_checkpoint_contexts"),
    "torchao.float8": ("Float8LinearConfig", "convert_to_float8_training"),
    "torchao.float8.float8_linear": ("Float8Linear",),
    "torch.utils._pytree": ("tree_leaves", "tree_map_only"),
    "torch.utils.data": ("DataLoader", "IterableDataset", "default_collate"),
    "torchao.optim": ("AdamW4bit", "AdamW8bit", "AdamWFp8", "_AdamW"),
    "torchvision.datasets.folder": ("ImageFolder", "default_loader"),
    "torchvision.transforms": ("v2",),
    "transformers": (
        "AutoConfig",
        "AutoModelForCausalLM",
        "AutoModelForImageClassification",
        "LlamaConfig",
        "LlamaForCausalLM",
    ),
}


def imports_of(body: str) -> str:
    """Return the import statements that the source `body` needs."""
    used, groups = _names_in(body), []
    for modules, members in ((_MODULES, _NAMES), (_LIBRARY_MODULES, _LIBRARY_NAMES)):
        lines = [f"import {name}" for name in modules if _bound(name) in used]
        for module, known in members.items():
            names = [name for name in known if name in used]
            lines += [f"from {module} import {', '.join(names)}"] if names else []
        groups.append("\n".join(lines))
    return "\n\n".join(filter(None, groups))


def _bound(module: str) -> str:
    # "numpy as np" binds np, and "pyarrow.parquet" binds pyarrow
    return module.partition(" as ")[2] or module.partition(".")[0]


def _names_in(body: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}


# the functions that a script uses from the user's model file, and their names in the script if others
_OWN_NAMES = {
    "batch": "batch",
    "batch_size": "batch_size",
    "collate": "collate",
    "dataset": "dataset",
    "validation_dataset": "validation_dataset",
    "accuracy": "share_of",
    "forward": "outputs_of",
    "loss": "loss_of",
    "optimizer": "make_optimizer",
    "step": "own_step",
}


@dataclass(frozen=True)
class OwnFacts:
    """The properties of the user's model file that decide the script's code. `model` makes the model."""

    code: Code
    model: str

    def defines(self, name: str) -> bool:
        """Return True if the file defines that function."""
        return name in self.code.defines

    @property
    def module(self) -> str:
        """The name under which the script imports the file."""
        # as Python reads the name in a statement
        stem = re.sub(r"\W", "_", unicodedata.normalize("NFKC", PurePath(self.code.file).stem))
        name = stem if stem.isidentifier() else f"_{stem}"
        beside = {path.partition("/")[0].removesuffix(".py") for path in self.code.beside}
        taken = {"__main__", *keyword.kwlist, *sys.stdlib_module_names, *LIBRARIES, *beside}
        # the modules next to it may import the file itself
        if self.code.file in self.code.beside:
            taken.discard(stem)
        while name in taken:
            name += "_model"
        return name

    def import_lines(self, body: str) -> str:
        """Return the import statements for the names of the user's file that the source `body` uses."""
        used = {name: called for name, called in _OWN_NAMES.items() if called in _names_in(body)}
        names = {self.model: "make_model", **{name: used[name] for name in used if self.defines(name)}}
        plain = ", ".join(sorted(name for name, called in names.items() if name == called))
        renamed = sorted(f"{name} as {called}" for name, called in names.items() if name != called)
        lines = (f"from {self.module} import {part}  # noqa: E402" for part in (plain, *renamed) if part)
        return "\n".join(lines)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the relative paths and contents of the file and of the modules that it imports."""
        yield f"{self.module}.py", _encoded(self.code.text)
        for path, text in self.code.beside.items():
            yield path, _encoded(text)


def _encoded(text: str) -> bytes:
    encoding = "utf-8"
    # an unknown encoding is for Python to report
    with suppress(SyntaxError):
        encoding, _ = tokenize.detect_encoding(io.BytesIO(text.encode()).readline)
    return text.encode(encoding, "backslashreplace")


def own_facts(experiment: Experiment) -> OwnFacts | None:
    """Return the facts of the experiment's model file, or None for a model of the catalog."""
    code, model = experiment.own_code, experiment.model
    return None if code is None or model.file is None else OwnFacts(code, model.class_name or MODEL)
