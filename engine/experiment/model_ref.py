"""The name of a model, parsed where an experiment is read: it knows its library, or its file and class."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, Self

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from engine.experiment.own.library_models import LIBRARIES, Library

_FILE = re.compile(r"(?P<file>.+\.py)(?::(?P<name>[^\W\d]\w*))?", re.DOTALL)


class Reference(str):
    """Text of a setting that names something, with what can be read from it."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = core_schema.str_schema(min_length=1, max_length=200)
        return core_schema.no_info_after_validator_function(cls, text)


class ModelRef(Reference):
    """A model of the catalog, of a library ("timm:resnet18"), or of a file ("dir/net.py:Net")."""

    @cached_property
    def library(self) -> Library | None:
        """The library that the name belongs to, whether it has such a model or not."""
        prefix, colon, _ = self.partition(":")
        return next((library for library in LIBRARIES if colon and library.prefix == prefix), None)

    @property
    def file(self) -> str | None:
        """The path of the Python file; None for models of the catalog and of libraries."""
        return None if self._match is None else self._match["file"]

    @property
    def class_name(self) -> str | None:
        """The class in the file, if the name has one."""
        return None if self._match is None else self._match["name"]

    def in_file(self, file: str) -> Self:
        """The same class, or else `model()`, in another file."""
        return type(self)(file if self.class_name is None else f"{file}:{self.class_name}")

    @cached_property
    def _match(self) -> re.Match[str] | None:
        return _FILE.fullmatch(self)
