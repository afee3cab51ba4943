"""The user's model file in a script: its code, its imports merged with the script's, and the names of both.

The file is parsed by its syntax and never run.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from engine.experiment.experiment import Experiment
from engine.experiment.own.code import MODEL, Code

LINE = 110  # the longest line of a script, in characters


def literal(value: Any) -> str:
    """Return a number, text, flag, or tuple of these as source, text in double quotes if possible."""
    if isinstance(value, tuple):
        parts = [literal(part) for part in value]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    shown = repr(value)
    if isinstance(value, str) and shown.startswith("'") and '"' not in shown:
        return f'"{shown[1:-1]}"'
    return shown


def call(room: int, function: str, *arguments: str, **named: str) -> str:
    """Return a call as source, with arguments as source, on several lines if longer than `room`."""
    parts = [*arguments, *(f"{name}={value}" for name, value in named.items())]
    joined = ", ".join(parts)
    if len(function) + len(joined) + len("()") <= room:
        return f"{function}({joined})"
    if len(joined) <= room:
        return f"{function}(\n    {joined}\n)"
    return f"{function}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def sentence_of(text: str, most: int = 90) -> str:
    """Return a user's text for a docstring: printable, on one line, and unable to end the docstring."""
    visible = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(visible.split())
    if len(line) > most:
        line = line[: most - 1].rstrip() + "…"
    return line.replace("\\", "\\\\").replace('"', '\\"')


_STANDARD = ("argparse", "dataclasses", "inspect", "itertools", "math", "os", "random", "sys", "sysconfig")
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
_OTHERS = ("numpy as np", "pyarrow.parquet", "safetensors.numpy", "timm", "torch", "torchvision")
_OTHERS_FROM = (
    ("torch", ("distributed.", "nn.")),
    ("torch.distributed.algorithms.ddp_comm_hooks", ("default_hooks.",)),
    ("torch.nn.parallel", ("DistributedDataParallel",)),
    ("torch.utils.checkpoint", ("checkpoint",)),
    ("torchao.float8", ("Float8LinearConfig.", "convert_to_float8_training(")),
    ("torchao.float8.float8_linear", ("Float8Linear)",)),
    ("torch.utils._pytree", ("tree_leaves(", "tree_map_only(")),
    ("torch.utils.data", ("DataLoader(", "IterableDataset", "default_collate(")),
    ("torchao.optim", ("AdamW4bit(", "AdamW8bit(", "AdamWFp8(", "_AdamW(")),
    ("torchvision.datasets.folder", ("ImageFolder(", "default_loader(")),
    ("torchvision.transforms", ("v2.",)),
    ("transformers", ("LlamaConfig(", "LlamaForCausalLM(")),
    ("transformers", ("AutoConfig.", "AutoModelForCausalLM.", "AutoModelForImageClassification.")),
)


def imports_of(body: str) -> str:
    """Return the import statements that the source `body` needs."""
    groups = []
    for modules, names in ((_STANDARD, _STANDARD_FROM), (_OTHERS, _OTHERS_FROM)):
        lines = [f"import {name}" for name in modules if _occurs(f"{name.rpartition(' as ')[2]}.", body)]
        for module, known in names:
            used = [name.rstrip("(.)") for name in known if _occurs(name, body)]
            lines += [f"from {module} import {', '.join(used)}"] if used else []
        groups.append("\n".join(lines))
    return "\n\n".join(filter(None, groups))


def _occurs(name: str, body: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}", body) is not None


_FILE, _MODULES = "# <the file>\n", "# <the modules>\n"  # where the file and the modules come in a script
_NAMES = {
    "loss": "loss_of",
    "forward": "outputs_of",
    "optimizer": "make_optimizer",
    "accuracy": "share_of",
    "step": "own_step",
}
"""New names for functions of the file that are named like variables in `main`."""


@dataclass(frozen=True)
class OwnFacts:
    """The properties of the user's model file that decide the script's code."""

    code: Code
    model: str

    def defines(self, name: str) -> bool:
        """Return True if the file defines that function."""
        return name in self.code.defines

    @property
    def names_parts(self) -> bool:
        """True if the file's batches may be mappings, or classes other than dicts and tuples."""
        classes = ("Mapping", "UserDict", "dataclass", "transformers", "NamedTuple", "namedtuple")
        words = (*classes, "def to(", "torch_geometric")
        return any(word in text for word in words for text in (self.code.text, *self.code.beside.values()))

    @property
    def constructor(self) -> str:
        """The expression for the model."""
        return "make_model()" if self.model == MODEL else f"{self.model}()"

    @property
    def renaming(self) -> str:
        """The statement that renames functions of the file for the script, or ""."""
        names = {name: called for name, called in _NAMES.items() if self.defines(name)}
        if self.model == MODEL:
            names = {MODEL: "make_model", **names}
        return f"{', '.join(names.values())} = {', '.join(names)}" if names else ""

    @cached_property
    def body(self) -> str:
        """The file's text without its first imports and without code for `__main__`."""
        lines = _lines(self.code.text)
        guards = (node for node in ast.parse(self.code.text).body if _guards_main(node))
        for node in (*self._leading, *guards):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (
                (node.end_lineno or node.lineno) - node.lineno + 1
            )
        return re.sub(r"\n{4,}", "\n\n\n", "".join(f"{line}\n" for line in lines)).strip("\n")

    @property
    def imports(self) -> tuple[str, ...]:
        """The imports at the start of the file, except those of modules next to it."""
        return tuple(map(ast.unparse, self._leading))

    @property
    def companions(self) -> dict[str, str]:
        """The modules next to the file by name, as source of their texts. Packages have none."""
        # where there is a package too, Python takes that
        files = sorted(
            self.code.beside.items(), key=lambda item: PurePosixPath(item[0]).name == "__init__.py"
        )
        texts = {_module(path): text for path, text in files}
        parts = [name.split(".") for name in texts]
        folders = {".".join(names[:end]): "" for names in parts for end in range(1, len(names))}
        return {name: source_literal(text) for name, text in {**folders, **texts}.items()}

    @cached_property
    def _leading(self) -> list[ast.Import | ast.ImportFrom]:
        beside = {_module(name).partition(".")[0] for name in self.code.beside}
        found: list[ast.Import | ast.ImportFrom] = []
        body, lines = ast.parse(self.code.text).body, _lines(self.code.text)
        for place, node in enumerate(body):
            if place == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue
            if not isinstance(node, ast.Import | ast.ImportFrom) or ";" in lines[node.lineno - 1]:
                break
            if not beside & _roots(node):
                found.append(node)
        return found


