"""What a setting under "More options" is made of: its key, its words and how it is typed or picked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Shape(Enum):
    """What a person types or picks."""

    WHOLE = auto()
    NUMBER = auto()
    TEXT = auto()
    CHOICE = auto()


@dataclass(frozen=True)
class Option:
    """One setting; `hint` stands in the empty field, `choices` are (value, words).

    A `wide` one takes the whole width of the form.
    """

    key: str
    label: str
    tip: str
    shape: Shape = Shape.NUMBER
    unit: str = ""
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    wide: bool = False


@dataclass(frozen=True)
class Group:
    """Options that belong together, under one small heading."""

    title: str
    options: tuple[Option, ...]


def switch(key: str, label: str, tip: str) -> Option:
    """A setting that is on or off."""
    return Option(key, label, tip, Shape.CHOICE, choices=(("false", "Off"), ("true", "On")))


def automatic(key: str, label: str, tip: str) -> Option:
    """A setting that is on, off, or left to Ammeter."""
    return Option(key, label, tip, Shape.CHOICE, choices=(("", "Auto"), ("true", "On"), ("false", "Off")))
