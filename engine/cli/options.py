"""The experiment options that `run` and `compare` share, and the layers of settings they stand for.

Flags are text until the experiment validates them, so that every wrong value is answered in one form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.experiment.experiment import from_dotted, layered, read_toml
from engine.experiment.presets import Preset, preset
from engine.experiment.problem import ProblemError, request_problem
from engine.experiment.text import shortened

_PANEL = "Experiment"


def flag(name: str, text: str, metavar: str) -> Any:
    """An option of the experiment: its name, its help and what stands for its value there."""
    return typer.Option(name, help=text, metavar=metavar, rich_help_panel=_PANEL)


PresetName = Annotated[
    str | None, flag("--preset", "Start from a preset; `ammeter presets` lists them.", "NAME")
]
ConfigFile = Annotated[str | None, flag("--config", "Settings from a TOML file, over the preset.", "FILE")]
Sets = Annotated[
    list[str] | None,
    flag("--set", "Any setting, dotted, over everything else; repeatable.", "KEY=VALUE"),
]
Model = Annotated[str | None, flag("--model", "The model; `ammeter catalog` lists them.", "NAME")]
Dataset = Annotated[str | None, flag("--dataset", "The dataset; `ammeter catalog` lists them.", "NAME")]
ImageSize = Annotated[str | None, flag("--image-size", "Pixels a side; pictures are resized.", "PIXELS")]
BatchSize = Annotated[str | None, flag("--batch-size", "Samples of one forward pass.", "N")]
Epochs = Annotated[str | None, flag("--epochs", "Length of the run in epochs.", "N")]
Steps = Annotated[str | None, flag("--steps", "Length of the run in steps, in place of epochs.", "N")]
OptimizerName = Annotated[str | None, flag("--optimizer", "adamw, adam or sgd.", "NAME")]
LearningRate = Annotated[str | None, flag("--lr", "The learning rate.", "RATE")]
Device = Annotated[str | None, flag("--device", "auto, cpu, cuda:0 or another device.", "NAME")]
Seed = Annotated[str | None, flag("--seed", "Seeds the weights and the order of the samples.", "N")]
Recipe = Annotated[
    str | None, flag("--recipe", "plain, fast, or parts of it: channels_last+fused+compile+capture.", "NAME")
]
MemoryGib = Annotated[
    str | None, flag("--memory-gib", "Limits the memory of tensors as a smaller card would, in GiB.", "GIB")
]
Name = Annotated[str | None, flag("--name", "What the run is called.", "TEXT")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout at the end, and nothing else there.")
]

_KEYS = {
    "model": "model",
    "dataset": "dataset",
    "image_size": "image_size",
    "batch_size": "batch_size",
    "epochs": "epochs",
    "steps": "steps",
    "optimizer": "optimizer.name",
    "lr": "optimizer.learning_rate",
    "device": "device",
    "seed": "seed",
    "recipe": "step.recipe",
    "memory_gib": "memory_cap_gib",
}


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
    precision = parameters.get("precision")
    # compare's own --precision is a list: it names the sides of the comparison, not a setting of them all
    flags = [from_dotted("precision", precision)] if isinstance(precision, str) else []
    flags += [
        from_dotted(key, parameters[name]) for name, key in _KEYS.items() if parameters.get(name) is not None
    ]
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
