"""The precision map: which operation computed in which number format, in which module."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.experiment.value import MOST_ENTRIES, Fraction, Line, Message, Positive, Seconds, Text, Whole
from engine.protocol.numerics.formats import DTypes

LOSS, OPTIMIZER, ELSEWHERE = "(loss)", "(optimizer)", "(elsewhere)"
"""Stand in a module's place for what is computed outside of the model; ELSEWHERE is not attributed."""

_TITLES = {LOSS: "the loss", OPTIMIZER: "the optimizer", ELSEWHERE: "elsewhere", "": "the model"}

Direction = Literal["forward", "backward"]


def module_title(name: str) -> str:
    """A module's name in a sentence or table: its qualified name; the model itself has none."""
    return _TITLES.get(name, name)


class Operation(Message):
    """An operation of a module, as often as it ran with these number formats.

    `module` is a qualified name, "" for the model itself, or LOSS, OPTIMIZER or ELSEWHERE. `name` is the
    operator's, "aten.convolution". `moved_bytes` are what it read and wrote. `is_cast`: it only changes a
    number format; `by_autocast`: nobody but autocast asked for that.
    """

    module: Line
    name: Line
    direction: Direction
    inputs: DTypes = ()
    outputs: DTypes = ()
    count: Positive = 1
    seconds: Seconds = 0.0
    moved_bytes: Whole = 0
    is_cast: bool = False
    by_autocast: bool = False

    @property
    def computed_in(self) -> str | None:
        """The number format that it computed in; None where it computed nothing, as a cast."""
        floats = (dtype for dtype in (*self.outputs, *self.inputs) if "float" in dtype)
        return None if self.is_cast else next(floats, None)


class MappedModule(Message):
    """A module of the model; `name` is its qualified name, "" for the model itself.

    `kept_in_fp32`: the experiment exempts it from autocast. Its operations are those of the same `module`,
    without those of its children.
    """

    name: Line
    class_name: Line
    parameters: Whole = 0
    kept_in_fp32: bool = False

    @property
    def depth(self) -> int:
        """The number of modules around it."""
        return len(self.name.split(".")) if self.name else 0


class PrecisionMap(Message):
    """One forward and backward pass of a batch, operation by operation; modules in the model's order.

    What activation checkpointing recomputes counts as forward, once more. `attributed_fraction` is the share
    of the floating-point operations whose module is known. `seconds` is the time of the pass, which watching
    makes longer. `notes` say what differs on another type of device.
    """

    part: Literal["map"] = "map"
    modules: Annotated[tuple[MappedModule, ...], Field(max_length=MOST_ENTRIES)] = ()
    operations: Annotated[tuple[Operation, ...], Field(max_length=MOST_ENTRIES)] = ()
    attributed_fraction: Fraction = 1.0
    seconds: Seconds = 0.0
    notes: Annotated[tuple[Text, ...], Field(max_length=100)] = ()
