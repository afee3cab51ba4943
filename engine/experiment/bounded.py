"""Bounds on external JSON and TOML, so that large or invalid input cannot exhaust memory."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, PydanticCustomError, from_json

# A text with more is refused before it is validated: each wrong value would take a kilobyte.
MOST_VALUES = 1_500_000
_MOST_KEYS_IN_ALL, _MOST_KEYS = 500_000, 10_000


def check_size(json: bytes | bytearray | str) -> None:
    """Check the number of values in a JSON text and in each of its objects. Raises ValidationError."""
    comma, colon = (",", ":") if isinstance(json, str) else (b",", b":")
    keys = json.count(colon)  # type: ignore[arg-type]  # the same kind of text
    if json.count(comma) > MOST_VALUES or keys > _MOST_KEYS_IN_ALL:  # type: ignore[arg-type]
        raise _too_many()
    if keys > _MOST_KEYS:
        try:
            check_keys(from_json(json))
        except ValidationError:
            raise
        except ValueError:
            return  # not JSON: validation says where


def check_keys(value: object) -> None:
    """Check that no table in nested tables and lists has too many keys. Raises ValidationError."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict() as table:
                if len(table) > _MOST_KEYS:
                    raise _too_many()
                waiting += table.values()
            case list() as values:
                waiting += values


def _too_many() -> ValidationError:
    error = PydanticCustomError("too_many", "it has too many values")
    return ValidationError.from_exception_data("text", [{"type": error, "loc": (), "input": None}])


class Bounded(BaseModel):
    """Base class of pydantic models for untrusted data, with limits on its size.

    A list or table reports only one error, however many of its values are invalid.
    """

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Read JSON after checking its size. Raises ValidationError."""
        check_size(json_data)
        return super().model_validate_json(json_data, **options)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        waiting: list[Any] = [schema]
        while waiting:
            node = waiting.pop()
            if isinstance(node, dict):
                if node.get("type") in ("list", "tuple", "set", "frozenset", "dict"):
                    node["fail_fast"] = True
                waiting += (inner for key, inner in node.items() if key not in ("metadata", "serialization"))
            elif isinstance(node, list | tuple):
                waiting += node
        return schema
