"""Presets: named experiments as TOML files, built in or the user's own."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import tomli_w
from pydantic import Field, ValidationError

from engine.experiment.catalog import NumericsPart
from engine.experiment.experiment import Experiment, experiment_from, layered
from engine.experiment.own.code import MOST_CODE_BYTES
from engine.experiment.paths import config_folder, read_file, write_whole
from engine.experiment.problem import (
    Problem,
    ProblemError,
    problems_from_validation,
    request_error,
    unknown_name,
)
from engine.experiment.sweep import VARIANT, Axis, Value, axes_of, grid_of, values_of_table
from engine.experiment.value import Bounded, Line, Text, check_keys, shortened

PresetKind = Literal["run", "compare", "limit", "numerics"]

BUILT_IN = (
    "fashion",
    "hello-amp",
    "cifar100-resnet",
    "resnet18-fakedata",
    "resnet50-imagenet",
    "resnet50-memory",
    "batch-sweep",
    "causal-lm",
    "language-formats",
    "batch-limit",
    "debug-divergence",
)
"""The built-in presets in the order of the list. A new window starts with the first."""

_NOT_SETTINGS = ("about", "variants", "sweep")  # keys of `without_gpu`


@dataclass(frozen=True)
class Variant:
    """One side of a preset's comparison: its label, and the settings that differ from the preset's."""

    label: str
    overrides: Mapping[str, Any]


@dataclass(frozen=True)
class Preset:
    """A named experiment to start from, built in or the user's own.

    On a machine without a GPU, `without_gpu` overrides its settings, variants and text.
    """

    name: str
    title: str
    about: str
    kind: PresetKind
    experiment: Mapping[str, Any]
    variants: tuple[Variant, ...]
    without_gpu: Mapping[str, Any]
    origin: Path
    is_own: bool
    parts: tuple[NumericsPart, ...] = ()
    sweep: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    def base(self, has_gpu: bool) -> dict[str, Any]:
        """Return the settings that every variant shares."""
        return layered(self.experiment, {} if has_gpu else self._overrides)

    @property
    def without_gpu_note(self) -> str | None:
        """A sentence about the differences on machines without a GPU. None if there are none."""
        note = "Without a GPU, it uses other settings." if self._overrides else None
        return str(self.without_gpu["about"]) if "about" in self.without_gpu else note

    def about_for(self, has_gpu: bool) -> str:
        """Return a description of the preset. Without a GPU, add the differences."""
        return " ".join(filter(None, (self.about, None if has_gpu else self.without_gpu_note)))

    def variants_for(self, has_gpu: bool) -> tuple[Variant, ...]:
        """Return the variants to compare. Empty for a preset that does not compare."""
        if has_gpu or "variants" not in self.without_gpu:
            return self.variants
        return _variants_from(self.without_gpu["variants"])

    def sweep_for(self, has_gpu: bool) -> Mapping[str, tuple[Value, ...]]:
        """Return the values of swept settings. Empty for a preset that is not a sweep."""
        if has_gpu or "sweep" not in self.without_gpu:
            return self.sweep
        return values_of_table(self.without_gpu["sweep"], "without_gpu.sweep")

    def axes(self, has_gpu: bool) -> tuple[Axis, ...]:
        """Return the axes: the variants, if there are any, then the swept settings."""
        swept, variants = axes_of(self.sweep_for(has_gpu)), self.variants_for(has_gpu)
        if not variants:
            return swept
        labels = tuple(side.label for side in variants)
        overrides = tuple(dict(side.overrides) for side in variants)
        return (Axis(key=VARIANT, values=labels, overrides=overrides), *swept)

    def experiments(self, has_gpu: bool) -> tuple[tuple[str, Experiment], ...]:
        """Return a label and an experiment for each variant. A preset without variants has one pair."""
        base, variants = self.base(has_gpu), self.variants_for(has_gpu)
        if not variants:
            experiment = experiment_from(base)
            return ((experiment.precision.label, experiment),)
        return tuple((side.label, experiment_from(layered(base, side.overrides))) for side in variants)

    @property
    def _overrides(self) -> dict[str, Any]:
        return {key: value for key, value in self.without_gpu.items() if key not in _NOT_SETTINGS}


class _Side(Bounded, extra="allow"):
    label: Line = Field(min_length=1)


class _File(Bounded, extra="forbid"):
    title: Line = Field(min_length=1)
    about: Text = ""
    kind: PresetKind = "run"
    parts: tuple[NumericsPart, ...] = ()
    experiment: dict[str, Any]
    variants: list[_Side] = Field(default_factory=list)
    sweep: dict[str, Any] = Field(default_factory=dict)
    without_gpu: dict[str, Any] = Field(default_factory=dict)


def all_presets() -> tuple[Preset, ...]:
    """Return the built-in presets, then the user's own by name, without invalid files."""
    return (*_built_in(), *(preset for preset in _own_presets() if isinstance(preset, Preset)))


