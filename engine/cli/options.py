"""Options that several commands share, and the settings made from them, in layers.

Values stay text until the experiment validates them, so that all errors have the same form.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer

from engine.compare.requirement import Requirement, parse_list
from engine.compare.requirement import parse as parse_requirement
from engine.experiment.command import refuse
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
from engine.experiment.setting import Flag
from engine.experiment.sweep import MOST_REPEATS, AxisValues, values_of_table
from engine.experiment.value import shortened
from engine.export.files import atomic_path
from engine.export.formats import ResultKind

_PANEL = "Experiment"


def flag(name: str, text: str, metavar: str) -> Any:
    """Return an option of the panel *Experiment*, with `text` as its help."""
    return typer.Option(name, help=text, metavar=metavar, rich_help_panel=_PANEL)


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout at the end.")]

Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]

TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Allow the model code or command from this run, preset, TOML file or --set, now and in future. "
        "Read it first: it runs with your permissions.",
        rich_help_panel=_PANEL,
    ),
]


def precisions_option(text: str) -> Any:
    """Return the repeatable option --precision, with `text` as the start of its help."""
    more = "Default: fp32 and fp16 (without a GPU: fp32 and bf16)."
    return flag("--precision", f"{text} Repeatable. One of {', '.join(Precision)}. {more}", "NAME")


Precisions = Annotated[
    list[str] | None, precisions_option("Precision to compare. The first is the baseline.")
]
Repeats = Annotated[
    int,
    typer.Option(
        "--repeats",
        min=1,
        max=MOST_REPEATS,
        help="Runs per precision, alternating, each with the next seed.",
    ),
]
Require = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        metavar="TEXT",
        help='Requirement on each side: "speed >= 1.05", "memory <= 0.8", "time <= 0.9" (relative to the '
        'baseline) or "loss" (not worse). The exit status is 1 if it is not met, and 3 if it is undecided. '
        "Repeatable, or separated by commas.",
    ),
]


def _report(name: str, what: str) -> Any:
    return typer.Option(name, metavar="FILE", help=f"Write {what}. Replaces an existing file.")


JUnit = Annotated[str | None, _report("--junit", "the result as JUnit XML")]
Markdown = Annotated[str | None, _report("--markdown", "a job summary in Markdown")]
MachineName = Annotated[
    str,
    typer.Option(
        "--machine",
        metavar="NAME",
        help="Remote machine to run on (see `ammeter machines list`). Default: this machine.",
    ),
]
_SET = flag("--set", "Any setting (see `ammeter settings`). Overrides all others. Repeatable.", "KEY=VALUE")


def _parameter(option: Flag) -> str:
    return option.name.removeprefix("--").replace("-", "_")


def _flags() -> Iterator[Flag]:
    yield Flag("--preset", "NAME", "Start from a preset (see `ammeter presets`).")
    yield Flag("--config", "FILE", "Settings from a TOML file. They override the preset.")
    for setting in all_settings().values():
        if (option := setting.flag) is not None:
            text = f"{setting.title}. {setting.about} {option.more}".rstrip()
            yield replace(option, more=text)
    yield Flag("--name", "TEXT", "Name of the run.")


def takes_settings(*without: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the flags of an experiment to a command, except `without`. Read them by `parse(ctx.params)`.

    An annotated parameter of the command replaces the flag of the same name.
    """

    def add_flags(verb: Callable[..., int]) -> Callable[..., int]:
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

    return add_flags


@dataclass(frozen=True)
class RunOptions:
    """The experiment that a command's options describe: a preset, and settings that override it.

    `over` are the layers of settings, of which later ones override earlier ones and the first is from the
    TOML file. `sweep` are the settings to sweep. `machine` is the remote machine to train on, "" for this
    one.
    """

    preset: Preset | None
    over: tuple[Mapping[str, Any], ...]
    sweep: AxisValues
    machine: str = ""

    def settings(self, has_gpu: bool) -> dict[str, Any]:
        """Merge all layers, not yet validated, with the code of the model file. Raises ProblemError."""
        return with_code(
            self._layered(has_gpu),
            names_model=self._names_model,
            names_dataset=self.names_dataset,
            is_typed=self._types_model,
        )

    @property
    def names_dataset(self) -> bool:
        """True if the options name a dataset, which replaces the model file's own dataset."""
        return any("dataset" in layer for layer in self.over)

    def chosen_code(self, has_gpu: bool) -> Code | None:
        """Return the code of a file named on the command line, not by a preset or TOML file, or None."""
        if not self._types_model:
            return None
        return chosen_code(self._layered(has_gpu), names_model=True, is_typed=True)

    @property
    def typed_paths(self) -> tuple[str, ...]:
        """The data paths named on the command line."""
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


