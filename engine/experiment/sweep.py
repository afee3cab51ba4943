"""A grid: multiple values of some settings, an experiment for each combination, and their repeats."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Annotated, Any

from pydantic import Field

from engine.experiment.catalog import Catalog, Precision
from engine.experiment.checks import device_count
from engine.experiment.experiment import (
    Experiment,
    all_settings,
    experiment_from,
    flattened,
    from_dotted,
    layered,
    named,
    setting_error,
    setting_title,
)
from engine.experiment.own.code import with_code
from engine.experiment.own.library_models import ModelRef
from engine.experiment.problem import ProblemError, request_error, unknown_name_of_key
from engine.experiment.value import MOST_ENTRIES, Message, Seconds, dotted, shortened

MOST_REPEATS = 1_000

_LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class Repetition:
    """One of the `repeats` runs of an experiment. `repeat` is its number, from 1."""

    label: str
    experiment: Experiment
    repeat: int
    repeats: int

    def name(self, common: str | None, *, is_alone: bool = False) -> str | None:
        """Return the run's name, given the name `common` of all runs. None if runs are numbered instead."""
        if not common:
            return None
        label = [] if is_alone else [self.label]
        repeat = [f"repeat {self.repeat:,}"] if self.repeats > 1 else []
        return ", ".join([common, *label, *repeat])


def alternating_turns(sides: Sequence[tuple[str, Experiment]], repeats: int = 1) -> tuple[Repetition, ...]:
    """Return the runs in training order, A B, B A, A B, so drift affects all alike. Raises ProblemError."""
    check_seeds(sides, repeats)
    return tuple(
        Repetition(label, side.model_copy(update={"seed": side.seed + repeat}), repeat + 1, repeats)
        for repeat in range(repeats)
        for label, side in (sides if repeat % 2 == 0 else reversed(sides))
    )


def check_seeds(sides: Sequence[tuple[str, Experiment]], repeats: int) -> None:
    """Check that the seeds of all repeats are in range. Raises ProblemError."""
    seed = max((experiment.seed for _, experiment in sides), default=0)
    if seed + repeats - 1 > _LARGEST_SEED:
        message = f"is {seed}, but {repeats:,} repeats would need seeds above {_LARGEST_SEED}."
        raise setting_error("seed", message, "Use a smaller seed.", value=seed)


MOST_EXTRA_REPEATS = 20  # of a cell for the sake of a wanted precision, unless `repeats` asks for more


class Plan(Message):
    """The stopping rule of a sweep: a number of repeats, a precision of its ratios, and a time limit.

    Each cell first gets a pilot. The runs of compared cells then alternate.
    """

    repeats: Annotated[int, Field(ge=1, le=MOST_REPEATS)] = 1
    precision_percent: Annotated[float | None, Field(gt=0, le=100)] = None
    time_limit_seconds: Annotated[float | None, Field(gt=0, le=1e9)] = None


class Pilot(Message):
    """The measurements of a pilot, a short run of a cell to estimate its time and memory. None: unknown."""

    steps: Annotated[int, Field(ge=1)]
    seconds: Seconds
    start_seconds: Seconds
    step_ms: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    samples_per_second: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    peak_mib: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    validation_seconds: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    final_loss: float | None = None
    steps_per_epoch: Annotated[int | None, Field(ge=1)] = None


Value = str | int | float | bool | None

VARIANT = "variant"  # the key of an axis whose values are the labels of a preset's variants
MOST_CELLS = 10_000


class Axis(Message):
    """A setting to sweep, by its dotted key ("optimizer.name"), and the values to try.

    `overrides`, if any, has for each value the settings that it stands for, as nested dicts.
    """

    key: str
    values: Annotated[tuple[Value, ...], Field(min_length=1, max_length=MOST_ENTRIES)]
    overrides: Annotated[tuple[dict[str, Any], ...], Field(max_length=MOST_ENTRIES)] = ()

    @property
    def title(self) -> str:
        return "Variant" if self.key == VARIANT else setting_title(self.key)

    def settings(self, place: int) -> Mapping[str, Any]:
        """Return the nested settings of the value at index `place`."""
        return self.overrides[place] if self.overrides else from_dotted(self.key, self.values[place])

    def text(self, place: int) -> str:
        """Return the value at index `place` as in cell names: "FP16 AMP", "64"."""
        value = self.values[place]
        if self.key == "precision":
            # a value that is none is named, too, where it is refused
            return next((known.label for known in Precision if known.value == value), str(value))
        if isinstance(value, bool):
            return "on" if value else "off"
        if self.key == "devices" and value == 0:
            return "all"
        if value is None:
            return "none"
        if isinstance(value, str):
            known = all_settings().get(self.key)
            return value if known is None else dict(known.choices).get(value, value)
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"


