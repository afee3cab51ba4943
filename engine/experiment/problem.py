"""Problems as values: a kind, a plain sentence and a remedy (what to do)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from engine.experiment.value import Message, Sentence, Text, shortened

# of one validation: there are fewer settings; and the longest path that a system takes
_MOST_PROBLEMS, _LONGEST_VALUE, _LONGEST_KEY = 100, 4_096, 80


class Kind(StrEnum):
    """The kinds of problem, on which the program's reaction depends.

    `REQUEST`: the settings must change. `NODE_LOST`: another node of the cluster may be able to do it.
    """

    REQUEST = "request"
    OUT_OF_MEMORY = "out-of-memory"
    SPILLED = "spilled"
    NOT_A_NUMBER = "nan"
    DOWNLOAD = "download"
    DISK_FULL = "disk-full"
    NO_ENGINE = "no-engine"
    WORKER_DIED = "worker-died"
    NODE_LOST = "node-lost"
    PROTOCOL = "protocol"
    HANG = "hang"
    STORE = "store"
    INTERNAL = "internal"


class Problem(Message):
    """A problem with a remedy, in sentences for the user, and the setting that causes it, if any."""

    kind: Kind
    message: Sentence
    remedy: Text
    key: Text | None = None
    value: Text | None = None
    allowed: Text | None = None


class ProblemError(Exception):
    """An error with one or more problems for the user. `detail` is a traceback from another process."""

    def __init__(self, *problems: Problem, detail: str = "") -> None:
        super().__init__(problems[0].message)
        self.problems = problems
        self.detail = detail

    @property
    def problem(self) -> Problem:
        return self.problems[0]


def request_problem(
    message: str, remedy: str, *, key: str | None = None, value: object = None, allowed: str | None = None
) -> Problem:
    """Create a problem of kind `REQUEST`. `value` may be of any type and is stored as text."""
    text = value if value is None or isinstance(value, str) else shortened(value, _LONGEST_VALUE)
    return Problem(kind=Kind.REQUEST, message=message, remedy=remedy, key=key, value=text, allowed=allowed)


def request_error(
    message: str, remedy: str, *, key: str | None = None, value: object = None, allowed: str | None = None
) -> ProblemError:
    """Create an error with one `request_problem`."""
    return ProblemError(request_problem(message, remedy, key=key, value=value, allowed=allowed))


def unknown_name(key: str, value: str, choices: Iterable[str], noun: str) -> Problem:
    """Create the problem of a name that is not in `choices`. The remedy suggests similar names."""
    names, value = sorted(choices), shortened(value)
    near = difflib.get_close_matches(value, names, n=3, cutoff=0.5)
    remedy = f"Did you mean {alternatives(near)}?" if near else f"Choose one of: {', '.join(names)}."
    return request_problem(
        f"There is no {noun} named '{value}'.", remedy, key=key, value=value, allowed=", ".join(names)
    )


def contradiction(key: str, message: str, remedy: str, value: object) -> PydanticCustomError:
    """Create a validation error for setting `key` of a table. `message` continues the setting's title."""
    context = {"message": message, "key": key, "remedy": remedy, "value": shortened(value)}
    return PydanticCustomError("setting", "{message}", context)


def problems_from_validation(
    error: ValidationError, titles: Mapping[str, str] = MappingProxyType({})
) -> tuple[Problem, ...]:
    """Convert pydantic's errors to problems. `titles` are the known keys with their names in sentences."""
    details = error.errors(include_url=False)[:_MOST_PROBLEMS]
    return tuple(_detail_problem(dict(detail), titles) for detail in details)


def _detail_problem(detail: dict[str, Any], titles: Mapping[str, str]) -> Problem:
    key = shortened(".".join(str(part) for part in detail["loc"])) or None
    value, context = detail.get("input"), detail.get("ctx") or {}
    kind, name = str(detail["type"]), titles.get(key or "", key or "The settings")
    if kind == "extra_forbidden" and key:
        # its first part is already unknown, but the whole key shows what was meant
        while isinstance(value, Mapping) and len(value) == 1 and len(key) < _LONGEST_KEY:
            part, value = next(iter(value.items()))
            key = f"{key}.{part}"
        return unknown_name_of_key(key, titles)
    if kind == "setting":
        full = f"{key}.{context['key']}" if key else context["key"]
        message = f"{titles.get(full, full)} {context['message']}"
        return request_problem(message, context["remedy"], key=full, value=context["value"])
    if kind == "missing" and key:
        return request_problem(f"{name} is missing.", "Set it to a value.", key=key)
    allowed, shown = _allowed_words(kind, context), shortened(value)
    if allowed is None:
        sentence = str(detail["msg"]).removeprefix("Value error, ")
        return request_problem(
            f"{name}: {sentence}.", f"Change {'it' if key else 'them'}.", key=key, value=shown
        )
    quoted = f"'{shown}'" if isinstance(value, str) and value else "empty" if value in (None, "") else shown
    message = f"{name} is {quoted}, but it must be {allowed}."
    return request_problem(message, f"Set it to {allowed}.", key=key, value=shown, allowed=allowed)


def unknown_name_of_key(key: str, known_keys: Iterable[str]) -> Problem:
    """Create the problem of a setting that does not exist."""
    keys, key = sorted(known_keys), shortened(key)
    near, all_listed = _near_keys(key, keys), "`ammeter settings` lists all settings."
    remedy = f"Did you mean {alternatives(near)}? {all_listed}" if near else f"Remove it. {all_listed}"
    message = f"There is no setting named '{key}'."
    return request_problem(message, remedy, key=key, allowed=", ".join(keys) or None)


def _near_keys(key: str, keys: list[str]) -> list[str]:
    if near := difflib.get_close_matches(key, keys, n=1, cutoff=0.75):
        return near
    # its last part may resemble one in spelling, or in initials
    last = key.rpartition(".")[2].lower()
    parts = {known: known.rpartition(".")[2] for known in keys}
    alike = difflib.get_close_matches(last, sorted(set(parts.values())), n=1, cutoff=0.75)
    initials = {known: "".join(word[:1] for word in part.split("_")) for known, part in parts.items()}
    by_part = [known for known, part in parts.items() if part in alike]
    return by_part or [known for known in keys if len(last) > 1 and initials[known] == last]


_TYPES = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    "int_parsing_size": "a smaller whole number",
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "finite_number": "a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "string_type": "text",
    "string_unicode": "text in UTF-8",
    "string_pattern_mismatch": "auto, cpu, cuda:0 or another device of `ammeter catalog`",
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "a table of settings"),
    **dict.fromkeys(("tuple_type", "list_type"), "a list"),
}
_BOUNDS = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "at most {}"),
    "less_than": ("lt", "less than {}"),
    "string_too_short": ("min_length", "at least {} characters"),
    "string_too_long": ("max_length", "at most {} characters"),
}


def _allowed_words(kind: str, context: dict[str, Any]) -> str | None:
    if kind in ("literal_error", "enum"):
        return str(context["expected"]).replace("'", "")
    if kind == "one_of":
        return str(context["allowed"])
    if kind in _BOUNDS:
        name, form = _BOUNDS[kind]
        limit = context[name]
        return form.format(f"{limit:,g}" if isinstance(limit, float) else f"{limit:,}")
    return _TYPES.get(kind)


def alternatives(names: list[str]) -> str:
    """Join names as in "a, b or c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
