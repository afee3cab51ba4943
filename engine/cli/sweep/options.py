"""The options of a sweep: the grid and the plan that `compare` is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from engine.cli.options import Asked, default_precisions, flag
from engine.experiment.experiment import layered, setting_problem, setting_title
from engine.experiment.own.code import Code, code_from
from engine.experiment.problem import ProblemError, request_problem
from engine.experiment.repeats import Plan
from engine.experiment.sweep import (
    VARIANT,
    Axis,
    AxisValues,
    Grid,
    Value,
    axes_of,
    grid_of,
    values_of_texts,
)
from engine.experiment.value import shortened

Swept = Annotated[
    list[str] | None,
    flag(
        "--sweep",
        "Train every combination of the values of several settings: --sweep batch_size=32,64,128 --sweep "
        "precision=fp32,bf16. Takes the keys of --set; semicolons part values that contain commas. In a "
        "TOML file it is the table sweep. Repeatable.",
        "KEY=VALUES",
    ),
]
ToWithin = Annotated[
    str,
    typer.Option(
        "--to-within",
        metavar="PERCENT",
        help="Of a sweep: repeat the cells whose ratios are least certain until the 95 % interval of each "
        "reaches no further than this, such as 2%.",
    ),
]
TimeLimit = Annotated[
    str,
    typer.Option(
        "--time-limit",
        metavar="TIME",
        help="Of a sweep: begin nothing new after this long, such as 8h, 90m or 1h30m.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Of a sweep: print its cells, what does not fit, the number of runs and the time that they are "
        "likely to take, and train nothing.",
    ),
]


@dataclass(frozen=True)
class Request:
    """What `compare` is asked for besides the settings; `swept` are the texts of --sweep."""

    precisions: Sequence[str]
    swept: Sequence[str]
    plan: Plan
    is_dry: bool = False


def plan_from(repeats: int, to_within: str, time_limit: str) -> Plan:
    """The plan that the options stand for. Raises ProblemError."""
    return Plan(
        repeats=repeats,
        precision_percent=_percent(to_within) if to_within else None,
        time_limit_seconds=time_limit_seconds(time_limit),
    )


def is_sweep(asked: Asked, request: Request) -> bool:
    """Whether settings are swept, or the options ask for what only a sweep does."""
    has_axes = request.swept or asked.sweep or (asked.preset is not None and asked.preset.sweep)
    return bool(has_axes) or request.is_dry or request.plan != Plan(repeats=request.plan.repeats)


def grid_from(asked: Asked, request: Request, *, on_gpu: bool) -> Grid:
    """The grid that the options stand for: the preset's variants, then what is swept.

    Several precisions are an axis, as they are by default where nothing is swept. Raises ProblemError.
    """
    base, preset, precisions = asked.settings(on_gpu), asked.preset, request.precisions
    typed = values_of_texts(request.swept)
    values = _values(asked, precisions, typed, on_gpu=on_gpu)
    if len(precisions) == 1:
        base = layered(base, {"precision": precisions[0]})
    variants: tuple[Axis, ...] = ()
    if preset is not None and not precisions and "precision" not in values:
        variants = tuple(axis for axis in preset.axes(on_gpu) if axis.key == VARIANT)
    if not values and not variants:
        values = {"precision": default_precisions(on_gpu=on_gpu)}
    _refuse_overlap(variants, values)
    return grid_of(base, (*variants, *axes_of(values, names_dataset=asked.names_dataset, typed=typed)))


def typed_code(grid: Grid, request: Request) -> list[Code]:
    """The code of the model files that --sweep itself names; not that of a preset or TOML file."""
    if "model" not in values_of_texts(request.swept):
        return []
    texts = (settings.get("code") for axis in grid.axes if axis.key == "model" for settings in axis.overrides)
    return [code_from(text) for text in texts if text is not None]


def _values(asked: Asked, precisions: Sequence[str], flags: AxisValues, *, on_gpu: bool) -> AxisValues:
    """The values of every axis; one that is set in a later layer than it is swept in is no axis."""
    if precisions and "precision" in flags:
        message = "is given by --precision and by --sweep."
        raise ProblemError(setting_problem("precision", message, "Leave out one of them."))
    of_preset = asked.preset.sweep_for(on_gpu) if asked.preset is not None else {}
    fixed = {"precision": precisions[0]} if len(precisions) == 1 else {}
    config, *later = asked.over
    values = _without({**_without(of_preset, config), **asked.sweep}, fixed, *later)
    first: dict[str, tuple[Value, ...]] = {"precision": tuple(precisions)} if len(precisions) > 1 else {}
    return {**first, **values, **first, **flags}


def _without(values: AxisValues, *layers: Mapping[str, Any]) -> dict[str, tuple[Value, ...]]:
    return {key: given for key, given in values.items() if not any(_is_set(layer, key) for layer in layers)}


def _is_set(layer: Mapping[str, Any], key: str) -> bool:
    part, _, rest = key.partition(".")
    if part not in layer:
        return False
    below = layer[part]
    return not rest or (isinstance(below, Mapping) and _is_set(below, rest))


def _refuse_overlap(variants: Sequence[Axis], values: AxisValues) -> None:
    for axis in variants:
        key = next((key for key in values if any(_is_set(layer, key) for layer in axis.overrides)), None)
        if key is not None:
            message = "is swept, but the variants of the preset set it themselves."
            remedy = "Give --precision, which replaces the variants."
            raise ProblemError(setting_problem(key, message, remedy, value=setting_title(key)))


_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%?")
_TIME = re.compile(r"(?:(\d{1,9})d)?\s*(?:(\d{1,9})h)?\s*(?:(\d{1,9})m(?:in)?)?\s*(?:(\d{1,9})s)?")
_UNITS = (86_400, 3_600, 60, 1)
_MOST_SECONDS = 1e9


def _percent(text: str) -> float:
    match = _PERCENT.fullmatch(text.strip())
    percent = float(match[1]) if match else 0.0
    if not 0 < percent <= 100:
        message = f"--to-within is '{shortened(text)}', but it must be more than 0 % and at most 100 %."
        raise ProblemError(
            request_problem(message, "Write it as --to-within 2%.", key="to_within", value=text)
        )
    return percent


def time_limit_seconds(text: str) -> float | None:
    """The seconds that --time-limit gives; None where it is empty. Raises ProblemError."""
    if not text:
        return None
    match = _TIME.fullmatch(text.strip().lower())
    parts = [] if match is None else match.groups(default="0")
    seconds = sum(int(part) * unit for part, unit in zip(parts, _UNITS, strict=False))
    if not 0 < seconds <= _MOST_SECONDS:
        message = f"--time-limit is '{shortened(text)}', but it must be a time such as 8h, 90m or 45s."
        raise ProblemError(
            request_problem(message, "Write it as --time-limit 8h.", key="time_limit", value=text)
        )
    return float(seconds)