def parse(parameters: Mapping[str, Any]) -> RunOptions:
    """Parse the options of one call, by typer's names. Raises ProblemError."""
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
        message = f"{path} has a table [sweep], which only `ammeter sweep` uses."
        raise request_error(message, "Use `ammeter sweep`, or remove the table.", key="sweep")
    return RunOptions(
        preset=preset(name) if name is not None else None,
        over=(
            config,
            _merged(flags),
            _merged([_parse_setting(text) for text in parameters.get("set_") or ()]),
        ),
        sweep=values_of_table(swept),
        machine=parameters.get("machine") or "",
    )


def _merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    # within a layer no setting hides another, so that epochs together with steps is an error
    result: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            below = result.get(key)
            if isinstance(below, dict) and isinstance(value, dict):
                value = layered(below, value)
            result[key] = value
    return result


def _parse_setting(text: str) -> dict[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        message = f"--set is '{shortened(text)}', but it must be KEY=VALUE."
        raise request_error(message, "Write it as --set optimizer.momentum=0.9.", key="set", value=text)
    return from_dotted(key.strip(), value.strip())


@dataclass(frozen=True)
class CiOptions:
    """The requirements on a comparison, and the files for continuous integration. None: not written."""

    requirements: tuple[Requirement, ...] = ()
    junit: Path | None = None
    markdown: Path | None = None


WITHOUT_CI = CiOptions()


def parse_ci(require: Sequence[str] | None, junit: str | None, markdown: str | None) -> CiOptions:
    """Parse --require, --junit and --markdown. Raises ProblemError, also for a file that is not writable."""
    paths = [None if path is None else Path(path) for path in (junit, markdown)]
    for path in filter(None, paths):
        if path.is_dir():
            raise request_error(f"{path} is a folder.", "Give the name of a file.", key="to", value=path)
        # nothing is written, but where nothing can be written this fails
        with atomic_path(path, force=True):
            pass
    # an empty text is no list, but a mistake
    lists = (parse_list(text) or (parse_requirement(text),) for text in require or ())
    return CiOptions(tuple(chain.from_iterable(lists)), *paths)


LabeledExperiment = tuple[str, Experiment]


def sides_of(asked: RunOptions, precisions: list[str] | None, *, on_gpu: bool) -> list[LabeledExperiment]:
    """Return the labeled sides of --precision or the preset. Raises ProblemError for a duplicate."""
    base = asked.settings(on_gpu)
    presets = asked.preset.variants_for(on_gpu) if asked.preset is not None else ()
    if presets and not precisions:
        return [(side.label, experiment_from(layered(base, side.overrides))) for side in presets]
    names = precisions or default_precisions(on_gpu=on_gpu)
    if len(set(names)) < len(names):
        value = ", ".join(names)
        message = f"precision is {shortened(value)}, but each may be given only once."
        raise request_error(message, "Give --precision once for each.", key="precision", value=value)
    experiments = [experiment_from({**base, "precision": name}) for name in names]
    refuse("precision", (experiment.command for experiment in experiments))
    return [(experiment.precision.label, experiment) for experiment in experiments]


def default_precisions(*, on_gpu: bool) -> tuple[str, ...]:
    """Return the precisions to compare by default, the baseline first."""
    amp = Precision.FP16 if on_gpu else Precision.BF16
    return (Precision.FP32.value, amp.value)


def refuse_limit(asked: RunOptions) -> None:
    """Raise ProblemError for a preset that finds the largest batch instead of training."""
    preset = asked.preset
    if preset is not None and preset.kind == "limit":
        message = f"The preset {preset.name} finds the largest batch that fits."
        remedy = f"Use `ammeter limit --preset {preset.name}`."
        raise request_error(message, remedy, key="preset", value=preset.name)


def refuse_script(asked: RunOptions, action: str) -> None:
    """Raise ProblemError for invalid settings, and for a command if `action` is not for scripts."""
    refuse(action, [experiment_from(asked.settings(True)).command])


def refuse_settings(asked: RunOptions, run: str, *, precisions: Sequence[str] = ()) -> None:
    """Raise ProblemError for settings together with --run."""
    if asked.preset is not None or any(asked.over) or precisions:
        message = "--run uses the settings of the saved run, so no other settings are allowed."
        remedy = "Remove either --run or the settings."
        raise request_error(message, remedy, key="run", value=run)


def export_option(kind: ResultKind[Any]) -> Any:
    """Return the option --to of a command that writes a result of `kind` to files."""
    text = f"Also write {kind.noun} to a file, in the format of its ending: {kind.endings}. Repeatable."
    return typer.Option("--to", metavar="FILE", help=text)
