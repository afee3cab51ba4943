"""The options that several verbs share, and the layers of settings that they make.

Flags stay text until the experiment validates them, so that every wrong value gets the same kind of answer.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer

from engine.experiment.experiment import (
    Experiment,
    Precision,
    all_settings,
    experiment_from,
    from_dotted,
    layered,
)
from engine.experiment.own.code import Code, chosen_code, with_code
from engine.experiment.presets import Preset, preset, read_toml
from engine.experiment.problem import request_error
from engine.experiment.repeats import MOST_REPEATS
from engine.experiment.setting import Flag
from engine.experiment.sweep import AxisValues, values_of_table
from engine.experiment.value import shortened
from engine.export.formats import Kind

_PANEL = "Experiment"


def flag(name: str, text: str, metavar: str) -> Any:
    """An option in the panel of the experiment, with `text` as its help."""
    return typer.Option(name, help=text, metavar=metavar, rich_help_panel=_PANEL)


AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object on stdout, at the end.")]

Force = Annotated[bool, typer.Option("--force", help="Overwrite what exists.")]

Published = Annotated[
    bool,
    typer.Option(
        "--published",
        help="Lay published figures of the same model beside yours, with their hardware, year and source.",
    ),
]

TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Run the code that a run, a preset, a TOML file or --set brings or names, now and later. Read "
        "it first: it can do all that you can.",
        rich_help_panel=_PANEL,
    ),
]


def precisions_option(text: str) -> Any:
    """The option --precision of a verb that takes several; `text` says what one stands for."""
    more = "Default: fp32 and fp16, without a GPU fp32 and bf16."
    return flag("--precision", f"{text} Repeatable. One of {', '.join(Precision)}. {more}", "NAME")


Precisions = Annotated[
    list[str] | None, precisions_option("One side of the comparison; the first is the baseline.")
]
Repeats = Annotated[
    int,
    typer.Option(
        "--repeats",
        min=1,
        max=MOST_REPEATS,
        help="How often to train each side; the sides take turns, and each turn has the next seed.",
    ),
]
MachineName = Annotated[
    str,
    typer.Option(
        "--machine",
        metavar="NAME",
        help="Another machine; `ammeter machines list` names them. Default: here.",
    ),
]
_SET = flag(
    "--set", "Any setting; overrides all others. Repeatable. `ammeter settings` lists them.", "KEY=VALUE"
)


def _parameter(option: Flag) -> str:
    return option.name.removeprefix("--").replace("-", "_")


def _flags() -> Iterator[Flag]:
    yield Flag("--preset", "NAME", "Start from a preset; `ammeter presets` lists them.")
    yield Flag("--config", "FILE", "Settings from a TOML file, which override the preset.")
    for setting in all_settings().values():
        if (option := setting.flag) is not None:
            text = f"{setting.title}. {setting.about} {option.more}".rstrip()
            yield replace(option, more=text)
    yield Flag("--name", "TEXT", "The name of the run.")


def takes_settings(*without: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Gives a verb the flags of an experiment except those named; it reads them by `asked(ctx.params)`.

    A parameter of the verb that has a flag's name replaces the flag if it is annotated, as with another help
    or type.
    """

    def give(verb: Callable[..., int]) -> Callable[..., int]:
        context, *own = inspect.signature(verb, eval_str=True).parameters.values()
        parameters = {
            name: context.replace(
                name=name,
                default=None,
                annotation=Annotated[str | None, flag(option.name, option.more, option.placeholder)],
            )
            for option in _flags()
            if (name := _parameter(option)) not in without
        }
        parameters["set_"] = context.replace(
            name="set_", default=None, annotation=Annotated[list[str] | None, _SET]
        )
        parameters["machine"] = context.replace(name="machine", default="", annotation=MachineName)
        parameters |= {
            parameter.name: parameter
            for parameter in own
            if parameter.name not in parameters or get_origin(parameter.annotation) is Annotated
        }
        passed = {context.name, *(parameter.name for parameter in own)}

        @functools.wraps(verb)
        def called(**options: Any) -> int:
            return verb(**{name: value for name, value in options.items() if name in passed})

        signature = inspect.Signature([context, *parameters.values()], return_annotation=int)
        called.__signature__ = signature  # type: ignore[attr-defined]
        return called

    return give


