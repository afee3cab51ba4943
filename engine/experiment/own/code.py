"""The code of the user's own model, stored as text: a model file and modules from its folder.

The code is not run here. Its definitions are found by parsing.
"""

from __future__ import annotations

import ast
import hashlib
import io
import itertools
import json
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from engine.experiment.own.library_models import ModelRef
from engine.experiment.paths import is_remote, read_file
from engine.experiment.problem import Problem, ProblemError, request_error, request_problem
from engine.experiment.value import Message, shortened

MOST_CODE_BYTES = 2**20  # for a model file and its modules together
OWN_DATA = "own"  # the dataset of a model that brings its own
MODEL, BATCH, DATASET = "model", "batch", "dataset"


class Code(Message):
    """The source code of a model file, and of the modules next to it that it imports.

    `folder` is the model file's folder, and `beside` has the source of these modules by relative path.
    """

    file: str = Field(min_length=4, max_length=255, pattern=r"^[^/]+\.py$")
    folder: str = Field(max_length=4_096)
    text: str = Field(max_length=MOST_CODE_BYTES)
    beside: Mapping[str, str] = {}

    @model_validator(mode="after")
    def _leads_nowhere_else(self) -> Self:
        # the name stands in sentences, titles and scripts
        if not self.file.isprintable() or self.file != PureWindowsPath(self.file).name:
            raise ValueError("the file's name is a path, or cannot be printed")
        # the folder of another system is absolute there
        systems = (PurePosixPath, PureWindowsPath)
        if "\0" in self.folder or not any(kind(self.folder).is_absolute() for kind in systems):
            raise ValueError("its folder is not an absolute path")
        for name in self.beside:
            # an import names nothing else; so no part is a drive, a parent folder or empty on any system
            if not name.endswith(".py") or not all(map(str.isidentifier, name[:-3].split("/"))):
                raise ValueError("a module next to it has a name that cannot be imported")
        return self

    @property
    def place(self) -> Path:
        """The path that the model file was read from."""
        return Path(self.folder, self.file)

    @cached_property
    def sha256(self) -> str:
        """The identity of the code. The same text in another folder is the same code."""
        parts = [self.file, self.text, *(part for item in sorted(self.beside.items()) for part in item)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def short(self) -> str:
        """The file and the start of the hash, as shown for the setting: "net.py, 3f2a1c9d"."""
        return f"{self.file}, {self.sha256[:8]}"

    @cached_property
    def defines(self) -> frozenset[str]:
        """The names that the file defines or imports at its top level."""
        return frozenset(_imported_names(ast.parse(self.text).body))

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The classes in the file that derive from a class of torch.nn, directly or not, in order."""
        known: list[str] = []
        for node in ast.parse(self.text).body:
            if isinstance(node, ast.ClassDef) and any(_is_module(base, known) for base in node.bases):
                known.append(node.name)
        return tuple(known)

    @property
    def brings_data(self) -> bool:
        """Return True if the file provides its own data."""
        return bool({BATCH, DATASET} & self.defines)

    def to_json(self) -> str:
        return self.model_dump_json()


@dataclass(frozen=True)
class File:
    """A Python file as text and as its syntax tree."""

    name: str
    text: str
    tree: ast.Module


def parse_files(code: Code | None) -> Iterator[File]:
    """Yield the workload file and its companion modules, parsed. Nothing without a file."""
    for name, text in ((code.file, code.text), *code.beside.items()) if code is not None else ():
        # importing a module that is not Python says so
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            yield File(name, text, ast.parse(text))


def last_name(node: ast.expr) -> str:
    """Return the last name of an expression: "step" of `train.optimizer.step`, "a" of `a[0]`, or ""."""
    while isinstance(node, ast.Subscript):
        node = node.value
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


@lru_cache(maxsize=64)
def code_from(text: str) -> Code:
    """Read code from the output of `Code.to_json`. Raises ValueError, also for invalid Python."""
    try:
        code = Code.model_validate_json(text)
        ast.parse(code.text)
    except ValidationError as error:
        raise ValueError(f"it is not stored code ({shortened(error.errors()[0]['msg'])})") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError("it is not valid Python") from None
    if len(text) > 2 * MOST_CODE_BYTES + 2**16:
        raise ValueError(f"it is larger than {MOST_CODE_BYTES // 2**10:,} KiB")
    return code


def read_code(path: str | Path) -> Code:
    """Read a model file and the modules that it imports from its folder. Raises ProblemError."""
    place = _place(path)
    try:
        text = read_file(place, MOST_CODE_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise _path_error(place, f"cannot be read: {error.strerror}", "Select a Python file.") from None
    except UnicodeDecodeError:
        raise _path_error(place, "is not UTF-8 text", "Select a Python file.") from None
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        where = f"line {error.lineno}" if error.lineno else "the file"
        why = f"is not valid Python ({where}: {shortened(error.msg, 200)})"
        raise _path_error(place, why, "Fix that line.") from None
    except (ValueError, RecursionError, MemoryError):
        why = "is not valid Python (nested too deeply, or with null characters)"
        raise _path_error(place, why, "Fix that line.") from None
    beside: dict[str, str] = {}
    _collect(place.parent, tree, (), beside, MOST_CODE_BYTES - len(text.encode()))
    try:
        return Code(file=place.name, folder=str(place.parent), text=text, beside=beside)
    except ValidationError:
        why = "has a name that cannot be stored"
        raise _path_error(place, why, "Rename it, e.g. to net.py.") from None


def remote_problem(path: str | Path) -> Problem | None:
    """Return the problem of a path on a remote machine, which must not be opened because Windows would send
    the user's name there. None for a local path.
    """
    if not is_remote(path):
        return None
    message = f"The model file {shortened(str(path), 300)} is on a remote machine and was not opened."
    return request_problem(message, "To use it, open it yourself.", key="model", value=str(path))


def with_code(
    settings: Mapping[str, Any], *, names_model: bool, names_dataset: bool, is_typed: bool = False
) -> dict[str, Any]:
    """Return nested settings with the code of their model file, if the model is a file. Raises ProblemError.

    `names_model` and `names_dataset`: the changes to a preset set the model or the dataset. A newly set file
    is read again. If it provides data, it is trained on them unless a dataset was set. `is_typed`: the user
    typed the model just now, which a command of the settings would ignore.
    """
    command = settings.get("command")
    is_script = isinstance(command, Mapping) and bool(command.get("line"))
    if is_script and is_typed:
        message = "A model and a command are both set, but only one of them can train."
        raise request_error(message, "Remove one of them.", key="model", value=settings.get("model"))
    model = ModelRef(settings.get("model") or "")
    if model.file is None or is_script:
        return {key: value for key, value in settings.items() if key != "code"}
    code = chosen_code(settings, names_model=names_model, is_typed=is_typed)
    if code is None:
        return dict(settings)
    result = {**settings, "model": model.in_file(code.file), "code": code.to_json()}
    if code.brings_data and not names_dataset:
        result |= {"dataset": OWN_DATA, "path": None, "image_size": None, "num_classes": None}
    return result


def chosen_code(settings: Mapping[str, Any], *, names_model: bool, is_typed: bool) -> Code | None:
    """Read the code of the model file, unless the settings contain it. Raises ProblemError."""
    file = ModelRef(settings.get("model") or "").file
    if file is None:
        return None
    is_kept = bool(settings.get("code"))
    # before it is looked for, which would ask the other machine
    if not is_typed and (names_model or not is_kept) and (problem := remote_problem(file)) is not None:
        raise ProblemError(problem)
    if is_kept and not (names_model and Path(file).expanduser().exists()):
        return None
    return read_code(file)


def keeps_code(model: object, code: object) -> bool:
    """Return True if `model` is the bare file name of the stored code, with or without a class."""
    if not isinstance(model, str) or not isinstance(code, str):
        return False
    try:
        return code_from(code).file == ModelRef(model).file
    except ValueError:
        return False


def _place(path: str | Path) -> Path:
    try:
        place = Path(path).expanduser().absolute()
        if place.is_file():
            return place
        is_other = "is a pipe or a device, not a file" if place.exists() else "does not exist"
        what = "is a folder" if place.is_dir() else is_other
    except (OSError, RuntimeError, ValueError) as error:
        place, what = Path(str(path)), f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise _path_error(place, what, "Check the path.")


def _path_error(place: Path, why: str, remedy: str) -> ProblemError:
    message = f"The model file {shortened(str(place), 300)} {why}."
    return request_error(message, remedy, key="model", value=str(place))


def _collect(folder: Path, tree: ast.Module, package: _Package, beside: dict[str, str], room: int) -> int:
    # adds the modules of `folder` that `tree` imports, and theirs; returns the bytes of room left
    for module in _imported(tree, package):
        for place in _files_of(folder, module):
            name = place.relative_to(folder).as_posix()
            if name in beside:
                continue
            try:
                content = io.BytesIO(read_file(place, room))
                encoding, _ = tokenize.detect_encoding(content.readline)
                text = io.TextIOWrapper(io.BytesIO(content.getvalue()), encoding).read()
            except (OSError, ValueError, SyntaxError):
                # importing it will say that it is not kept
                continue
            if len(text.encode()) > room:
                continue
            beside[name] = text
            room -= len(text.encode())
            # importing one that is not Python will say so, with its own file and line
            with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                room = _collect(folder, ast.parse(text), Path(name).parent.parts, beside, room)
    return room


_Package = tuple[str, ...]
_IMPORTERS = ("import_module", "__import__")


def _imported(tree: ast.Module, package: _Package) -> Iterator[str]:
    # by import statements, and by calls that say by which name or in which package; "*" is all of a package
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=module, level=level, names=names):
                if base := _absolute_name("." * level + (module or ""), package):
                    yield base
                    yield from (f"{base}.{name.name}" for name in names)
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=[name, *_]):
                match name if called in _IMPORTERS else None:
                    case ast.Constant(value=str(text)):
                        yield _absolute_name(text, package)
                    case (
                        ast.JoinedStr(values=[ast.Constant(value=str(text)), *_])
                        | ast.BinOp(left=ast.Constant(value=str(text)))
                    ) if "." in text:
                        yield f"{_absolute_name(text.rpartition('.')[0] or '.', package)}.*"
                    case ast.expr() if package:
                        yield ".".join((*package, "*"))


def _absolute_name(module: str, package: _Package) -> str:
    # a module's name without the dots of a relative import; empty if they lead out of the folder
    name = module.lstrip(".")
    level = len(module) - len(name)
    if level > len(package):
        return ""
    return ".".join((*package[: len(package) - level + 1], name) if level else (name,)).strip(".")


def _files_of(folder: Path, module: str) -> Iterator[Path]:
    # those that its import runs: its packages' and its own; Python's own modules come before any of that name
    first, *_ = parts = module.split(".")
    # a name in a call is any text, even a path that leads elsewhere
    if first in sys.stdlib_module_names or not all(part.isidentifier() or part == "*" for part in parts):
        return
    place = folder
    for part in parts:
        if part == "*":
            found = place.glob("*.py") if place != folder else ()
            yield from sorted(file for file in found if file.stem.isidentifier() and file.is_file())
            return
        files = (place / part / "__init__.py", place / f"{part}.py")
        yield from itertools.islice(filter(Path.is_file, files), 1)
        place /= part


def _imported_names(body: Iterable[ast.stmt]) -> Iterator[str]:
    # not by recursion: each `elif` stands within the one before it
    waiting = list(body)
    while waiting:
        match node := waiting.pop():
            case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.Import() | ast.ImportFrom():
                yield from (name.asname or name.name.partition(".")[0] for name in node.names)
            case ast.Assign():
                inside = (inner for goal in node.targets for inner in ast.walk(goal))
                yield from (inner.id for inner in inside if isinstance(inner, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.If() | ast.Try() | ast.With():
                for part in ("body", "orelse", "finalbody"):
                    waiting += getattr(node, part, ())


def _is_module(base: ast.expr, known: Sequence[str]) -> bool:
    *owner, name = ast.unparse(base).split(".")
    return owner[-1:] == ["nn"] or name in ("Sequential", *known) or name.endswith("Module")


# a frame of a traceback, as Python writes it
_FRAME = re.compile(r'^\s*File "(.+)", line (\d{1,9})\b(?:, in (\S+))?', re.MULTILINE)
BEFORE, AFTER = 6, 2  # lines around the failing one


@dataclass(frozen=True)
class CodeLocation:
    """The place where the user's code failed, with an excerpt `lines` of the file from line `first` on."""

    path: Path
    line: int
    function: str
    first: int
    lines: tuple[str, ...]

    @property
    def short(self) -> str:
        """The file and the line: "net.py:14"."""
        return f"{self.path.name}:{self.line}"


def place_of(detail: str, code: Code | None) -> CodeLocation | None:
    """Return the innermost frame of a traceback in the user's own code. None if there is no such frame."""
    if code is None:
        return None
    texts = {code.file: code.text, **code.beside}
    for path, number, function in reversed(_FRAME.findall(detail)):
        name = next((name for name in texts if PurePath(path).as_posix().endswith(f"/{name}")), None)
        name = path if name is None and path in texts else name
        if name is not None:
            lines, line = texts[name].splitlines(), int(number)
            first = max(1, line - BEFORE)
            around = tuple(lines[first - 1 : line + AFTER])
            return CodeLocation(Path(code.folder, name), line, function, first, around)
    return None
