"""The options that `run`, `compare` and `probe` share, and the layers of settings they stand for.

Flags stay text until the experiment validates them, so that every wrong value gets the same kind of answer.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer

from engine.experiment.experiment import (
    Experiment,
    Precision,
    experiment_from,
    from_dotted,
    layered,
    read_toml,
)
from engine.experiment.own.code import Code, chosen_code, with_code
from engine.experiment.presets import Preset, preset
from engine.experiment.problem import ProblemError, request_problem
from engine.experiment.sweep.axes import AxisValues, values_of_table
from engine.experiment.text import shortened
from engine.experiment.titles import setting_help, setting_title
from engine.export.formats import Kind

_PANEL = "Experiment"


def flag(name: str, text: str, metavar: str) -> Any:
    """An option in the panel of the experiment, with `text` as its help."""
    return typer.Option(name, help=text, metavar=metavar, rich_help_panel=_PANEL)


AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object on stdout, at the end.")]

Force = Annotated[bool, typer.Option("--force", help="Overwrite what exists.")]

PricePerKwh = Annotated[
    str,
    typer.Option(
        "--price-per-kwh",
        metavar="PRICE",
        help="What a kWh costs, such as 0.30 EUR: adds what the energy of a million samples costs.",
    ),
]

Co2PerKwh = Annotated[
    str,
    typer.Option(
        "--co2-per-kwh",
        metavar="GRAMS",
        help="The grams of CO₂ that a kWh stands for: adds those of a million samples.",
    ),
]

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

PRECISIONS = f"One of {', '.join(Precision)}."
DEFAULT_PRECISIONS = "Default: fp32 and fp16, without a GPU fp32 and bf16."
_FLAGS = {
    "preset": (None, "Start from a preset; `ammeter presets` lists them.", "NAME"),
    "config": (None, "Settings from a TOML file, which override the preset.", "FILE"),
    "model": (
        "model",
        "`ammeter catalog` lists the models. A file of your own: net.py or net.py:Net; "
        "`ammeter template --help` says what it may define.",
        "NAME",
    ),
    "dataset": ("dataset", "`ammeter catalog` lists the datasets.", "NAME"),
    "image_size": ("image_size", "", "PIXELS"),
    "precision": ("precision", PRECISIONS, "NAME"),
    "batch_size": ("batch_size", "", "N"),
    "epochs": ("epochs", "", "N"),
    "steps": ("steps", "", "N"),
    "optimizer": ("optimizer.name", "One of adamw, adam, sgd.", "NAME"),
    "lr": ("optimizer.learning_rate", "", "RATE"),
    "device": ("device", "One of auto, cpu, cuda:0 and so on.", "NAME"),
    "seed": ("seed", "", "N"),
    "recipe": ("step.recipe", "One of plain, fast, or parts: channels_last+fused+compile+capture.", "NAME"),
    "memory_gib": ("memory_cap_gib", "", "GIB"),
    "name": (None, "The name of the run.", "TEXT"),
}
"""Each flag's setting, if it has one; its help, which follows that of the setting; and its placeholder."""
_SET = flag(
    "--set", "Any setting; overrides all others. Repeatable. `ammeter settings` lists them.", "KEY=VALUE"
)


def _help(key: str | None, text: str) -> str:
    return text if key is None else f"{setting_title(key)}. {setting_help(key)} {text}".rstrip()


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
                annotation=Annotated[
                    str | None, flag(f"--{name.replace('_', '-')}", _help(key, text), metavar)
                ],
            )
            for name, (key, text, metavar) in _FLAGS.items()
            if name not in without
        }
        parameters["set_"] = context.replace(
            name="set_", default=None, annotation=Annotated[list[str] | None, _SET]
        )
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
    """What the options ask for: a preset, and settings over it in the order of precedence.

    The first of `over` is the TOML file's; `sweep` are the settings that it sweeps.
    """

    preset: Preset | None
    over: tuple[Mapping[str, Any], ...]
    sweep: AxisValues

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
        """Whether they name a dataset, in place of the one that a model's file may bring."""
        return any("dataset" in layer for layer in self.over)

    def chosen_code(self, has_gpu: bool) -> Code | None:
        """The code of a file that the command line itself names; None for that of a preset or TOML file."""
        if not self._types_model:
            return None
        return chosen_code(self._layered(has_gpu), names_model=True, is_typed=True)

    def _layered(self, has_gpu: bool) -> dict[str, Any]:
        below = self.preset.base(has_gpu) if self.preset is not None else {}
        return layered(below, *self.over)

    @property
    def _names_model(self) -> bool:
        return any("model" in layer and "code" not in layer for layer in self.over)

    @property
    def _types_model(self) -> bool:
        """Whether the model is that of --model or --set, not of the TOML file."""
        _, *typed = self.over
        return any("model" in layer and "code" not in layer for layer in typed)

    @property
    def depends_on_gpu(self) -> bool:
        """Whether the settings differ without a GPU."""
        return self.settings(True) != self.settings(False)