@dataclass(frozen=True)
class Cell:
    """One combination of a grid's values, as an experiment.

    `index` is its position in the grid's order, and `places` the index of its value on each axis.
    """

    index: int
    places: tuple[int, ...]
    experiment: Experiment


class Grid(Message):
    """The combinations that a sweep trains: the settings that all share, and the axes of values.

    The last axis varies fastest.
    """

    base: dict[str, Any]
    axes: Annotated[tuple[Axis, ...], Field(min_length=1, max_length=100)]

    @property
    def size(self) -> int:
        """The number of cells."""
        return math.prod(len(axis.values) for axis in self.axes)

    @property
    def compared(self) -> int:
        """The index of the axis whose first value is the baseline of the others."""
        keys = [axis.key for axis in self.axes]
        return next((keys.index(key) for key in (VARIANT, "precision", "step.recipe") if key in keys), 0)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All cells in the grid's order. Raises ProblemError, which names the first invalid cell."""
        every = product(*(range(len(axis.values)) for axis in self.axes))
        return tuple(Cell(index, places, self._experiment(places)) for index, places in enumerate(every))

    def baseline(self, cell: Cell) -> Cell:
        """Return the cell to compare with: the same, but with the first value of the compared axis."""
        places = list(cell.places)
        places[self.compared] = 0
        return self.cells[self.index(places)]

    def index(self, places: Sequence[int]) -> int:
        """Return the index of the cell with these places."""
        index = 0
        for place, axis in zip(places, self.axes, strict=True):
            index = index * len(axis.values) + place
        return index

    def places(self, index: int) -> tuple[int, ...]:
        """Return the places of a cell on the axes, by its index."""
        places = []
        for axis in reversed(self.axes):
            index, place = divmod(index, len(axis.values))
            places.append(place)
        return tuple(reversed(places))

    def name(self, places: Sequence[int], of: Container[int] | None = None) -> str:
        """Return a cell's name: "FP16 AMP, batch size 64". With `of`, only its values on these axes."""
        return ", ".join(
            axis.text(place)
            if axis.key in (VARIANT, "precision", "model", "dataset", "step.recipe")
            else f"{axis.text(place)} device{'s' * (axis.text(place) != '1')}"
            if axis.key == "devices"
            else f"{named(axis.key)} {axis.text(place)}"
            for number, (axis, place) in enumerate(zip(self.axes, places, strict=True))
            if of is None or number in of
        )

    def _experiment(self, places: tuple[int, ...]) -> Experiment:
        layers = (axis.settings(place) for axis, place in zip(self.axes, places, strict=True))
        try:
            return experiment_from(layered(self.base, *layers))
        except ProblemError as error:
            why = f"The combination {shortened(self.name(places), most=200)} cannot be trained: "
            changed = (given.model_copy(update={"message": why + given.message}) for given in error.problems)
            raise ProblemError(*changed) from None


def grid_of(base: Mapping[str, Any], axes: Sequence[Axis], catalog: Catalog | None = None) -> Grid:
    """Create a grid from nested settings, whose values may be text, and axes.

    With a catalog, "all" devices becomes the number of devices in it. Raises ProblemError.
    """
    for axis in axes:
        if axis.key != VARIANT and axis.key not in all_settings():
            raise ProblemError(unknown_name_of_key(axis.key, all_settings()))
    size = math.prod(len(axis.values) for axis in axes)
    if size > MOST_CELLS:
        message = f"The sweep would have {size:,} combinations, but the maximum is {MOST_CELLS:,}."
        raise request_error(message, "Use fewer values.", key="sweep", value=size)
    draft = Grid(base=dict(base), axes=tuple(axes))
    grid = Grid(base=draft.base, axes=tuple(_normal(draft, place) for place in range(len(axes))))
    if catalog is not None:
        grid = grid.model_copy(
            update={"axes": tuple(_count_devices(grid, axis, catalog) for axis in grid.axes)}
        )
    assert len(grid.cells) == grid.size  # validates every one of them
    return grid