def own_facts(experiment: Experiment) -> OwnFacts | None:
    """Return the facts of the experiment's model file, or None for a model of the catalog."""
    code, model = experiment.own_code, experiment.model
    return None if code is None or model.file is None else OwnFacts(code, model.class_name or MODEL)


def fill_markers(own: OwnFacts, body: str) -> str:
    """Return the body of a script with the user's code at its markers."""
    before, after = _renamed(body, own.code.defines).split(_FILE)
    modules = "".join(f"    {literal(name)}: {source},\n" for name, source in own.companions.items())
    head = before.replace(_MODULES, modules).rstrip()
    return f"{head}\n\n\n# {sentence_of(own.code.file)}\n{own.body}\n\n\n{after}"


def source_literal(text: str) -> str:
    """Return a text of several lines as source, readable if possible."""
    if not text:
        return '""'
    shown = text if text.endswith("\n") else f"{text}\n"
    escaped = shown.replace("\\", "\\\\").replace("'''", "\\'\\'\\'")
    for source in (f"'''\\\n{shown}'''", f"r'''{shown}'''", f"'''\\\n{escaped}'''"):
        with suppress(SyntaxError, ValueError):
            if ast.literal_eval(source) == shown:
                return source
    return repr(shown)


def merged_imports(*sources: str) -> str:
    """Return the import statements of all sources, each name once, in the usual order."""
    plain: set[str] = set()
    names: dict[str, set[str]] = {}
    for source in sources:
        for node in ast.parse(source).body:
            assert isinstance(node, ast.Import | ast.ImportFrom)
            shown = {f"{name.name} as {name.asname}" if name.asname else name.name for name in node.names}
            if isinstance(node, ast.Import):
                plain |= shown
            else:
                names.setdefault(f"{'.' * node.level}{node.module or ''}", set()).update(shown)
    groups: dict[int, list[str]] = {}
    for shown_name in sorted(plain):
        groups.setdefault(_group(shown_name), []).append(f"import {shown_name}")
    for module in sorted(names):
        groups.setdefault(_group(module), []).append(_from(module, sorted(names[module], key=_usual)))
    return "\n\n".join("\n".join(groups[group]) for group in sorted(groups))


def _renamed(source: str, taken: Iterable[str]) -> str:
    own = {
        name.id if isinstance(name, ast.Name) else name.name
        for node in ast.parse(source).body
        for name in (node.targets if isinstance(node, ast.Assign) else [node])
        if isinstance(name, ast.Name | ast.FunctionDef | ast.ClassDef)
    }
    clashes = own & set(taken)
    if not clashes:
        return source
    lines = source.splitlines(keepends=True)
    for token in reversed(list(_names_in(source))):
        if token.string in clashes:
            (row, start), (_, end) = token.start, token.end
            new = f"RUN_{token.string}" if token.string.isupper() else f"run_{token.string}"
            lines[row - 1] = lines[row - 1][:start] + new + lines[row - 1][end:]
    return "".join(lines)


def _names_in(source: str) -> Iterator[tokenize.TokenInfo]:
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and before != ".":
            yield token
        before = token.string


def _lines(text: str) -> list[str]:
    # as Python counts them: other characters that end a line of text are within one
    return re.split(r"\r\n|\r|\n", text)


def _guards_main(node: ast.stmt) -> bool:
    # it runs only where the file is the program itself
    match node:
        case ast.If(ast.Compare(ast.Name("__name__"), [ast.Eq()], [ast.Constant("__main__")]), _, []):
            return True
    return False


def _module(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _roots(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").partition(".")[0]}
    return {name.name.partition(".")[0] for name in node.names}


def _group(module: str) -> int:
    root = re.split(r"[. ]", module, maxsplit=1)[0]
    return 0 if root == "__future__" else 1 if root in sys.stdlib_module_names else 2


def _usual(name: str) -> tuple[int, str]:
    # constants, classes, functions
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2), name


def _from(module: str, names: Sequence[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= LINE:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"