def asked(parameters: Mapping[str, Any]) -> Asked:
    """Reads the options of one call, by typer's names. Raises ProblemError."""
    # a list, such as compare's own --precision, names the sides of a comparison and is no setting of them all
    values = {key: parameters.get(name) for name, (key, _, _) in _FLAGS.items() if key is not None}
    flags = [from_dotted(key, value) for key, value in values.items() if isinstance(value, str)]
    path, name = parameters.get("config"), parameters.get("preset")
    config = read_toml(Path(path)) if path is not None else {}
    swept = config.pop("sweep", {})
    if swept and "sweep" not in parameters:
        message = f"{path} has a table [sweep], which only `ammeter compare` trains."
        raise ProblemError(
            request_problem(message, "Use `ammeter compare`, or remove the table.", key="sweep")
        )
    return Asked(
        preset=preset(name) if name is not None else None,
        over=(config, _merged(flags), _merged([_set(text) for text in parameters.get("set_") or ()])),
        sweep=values_of_table(swept),
    )


def _merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    # within a layer no setting hides another, so that epochs beside steps is an error
    result: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            below = result.get(key)
            if isinstance(below, dict) and isinstance(value, dict):
                result[key] = layered(below, value)
            else:
                result[key] = value
    return result


def _set(text: str) -> dict[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        message = f"--set is '{shortened(text)}', but it must be KEY=VALUE."
        raise ProblemError(
            request_problem(message, "Write it as --set optimizer.momentum=0.9.", key="set", value=text)
        )
    return from_dotted(key.strip(), value.strip())


def sides_of(asked: Asked, precisions: list[str] | None, *, on_gpu: bool) -> list[tuple[str, Experiment]]:
    """The labelled experiments that several --precision stand for, or the variants of the preset.

    Raises ProblemError where a precision is named twice.
    """
    base = asked.settings(on_gpu)
    presets = asked.preset.variants_for(on_gpu) if asked.preset is not None else ()
    if presets and not precisions:
        return [(side.label, experiment_from(layered(base, side.overrides))) for side in presets]
    names = precisions or default_precisions(on_gpu=on_gpu)
    if len(set(names)) < len(names):
        value = ", ".join(names)
        message = f"precision is {shortened(value)}, but each is needed only once."
        raise ProblemError(
            request_problem(message, "Give --precision once for each.", key="precision", value=value)
        )
    experiments = [experiment_from({**base, "precision": name}) for name in names]
    return [(experiment.precision.label, experiment) for experiment in experiments]


def default_precisions(*, on_gpu: bool) -> tuple[str, ...]:
    """The precisions that are compared where none is named, the baseline first."""
    amp = Precision.FP16 if on_gpu else Precision.BF16
    return (Precision.FP32.value, amp.value)


def refuse_settings(asked: Asked, run: str, verb: str, *, precisions: Sequence[str] = ()) -> None:
    """Raises ProblemError where settings are given beside --run; `verb` is what is done with the run."""
    if asked.preset is not None or any(asked.over) or precisions:
        message = f"A saved run is {verb} with its own settings; --run takes no others."
        remedy = "Leave out either --run or the settings."
        raise ProblemError(request_problem(message, remedy, key="run", value=run))


def export_option(kind: Kind[Any]) -> Any:
    """The option --to of a verb that writes a result of that `kind` to files."""
    text = f"Write {kind.noun} to a file, too; its ending chooses the format: {kind.endings}. Repeatable."
    return typer.Option("--to", metavar="FILE", help=text)
