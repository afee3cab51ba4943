"""A field's text as the values in it: one for most, or several. No Qt."""

from __future__ import annotations

import re
from collections.abc import Iterable

from engine.experiment.own.library_models import ModelRef
from gui.setup.fields import NUMBER_KEYS, TEXT_KEYS

# a comma after a leading zero is a decimal comma, which the validation refuses
_THOUSANDS = re.compile(r"[1-9]\d{0,2}([,\u00a0\u2009\u202f ]\d{3})+(\.\d*)?")
_LIST_COMMA = re.compile(r",\s+")
_DECIMAL_COMMA = re.compile(r"\s*\d+,\d+\s*")
NONE = "none"
"""An empty field, as a value beside others."""


def cleaned(key: str, text: str) -> str:
    """A field's text as the experiment reads it: without thousands separators and surrounding spaces."""
    stripped = text.strip()
    if key in NUMBER_KEYS and _THOUSANDS.fullmatch(stripped):
        return re.sub(r"[^\d.]", "", stripped)
    return stripped


def values_of(key: str, text: str) -> tuple[str, ...]:
    """The values in a field's text: "32, 64, 128", or between semicolons; at least one.

    In text that is typed, and in a file's name, only semicolons part values. A comma without a space parts
    none where it sets off thousands ("64,128") or is a decimal comma, which the validation refuses.
    """
    if key == "code" or not ("," in text or ";" in text):
        return (text,)
    if ";" in text:
        parts = text.split(";")
    elif key in TEXT_KEYS or ModelRef(text).file is not None:
        return (text,)
    elif _LIST_COMMA.search(text):
        parts = _LIST_COMMA.split(text)
    elif _is_number_with_comma(key, text):
        return (text,)
    else:
        parts = text.split(",")
    given = [part.strip() for part in parts]
    # what follows the last separator is still to be typed
    while len(given) > 1 and not given[-1]:
        given.pop()
    return tuple(given)


def _is_number_with_comma(key: str, text: str) -> bool:
    if _THOUSANDS.fullmatch(text.strip()):
        return True
    return key in NUMBER_KEYS and _DECIMAL_COMMA.fullmatch(text) is not None


def text_of(key: str, values: Iterable[str]) -> str:
    """The text of a field with these values."""
    given = list(values)
    if len(given) == 1:
        return given[0]
    return ("; " if key in TEXT_KEYS else ", ").join(value or NONE for value in given)
