"""Axes as they are written: tables of values in TOML, and lists of values on the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from engine.experiment.experiment import all_settings
from engine.experiment.model_ref import ModelRef
from engine.experiment.own.code import with_code
from engine.experiment.problem import ProblemError, request_problem, unknown_name_of_key
from engine.experiment.sweep.grid import MOST_CELLS, Axis, Value
from engine.experiment.text import shortened
from engine.experiment.titles import setting_problem, setting_title

AxisValues = Mapping[str, tuple[Value, ...]]
"""The values of every swept setting, by its dotted key."""


def values_of_table(table: object, origin: str = "sweep") -> dict[str, tuple[Value, ...]]:
    """The values that a TOML table `origin` gives: `batch_size = [32, 64]`. Raises ProblemError."""
    if not isinstance(table, Mapping):
        message = f"{origin} is {shortened(table)}, but it must be a table of settings and their values."
        raise ProblemError(
            request_problem(message, f"Write it as [{origin}], then batch_size = [32, 64].", key=origin)
        )
    return {key: _checked(key, values) for key, values in _lists(table, "")}


def values_of_text(text: str) -> tuple[str, tuple[Value, ...]]:
    """The setting and the values that "batch_size=32,64" gives. Raises ProblemError.

    Where there are semicolons they part the values, which may then contain commas.
    """
    key, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not key:
        message = f"--sweep is '{shortened(text)}', but it must be KEY=VALUES."
        raise ProblemError(
            request_problem(message, "Write it as --sweep batch_size=32,64.", key="sweep", value=text)
        )
    mark = ";" if ";" in values else ","
    parts = [part.strip() for part in values.split(mark)] if values else []
    if mark == "," and "" in parts:
        message = f"has an empty value among {shortened(values)}."
        raise ProblemError(setting_problem(key, message, "Remove the comma too many.", value=values))
    return key, _checked(key, parts)


def values_of_texts(texts: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """The values that several texts give. Raises ProblemError, also for a setting given twice."""
    result: dict[str, tuple[Value, ...]] = {}
    for key, values in map(values_of_text, texts):
        if key in result:
            message = "is swept twice."
            raise ProblemError(setting_problem(key, message, "Give all its values in one list.", value=key))
        result[key] = values
    return result


def axes_of(
    values: AxisValues, *, names_dataset: bool = False, typed: Collection[str] = ()
) -> tuple[Axis, ...]:
    """The axes of these values; models of the user's own files bring their code.

    `names_dataset` says whether the user named a dataset; data that such a file brings is then not used.
    `typed` are the keys whose values the user named just now. Raises ProblemError.
    """
    return tuple(_axis(key, given, names_dataset, is_typed=key in typed) for key, given in values.items())


def _axis(key: str, values: tuple[Value, ...], names_dataset: bool, *, is_typed: bool) -> Axis:
    if key != "model" or not any(ModelRef(value).file for value in values):
        return Axis(key=key, values=values)
    overrides = (
        with_code({key: value}, names_model=True, names_dataset=names_dataset, is_typed=is_typed)
        for value in values
    )
    return Axis(key=key, values=values, overrides=tuple(overrides))


def _lists(table: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _lists(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _checked(key: str, values: object) -> tuple[Value, ...]:
    if key not in all_settings():
        raise ProblemError(unknown_name_of_key(key, all_settings()))
    if not isinstance(values, Sequence) or isinstance(values, str):
        message = f"is swept over {shortened(values)}, which must be a list of values."
        raise ProblemError(setting_problem(key, message, "Write it as [32, 64].", value=values))
    if not values:
        message = "is swept, but has no values."
        raise ProblemError(setting_problem(key, message, "Give it two or more values.", value=""))
    if len(values) > MOST_CELLS:
        message = f"has {len(values):,} values, but a sweep can have at most {MOST_CELLS:,} cells."
        raise ProblemError(setting_problem(key, message, "Give fewer values.", value=len(values)))
    return tuple(_value(key, value) for value in values)


def _value(key: str, value: object) -> Value:
    if isinstance(value, list):  # a setting that is a list itself
        return ", ".join(map(str, value))
    if value is None or isinstance(value, str | int | float):
        return value
    message = f"is swept over {shortened(value)}, which is no value of {setting_title(key)}."
    raise ProblemError(setting_problem(key, message, "Give text, a number, true or false.", value=value))
