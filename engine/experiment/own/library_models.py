"""Names of models from a library or a file, `timm:resnet18` or `net.py:Net`, and settings overrides.

The libraries have settings that name a file, a repository or code, and each release may add one. So
`resources/model-settings.toml` is an allowlist of safe names and values: sizes, rates, flags, and words such
as gelu.
"""

from __future__ import annotations

import ast
import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Self

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from engine.experiment.problem import Problem, alternatives, request_problem
from engine.experiment.value import dotted, shortened


@dataclass(frozen=True)
class Library:
    """A library of models, timm or transformers. `prefix` starts their names in settings: "timm:resnet18".

    `extra` is the optional dependency of Ammeter that installs it.
    """

    prefix: str
    package: str
    extra: str

    @property
    def missing(self) -> str:
        """A clause that says how to install the library."""
        clone = f"`uv sync --extra {self.extra}` in a clone"
        return f"{self.package} is not installed. Install it with `pip install {self.package}`, or {clone}"


TIMM, TRANSFORMERS = Library("timm", "timm", "timm"), Library("hf", "transformers", "llm")
LIBRARIES = (TIMM, TRANSFORMERS)


def unknown_library_model(model: str, library: Library, known: Iterable[str]) -> Problem:
    """Create the problem of a name that the installed library does not have. `known` are its model names."""
    near = difflib.get_close_matches(model, list(known), n=3, cutoff=0.75)
    listed = f"`ammeter catalog --library {library.prefix}` lists them all."
    message = f"{library.package} has no model named '{shortened(model.partition(':')[2])}'."
    remedy = f"Did you mean {alternatives(near)}? {listed}" if near else listed
    return request_problem(message, remedy, key="model", value=model)


OVERRIDES_TABLE = "model_config"  # on the command line and in a preset: `--set model_config.hidden_size=256`

_OVERRIDE = re.compile(r"\s*(?P<key>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*=\s*(?P<value>.*?)\s*", re.DOTALL)
_BETWEEN = re.compile(r",\s*(?=[A-Za-z_][\w.]*\s*=)")


def split_overrides(value: object) -> object:
    """Split overrides in one line, "hidden_size=256, depths=[2, 2]". Return any other value unchanged."""
    if isinstance(value, str):
        return tuple(part for part in _BETWEEN.split(value) if part.strip())
    return value


def override_of(text: str) -> tuple[str, str]:
    """Split "hidden_size=256" into key and value. Raises ValueError for any other text."""
    match = _OVERRIDE.fullmatch(text)
    if match is None:
        raise ValueError(f"'{shortened(text)}' is not KEY=VALUE")
    return match["key"], match["value"]


def override_value(text: str) -> Any:
    """Parse a text as JSON or as a Python literal. Return the text itself if neither works."""
    with suppress(ValueError):
        return json.loads(text, parse_constant=_no_number)
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        return ast.literal_eval(text)
    return text


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number that a setting can have")


def sorted_overrides(texts: Iterable[str]) -> tuple[str, ...]:
    """Sort and normalize overrides. The later of two with the same key wins. Raises ValueError."""
    return tuple(f"{key}={value}" for key, value in sorted(dict(map(override_of, texts)).items()))


def overrides_of_table(table: Mapping[str, Any]) -> Iterator[str]:
    """Convert a table `{"hidden_size": 256}`, nested or not, to overrides."""
    for key, value in dotted(table):
        yield f"{key}={value if isinstance(value, str) else json.dumps(value, default=str)}"


_FILE = re.compile(r"(?P<file>.+\.py)(?::(?P<name>[^\W\d]\w*))?", re.DOTALL)


class Reference(str):
    """Base class of the names of models and datasets in settings: a string with validation."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = core_schema.str_schema(min_length=1, max_length=200)
        return core_schema.no_info_after_validator_function(cls, text)


class ModelRef(Reference):
    """The name of a model: in the catalog, a library ("timm:resnet18"), or a file ("dir/net.py:Net")."""

    @cached_property
    def library(self) -> Library | None:
        """The library that the prefix of the model's name stands for, even if it has no such model."""
        prefix, colon, _ = self.partition(":")
        return next((library for library in LIBRARIES if colon and library.prefix == prefix), None)

    @property
    def file(self) -> str | None:
        """The path of the Python file. None for models of the catalog and of libraries."""
        return None if self._match_file is None else self._match_file["file"]

    @property
    def class_name(self) -> str | None:
        """The class in the file. None if the name does not have one."""
        return None if self._match_file is None else self._match_file["name"]

    def in_file(self, file: str) -> Self:
        """Return the name of the same class, or of `model()`, in another file."""
        return type(self)(file if self.class_name is None else f"{file}:{self.class_name}")

    @cached_property
    def _match_file(self) -> re.Match[str] | None:
        return _FILE.fullmatch(self)


# of a name's words, those that mean something else alone come first
_WORDS = re.compile(r"drop_path|d_model|use_cache|[^\W_]+")


def may_set(key: str) -> bool:
    """Return whether anyone may set the model setting of this name, dotted or not."""
    words = _WORDS.findall(key.rpartition(".")[2].lower())
    return bool(words) and _listed_words("names").issuperset(words)


def is_plain(value: Any) -> bool:
    """Return whether a value is safe to pass to a library.

    Safe are None, numbers, booleans and listed words, and lists and tables of safe values.
    """
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and may_set(key) and is_plain(inner) for key, inner in value.items())
    return value is None or isinstance(value, bool | int | float) or value in _listed_words("values")


@cache
def _listed_words(part: str) -> frozenset[str]:
    text = (files("resources") / "model-settings.toml").read_text(encoding="utf-8")
    return frozenset(tomllib.loads(text)[part].split())
