"""The options that `run`, `compare` and `probe` share, and the layers of settings they stand for.

Flags are text until the experiment validates them, so that every wrong value is answered in one form.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer

from engine.experiment.experiment import Precision, from_dotted, layered, read_toml
from engine.experiment.presets import Preset, preset
from engine.experiment.problem import ProblemError, request_problem
from engine.experiment.text import shortened
from engine.experiment.titles import setting_help, setting_title

_PANEL = "Experiment"


def flag(name: str, text: str, metavar: str) -> Any:
    """An option of the experiment: its name, its help and what stands for its value there."""
    return typer.Option(name, help=text, metavar=metavar, rich_help_panel=_PANEL)


AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout at the end, and nothing else there.")
]

_PRECISIONS = f"{', '.join(list(Precision)[:-1])} or {list(Precision)[-1]}."
_FLAGS = {
    "preset": (None, "Start from a preset; `ammeter presets` lists them.", "NAME"),
    "config": (None, "Settings from a TOML file, over the preset.", "FILE"),
    "model": ("model", "`ammeter catalog` lists them.", "NAME"),
    "dataset": ("dataset", "`ammeter catalog` lists them.", "NAME"),
    "image_size": ("image_size", "", "PIXELS"),
    "precision": ("precision", _PRECISIONS, "NAME"),
    "batch_size": ("batch_size", "", "N"),
    "epochs": ("epochs", "", "N"),
    "steps": ("steps", "", "N"),
    "optimizer": ("optimizer.name", "adamw, adam or sgd.", "NAME"),
    "lr": ("optimizer.learning_rate", "", "RATE"),
    "device": ("device", "auto, cpu, cuda:0 or another device.", "NAME"),
    "seed": ("seed", "", "N"),
    "recipe": ("step.recipe", "plain, fast, or parts of it: channels_last+fused+compile+capture.", "NAME"),
    "memory_gib": ("memory_cap_gib", "", "GIB"),
    "name": (None, "What the run is called.", "TEXT"),
}
"""Of each flag the setting that it stands for, if any, its help or what may be given beside the setting's own
help, and what stands for its value there."""
_SET = flag("--set", "Any setting, dotted, over everything else; repeatable.", "KEY=VALUE")


def _help(key: str | None, text: str) -> str:
    return text if key is None else f"{setting_title(key)}. {setting_help(key)} {text}".rstrip()


def takes_settings(*without: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Gives a verb the flags of an experiment but for some; it reads them by `asked(ctx.params)`.

    A parameter of the verb's own that has the name of a flag stands in its place; it is annotated where it
    has another help or type.
    """

    def give(verb: Callable[..., int]) -> Callable[..., int]:
        context, *own = inspect.signature(verb, eval_str=True).parameters.values()
        found = {
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
        found["set_"] = context.replace(
            name="set_", default=None, annotation=Annotated[list[str] | None, _SET]
        )
        found |= {
            one.name: one for one in own if one.name not in found or get_origin(one.annotation) is Annotated
        }
        passed = {context.name, *(one.name for one in own)}

        @functools.wraps(verb)
        def called(**options: Any) -> int:
            return verb(**{name: value for name, value in options.items() if name in passed})

        signature = inspect.Signature([context, *found.values()], return_annotation=int)
        called.__signature__ = signature  # type: ignore[attr-defined]
        return called

    return give


@dataclass(frozen=True)
class Asked:
    """What the options ask for: a preset, and settings over it in the order of precedence."""

    preset: Preset | None
    over: tuple[Mapping[str, Any], ...]

    def settings(self, has_gpu: bool) -> dict[str, Any]:
        """All layers as one, not yet validated."""
        below = self.preset.base(has_gpu) if self.preset is not None else {}
        return layered(below, *self.over)

    @property
    def depends_on_gpu(self) -> bool:
        """Whether the settings are others where there is no GPU."""
        return self.settings(True) != self.settings(False)


def asked(parameters: Mapping[str, Any]) -> Asked:
    """Reads the options of one call, by typer's names. Raises ProblemError."""
    # what is a list, as compare's own --precision, names the sides of a comparison: no setting of them all
    given = {key: parameters.get(name) for name, (key, _, _) in _FLAGS.items() if key is not None}
    flags = [from_dotted(key, value) for key, value in given.items() if isinstance(value, str)]
    config, name = parameters.get("config"), parameters.get("preset")
    return Asked(
        preset=preset(name) if name is not None else None,
        over=(
            read_toml(Path(config)) if config is not None else {},
            _together(flags),
            _together([_set(text) for text in parameters.get("set_") or ()]),
        ),
    )


def _together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Settings of one layer: none of them hides another, so epochs beside steps is answered as an error."""
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