@dataclass(frozen=True)
class Asked:
    """The request in the options: a preset, and settings over it in the order of precedence.

    The first of `over` is the TOML file's; `sweep` are the settings that it sweeps. `machine` is where to do
    it, "" for this one.
    """

    preset: Preset | None
    over: tuple[Mapping[str, Any], ...]
    sweep: AxisValues
    machine: str = ""

    def settings(self, has_gpu: bool) -> dict[str, Any]:
        """All layers as one, not yet validated, with the code of a model's file. Raises ProblemError."""
        return with_code(
            self._layered(has_gpu),
            names_model=self._names_model,
            names_dataset=self.names_dataset,
            is_typed=self._types_model,
        )

    @property
    def names_dataset(self) -> bool:
        """True if they name a dataset, in place of the one that a model's file may bring."""
        return any("dataset" in layer for layer in self.over)

    def chosen_code(self, has_gpu: bool) -> Code | None:
        """The code of a file that the command line itself names; None for that of a preset or TOML file."""
        if not self._types_model:
            return None
        return chosen_code(self._layered(has_gpu), names_model=True, is_typed=True)

    @property
    def typed_paths(self) -> tuple[str, ...]:
        """The paths of data that the command line itself names."""
        _, *typed = self.over
        return tuple(str(layer["path"]) for layer in typed if layer.get("path"))

    def _layered(self, has_gpu: bool) -> dict[str, Any]:
        below = self.preset.base(has_gpu) if self.preset is not None else {}
        return layered(below, *self.over)

    @property
    def _names_model(self) -> bool:
        return any("model" in layer and "code" not in layer for layer in self.over)

    @property
    def _types_model(self) -> bool:
        _, *typed = self.over
        return any("model" in layer and "code" not in layer for layer in typed)


def asked(parameters: Mapping[str, Any]) -> Asked:
    """Reads the options of one call, by typer's names. Raises ProblemError."""
    # a list, such as compare's own --precision, names the sides of a comparison and is no setting of them all
    values = {
        key: parameters.get(_parameter(setting.flag))
        for key, setting in all_settings().items()
        if setting.flag is not None
    }
    flags = [from_dotted(key, value) for key, value in values.items() if isinstance(value, str)]
    path, name = parameters.get("config"), parameters.get("preset")
    config = read_toml(Path(path)) if path is not None else {}
    swept = config.pop("sweep", {})
    if swept and "sweep" not in parameters:
        message = f"{path} has a table [sweep], which only `ammeter sweep` trains."
        raise request_error(message, "Use `ammeter sweep`, or remove the table.", key="sweep")
    return Asked(
        preset=preset(name) if name is not None else None,
        over=(config, _merged(flags), _merged([_set(text) for text in parameters.get("set_") or ()])),
        sweep=values_of_table(swept),
        machine=parameters.get("machine") or "",
    )


def _merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    # within a layer no setting hides another, so that epochs beside steps is an error
    result: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            below = result.get(key)
            if isinstance(below, dict) and isinstance(value, dict):
                value = layered(below, value)
            result[key] = value
    return result


def _set(text: str) -> dict[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        message = f"--set is '{shortened(text)}', but it must be KEY=VALUE."
        raise request_error(message, "Write it as --set optimizer.momentum=0.9.", key="set", value=text)
    return from_dotted(key.strip(), value.strip())


LabelledExperiment = tuple[str, Experiment]


def sides_of(asked: Asked, precisions: list[str] | None, *, on_gpu: bool) -> list[LabelledExperiment]:
    """The labelled sides of several --precision, or of the preset. Raises ProblemError for a name twice."""
    base = asked.settings(on_gpu)
    presets = asked.preset.variants_for(on_gpu) if asked.preset is not None else ()
    if presets and not precisions:
        return [(side.label, experiment_from(layered(base, side.overrides))) for side in presets]
    names = precisions or default_precisions(on_gpu=on_gpu)
    if len(set(names)) < len(names):
        value = ", ".join(names)
        message = f"precision is {shortened(value)}, but each is needed only once."
        raise request_error(message, "Give --precision once for each.", key="precision", value=value)
    experiments = [experiment_from({**base, "precision": name}) for name in names]
    return [(experiment.precision.label, experiment) for experiment in experiments]


def default_precisions(*, on_gpu: bool) -> tuple[str, ...]:
    """The precisions that are compared where none is named, the baseline first."""
    amp = Precision.FP16 if on_gpu else Precision.BF16
    return (Precision.FP32.value, amp.value)


def refuse_limit(asked: Asked) -> None:
    """Raises ProblemError for a preset that finds the largest batch in place of training."""
    preset = asked.preset
    if preset is not None and preset.kind == "limit":
        message = f"The preset {preset.name} finds the largest batch that fits."
        remedy = f"Use `ammeter limit --preset {preset.name}`."
        raise request_error(message, remedy, key="preset", value=preset.name)


def refuse_settings(asked: Asked, run: str, verb: str, *, precisions: Sequence[str] = ()) -> None:
    """Raises ProblemError where settings are given beside --run; `verb` is what is done with the run."""
    if asked.preset is not None or any(asked.over) or precisions:
        message = f"A saved run is {verb} with its own settings; --run takes no others."
        remedy = "Leave out either --run or the settings."
        raise request_error(message, remedy, key="run", value=run)


def export_option(kind: Kind[Any]) -> Any:
    """The option --to of a verb that writes a result of that `kind` to files."""
    text = f"Write {kind.noun} to a file, too; its ending chooses the format: {kind.endings}. Repeatable."
    return typer.Option("--to", metavar="FILE", help=text)