def _count_devices(grid: Grid, axis: Axis, catalog: Catalog) -> Axis:
    if axis.key != "devices" or "device" in [other.key for other in grid.axes]:
        return axis
    first = grid._experiment((0,) * len(grid.axes))
    every = device_count(first.model_copy(update={"devices": 0}), catalog)
    # beside the same number they are one value
    return axis.model_copy(update={"values": tuple(dict.fromkeys(value or every for value in axis.values))})


def _normal(grid: Grid, axis_place: int) -> Axis:
    axis = grid.axes[axis_place]
    values: list[Value] = []
    for place, given in enumerate(axis.values):
        value = given if axis.key == VARIANT or axis.overrides else _own_value(grid, axis_place, place)
        if value in values:
            message = f"{axis.title} has the value {shortened(given)} twice."
            raise request_error(message, "Use every value once.", key=axis.key, value=shortened(given))
        values.append(value)
    return axis.model_copy(update={"values": tuple(values)})


def _own_value(grid: Grid, axis_place: int, place: int) -> Value:
    places = [0] * len(grid.axes)
    places[axis_place] = place
    experiment = grid._experiment(tuple(places))
    value: Any = flattened(experiment)[grid.axes[axis_place].key]
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


AxisValues = Mapping[str, tuple[Value, ...]]  # of every swept setting, by its dotted key


def values_of_table(table: object, origin: str = "sweep") -> dict[str, tuple[Value, ...]]:
    """Read the values in the TOML table named `origin`: `batch_size = [32, 64]`. Raises ProblemError."""
    if not isinstance(table, Mapping):
        message = f"{origin} is {shortened(table)}, but it must be a table of settings and their values."
        raise request_error(message, f"Write it as [{origin}], then batch_size = [32, 64].", key=origin)
    return {key: _checked_values(key, values) for key, values in dotted(table)}


def values_of_text(text: str) -> tuple[str, tuple[Value, ...]]:
    """Read a setting and its values from "batch_size=32,64", or with semicolons. Raises ProblemError."""
    key, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not key:
        message = f"--sweep is '{shortened(text)}', but it must be KEY=VALUES."
        raise request_error(message, "Write it as --sweep batch_size=32,64.", key="sweep", value=text)
    mark = ";" if ";" in values else ","
    parts = [part.strip() for part in values.split(mark)] if values else []
    if mark == "," and "" in parts:
        message = f"has an empty value among {shortened(values)}."
        raise setting_error(key, message, "Remove the extra comma.", value=values)
    return key, _checked_values(key, parts)


def values_of_texts(texts: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """Read the values in several texts. Raises ProblemError, also if a setting occurs twice."""
    result: dict[str, tuple[Value, ...]] = {}
    for key, values in map(values_of_text, texts):
        if key in result:
            message = "is swept twice."
            raise setting_error(key, message, "Put all its values in one list.", value=key)
        result[key] = values
    return result


def axes_of(
    values: AxisValues, *, names_dataset: bool = False, typed: Collection[str] = ()
) -> tuple[Axis, ...]:
    """Create the axes of these values. Model files include their code. Raises ProblemError."""
    axes = []
    for key, given in values.items():
        overrides: list[dict[str, Any]] = []
        if key == "model" and any(ModelRef(value).file for value in given):
            how = {"names_model": True, "names_dataset": names_dataset, "is_typed": key in typed}
            overrides = [with_code({key: value}, **how) for value in given]
        axes.append(Axis(key=key, values=given, overrides=tuple(overrides)))
    return tuple(axes)


def _checked_values(key: str, values: object) -> tuple[Value, ...]:
    if key not in all_settings():
        raise ProblemError(unknown_name_of_key(key, all_settings()))
    if not isinstance(values, Sequence) or isinstance(values, str):
        message = f"is swept over {shortened(values)}, which must be a list of values."
        raise setting_error(key, message, "Write it as [32, 64].", value=values)
    if not values:
        message = "is swept, but has no values."
        raise setting_error(key, message, "Set two or more values.", value="")
    if len(values) > MOST_CELLS:
        message = f"has {len(values):,} values, but a sweep can have at most {MOST_CELLS:,} combinations."
        raise setting_error(key, message, "Use fewer values.", value=len(values))
    return tuple(_checked_value(key, value) for value in values)


def _checked_value(key: str, value: object) -> Value:
    if isinstance(value, list):  # a setting that is a list itself
        return ", ".join(map(str, value))
    if value is None or isinstance(value, str | int | float):
        return value
    message = f"is swept over {shortened(value)}, which is not a value of {setting_title(key)}."
    raise setting_error(key, message, "Use text, a number, true or false.", value=value)