def broken_presets() -> tuple[Problem, ...]:
    """Return the problems of the user's own presets that cannot be used."""
    return tuple(problem for problem in _own_presets() if isinstance(problem, Problem))


def preset(name: str) -> Preset:
    """Return the preset of that name. Raises ProblemError."""
    presets = {preset.name: preset for preset in all_presets()}
    if name not in presets:
        raise ProblemError(unknown_name("preset", name, presets, "preset"))
    return presets[name]


def save_own(
    title: str,
    experiment: Experiment,
    variants: Sequence[Variant] = (),
    *,
    sweep: Mapping[str, Sequence[Value]] = MappingProxyType({}),
    about: str = "",
    replace: bool = False,
) -> Preset:
    """Save a preset of the user, named by its title. Raises ProblemError."""
    path = own_presets_folder() / f"{_name_from(title)}.toml"
    if path.stem in BUILT_IN:
        raise _taken_title_error(title, "Use another title.")
    if path.exists() and not replace:
        raise _taken_title_error(title, "Use another title, or replace that preset.")
    table = {
        "title": title.strip(),
        "about": about,
        "kind": "compare" if variants or sweep else "run",
        "experiment": experiment.model_dump(mode="json", exclude_none=True),
        "sweep": {key: list(values) for key, values in sweep.items()},
        "variants": [{"label": side.label, **side.overrides} for side in variants],
    }
    saved = _preset_from(table, path, is_own=True)
    _write_preset(path, tomli_w.dumps(table))
    return saved


def rename_own(own: Preset, title: str) -> Preset:
    """Rename a preset of the user and its file. Raises ProblemError."""
    _refuse_built_in(own, "renamed")
    path = own.origin.with_name(f"{_name_from(title)}.toml")
    is_free = not path.exists() or path.samefile(own.origin)
    if path.stem in BUILT_IN or not is_free:
        raise _taken_title_error(title, "Use another title.")
    table = {**read_toml(own.origin), "title": title.strip()}
    renamed = _preset_from(table, path, is_own=True)
    _write_preset(own.origin, tomli_w.dumps(table))
    with _failure_as_problem("renamed", own.origin):
        own.origin.replace(path)
    return renamed


def delete_own(own: Preset) -> str:
    """Delete a preset of the user and return its text for `restore_own`. Raises ProblemError."""
    _refuse_built_in(own, "deleted")
    with _failure_as_problem("deleted", own.origin):
        text = read_file(own.origin, MOST_TOML_BYTES).decode("utf-8")
        own.origin.unlink()
    return text


def restore_own(own: Preset, text: str) -> None:
    """Restore a preset from the text that `delete_own` returned. Raises ProblemError if its name is taken."""
    if own.origin.exists():
        raise _taken_title_error(own.name, "Rename that preset first.")
    _write_preset(own.origin, text)


def _refuse_built_in(own: Preset, deed: str) -> None:
    if not own.is_own:
        message = f"The preset “{own.title}” comes with the program and cannot be {deed}."
        raise request_error(message, "Save a copy under another title.")


def own_presets_folder() -> Path:
    """Return the folder of the user's own presets."""
    return config_folder() / "presets"


def _built_in() -> Iterator[Preset]:
    folder = files("resources") / "presets"
    for name in BUILT_IN:
        entry = folder / f"{name}.toml"
        table = parse_toml(entry.read_text(encoding="utf-8"), entry.name)
        yield _preset_from(table, Path(str(entry)), is_own=False)


def _own_presets() -> Iterator[Preset | Problem]:
    paths: list[Path] = []
    with suppress(OSError):  # for example a path that is too long
        paths = sorted(own_presets_folder().glob("*.toml"))
    for path in paths:
        try:
            if path.stem in BUILT_IN:
                raise _taken_title_error(path.stem, f"Rename {path}.")
            yield _preset_from(read_toml(path), path, is_own=True)
        except ProblemError as error:
            problem = error.problem
            yield problem.model_copy(update={"message": f"Preset '{path.stem}': {problem.message}"})


