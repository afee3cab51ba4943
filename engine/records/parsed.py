"""A field of a saved run that is read from its JSON text only when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class Parsed(Generic[T]):
    """For a dataclass's field: it is given a value, or the text that `parse` makes one of at first use.

    A table of ten thousand runs shows thirty of them; validating the settings of all would take it a second.
    Two threads that ask at the same time may both parse, to the same value.
    """

    def __init__(self, parse: Callable[[str], T]) -> None:
        self._parse = parse
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, run: None, owner: type) -> Self: ...
    @overload
    def __get__(self, run: object, owner: type) -> T: ...
    def __get__(self, run: object | None, owner: type) -> T | Self:
        if run is None:
            # what a dataclass asks for to learn that the field has no default
            raise AttributeError(self._name)
        held: Any = run.__dict__[self._name]
        if isinstance(held, Text):
            held = run.__dict__[self._name] = self._parse(held.json)
        value: T = held
        return value

    def __set__(self, run: object, value: T | Text) -> None:
        run.__dict__[self._name] = value


class Text:
    """The JSON text of a value that nobody has asked for yet."""

    __slots__ = ("json",)

    def __init__(self, json: str) -> None:
        self.json = json


def text_of(run: object, field: str) -> str | None:
    """The JSON text of a field that was not parsed yet; None where it is a value by now."""
    held = run.__dict__[field]
    return held.json if isinstance(held, Text) else None
