"""External values: base classes of messages, bounds of their numbers and of their size, and safe text.

Text such as names, notes and worker messages is shown without control characters.
"""

from __future__ import annotations

import re
import reprlib
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
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


class Message(Bounded):
    """Base class of immutable values that are read from JSON. Unknown keys are errors."""

    # pydantic writes NaN and infinity as null by default; a diverged loss must survive the trip
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", defer_build=True)


def dropping(*removed: str) -> Any:
    """Return a validator that drops keys from saved JSON: settings or metrics that no longer exist."""

    def drop(cls: type, values: Any, info: ValidationInfo) -> Any:
        is_saved = info.mode == "json" and isinstance(values, dict)
        return {key: value for key, value in values.items() if key not in removed} if is_saved else values

    return model_validator(mode="before")(drop)


# A line may come from any program; every reader can store, divide by and draw what is within these bounds.
MOST_ENTRIES = 10_000  # in any list of a message, columns of samples excepted
MOST_ROWS = 65_536  # in a batch of samples: a window that was asleep gets all it missed in a few of them
Whole = Annotated[int, Field(ge=0, lt=2**63)]  # as the store's 64-bit integers
Positive = Annotated[int, Field(ge=1, lt=2**63)]  # a count that is divided by
LARGEST_STEP = 2**53
StepNumber = Annotated[int, Field(ge=0, le=LARGEST_STEP)]  # float64 columns hold it exactly

KIB_PER_MIB = MIB_PER_GIB = 1024.0
BYTES_PER_MIB, BYTES_PER_GIB = 2**20, 2**30

MOST_MIB, MOST_SECONDS = 1e15, 1e9  # far from where float64 overflows
Mib = Annotated[float, Field(ge=-MOST_MIB, le=MOST_MIB, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

# in characters; of details the end is kept, where a traceback says what happened
LONGEST_TEXT, LONGEST_LINE, LONGEST_SENTENCE, LONGEST_DETAILS = 10_000, 1_000, 600, 200_000

# Control characters, which a terminal obeys; direction marks, which would reverse the rest of a sentence if a
# name left one open; lone surrogates and noncharacters, which neither a file nor a page can hold.
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_LINE_ENDS = re.compile(r"\r\n?")
_BREAKS = re.compile(r"[\t\n\u2028\u2029]+")
_MOST_QUOTED = 60
_LARGEST_WRITTEN = 10**60


def printable(text: str) -> str:
    """Return the text in lines, with "�" for control and other characters that cannot be displayed."""
    if _OBEYED.search(text) is None:
        return text
    return _OBEYED.sub("\N{REPLACEMENT CHARACTER}", _LINE_ENDS.sub("\n", text))


def one_line(text: str) -> str:
    """Return the result of `printable` without tabs and line ends."""
    return _BREAKS.sub(" ", printable(text))


_UNSEEN = re.compile(r"^[\s\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff\ufffd]+")


def cell_text(text: str) -> str:
    """Return the text for a table cell, with an apostrophe before anything that may run as a formula.

    Some spreadsheets accept full-width and other signs, and skip blank or invisible characters.
    """
    text = printable(text)
    first = unicodedata.normalize("NFKC", _UNSEEN.sub("", text)[:1])
    return f"'{text}" if first.startswith(("=", "+", "-", "@")) or text.startswith(("\t", "\n")) else text


def shortened(value: object, most: int = _MOST_QUOTED) -> str:
    """Return any value as text to quote in a sentence: one line of at most `most` characters."""
    return _cut_text(value if isinstance(value, str) else _short.repr_of(value), one_line, most)


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        # no deeper into lists and tables than a sentence can show
        self.maxlevel, self.maxdict, self.maxstring, self.maxother = 3, 8, 120, 120
        self.maxlist = self.maxtuple = self.maxset = 20

    def repr_of(self, value: object) -> str:
        return self.repr(value) if isinstance(value, list | tuple | dict | set | int) else str(value)

    def repr_int(self, value: int, _level: int) -> str:
        # Python writes no integer of more than 4,300 digits
        return str(value) if abs(value) < _LARGEST_WRITTEN else "a number with too many digits"


_short = _Short()


def _shortened_sentence(text: str) -> str:
    if len(text) <= LONGEST_SENTENCE:
        return printable(text)
    # what it quotes is in the middle; why that is a problem comes after it
    half = LONGEST_SENTENCE // 2
    return f"{printable(text[: half - 1])}…{printable(text[-half:])}"


def _cut_text(text: str, clean: Callable[[str], str], most: int) -> str:
    # what is cut off need not be looked at: a text may have millions of characters
    start = clean(text[: most + 1])
    return start if len(start) <= most else f"{start[: most - 1]}…"


def _text_validator(clean: Callable[[str], str]) -> BeforeValidator:
    return BeforeValidator(lambda value: clean(value) if isinstance(value, str) else value)


# from outside: a sentence or two, several lines, a name or a clause, and a traceback or the end of stderr
Sentence = Annotated[str, _text_validator(_shortened_sentence)]
Text = Annotated[str, _text_validator(lambda text: _cut_text(text, printable, LONGEST_TEXT))]
Line = Annotated[str, _text_validator(lambda text: _cut_text(text, one_line, LONGEST_LINE))]
Details = Annotated[str, _text_validator(lambda text: printable(text[-LONGEST_DETAILS:]))]


def in_sentence(words: str) -> str:
    """Return the start of a sentence as written within a sentence. Abbreviations keep their capitals."""
    return words if words[1:2].isupper() else words[:1].lower() + words[1:]


def dotted(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables by dotted key."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