def _preset_from(table: Mapping[str, Any], path: Path, *, is_own: bool) -> Preset:
    try:
        parsed = _File.model_validate(table)
    except ValidationError as error:
        raise ProblemError(
            *problems_from_validation(error, {key: key for key in _File.model_fields})
        ) from None
    fields = {name: getattr(parsed, name) for name in _File.model_fields}
    fields["variants"] = _variants_from([side.model_dump() for side in parsed.variants])
    fields["sweep"] = values_of_table(parsed.sweep)
    preset = Preset(name=path.stem, origin=path, is_own=is_own, **fields)
    note = parsed.without_gpu.get("about", "")
    if not isinstance(note, str):
        message = f"without_gpu.about is {shortened(note)}, but it must be text."
        raise request_error(message, "Put it in quotes.", key="without_gpu.about", value=note, allowed="text")
    for has_gpu in (True, False):
        preset.experiments(has_gpu)
        for axis in axes_of(preset.sweep_for(has_gpu)):
            # all cells would take too long for a list of presets
            grid_of(preset.base(has_gpu), [axis])
    return preset


def _variants_from(tables: object) -> tuple[Variant, ...]:
    try:
        sides = [_Side.model_validate(table) for table in tables] if isinstance(tables, list) else None
    except ValidationError as error:
        raise ProblemError(*problems_from_validation(error)) from None
    if sides is None:
        message = f"without_gpu.variants is {shortened(tables)}, but it must be a list of tables."
        raise request_error(
            message, "Write them as [[without_gpu.variants]].", key="without_gpu.variants", value=tables
        )
    labels = [side.label for side in sides]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        message = f"Two variants are labeled '{shortened(twice)}'."
        raise request_error(message, "Use a different label for each.", key="variants.label", value=twice)
    return tuple(Variant(side.label, dict(side.model_extra or {})) for side in sides)


def _name_from(title: str) -> str:
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60]
    if not name:
        message = f"title is '{shortened(title)}', but its file name needs a letter from a to z or a digit."
        raise request_error(message, "Use another title.", key="title", value=title)
    # Windows takes these for devices, whatever the ending of the file
    return f"{name}-preset" if re.fullmatch(r"con|prn|aux|nul|(com|lpt)\d", name) else name


def _taken_title_error(title: str, remedy: str) -> ProblemError:
    message = f"There is already a preset named '{_name_from(title)}'."
    return request_error(message, remedy, key="title", value=title)


def _write_preset(path: Path, text: str) -> None:
    # a window may read the folder meanwhile
    with _failure_as_problem("saved", path):
        write_whole(path, text)


@contextmanager
def _failure_as_problem(deed: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f"at {path}" if deed == "saved" else f"({path})"
        message = f"The preset could not be {deed} {where}: {error.strerror}."
        raise request_error(message, "Check that the folder is writable.") from None


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Parse TOML. Raises ProblemError, which names `origin` and the line."""
    remedy = "Simplify it. No setting needs that."
    try:
        # tomllib's time grows with the square of a dotted key's length; a file's code has dots in quotes
        if any(_QUOTED.sub("", line).count(".") > _MOST_DOTS for line in text.splitlines()):
            raise RecursionError
        table = tomllib.loads(text)
        check_keys(table)
        return table
    except tomllib.TOMLDecodeError as error:
        why, remedy = f"is not valid TOML: {shortened(error, _LONGEST_REASON)}", "Correct that line."
    except RecursionError:
        why = "is nested too deeply"
    except ValidationError:
        why = "has a table with too many keys"
    except ValueError:
        why = "has a number with too many digits"
    raise request_error(f"{origin} {why}.", remedy, value=origin)


_LONGEST_REASON, _MOST_DOTS = 200, 2_000
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*["\\]?')
# a preset keeps the code of a model's own file, in which most lines need an escape or two
MOST_TOML_BYTES = 4 * MOST_CODE_BYTES


def read_toml(path: Path) -> dict[str, Any]:
    """Read and parse a TOML file. Raises ProblemError."""
    try:
        text = read_file(path, MOST_TOML_BYTES).decode("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "a file cannot have such a name"
        if isinstance(error, UnicodeDecodeError):
            reason = "it is not UTF-8 text"
        message = f"{path} could not be read: {reason}."
        raise request_error(message, "Check the path.", value=path) from None
    return parse_toml(text, str(path))
