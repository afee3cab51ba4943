"""The setup form's draft: a preset with changes. Does not use Qt.

A setting that does not apply, given the others, is hidden and keeps its default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, product
from typing import Any

from engine.experiment.checks import Catalog
from engine.experiment.experiment import (
    Experiment,
    Precision,
    experiment_from,
    flattened,
    from_dotted,
    layered,
)
from engine.experiment.own.code import OWN_DATA, Code, code_from, keeps_code
from engine.experiment.own.library_models import ModelRef
from engine.experiment.presets import Preset
from engine.experiment.setting import FormValues
from engine.protocol.advice import Changes
from engine.words.names import applies
from gui.setup.fields import FORM_SETTINGS, OPTIONS, clean, field_text, same_value, top_options

_LENGTHS = ("epochs", "steps")
_DECIDING = (
    *(
        "model",
        "dataset",
        "device",
        "devices",
        "ranks.strategy",
        "optimizer.name",
        "schedule.name",
        "scaler.mode",
    ),
    *("data.on_device", "data.workers", "validation.every", "checkpoint.last"),
)
"""Settings whose values decide whether others apply."""
_MOST_CHOICES = 64
_DATASET_OWN = {"image_size": None, "num_classes": None}
_FORM_DEFAULTS = {"repeat": 1, "within": None, "hours": None, "name": None}


@dataclass(frozen=True)
class Draft:
    """The content of the form: a preset and the user's changes to it. It is immutable.

    `changes` has the text of fields by key, such as "batch_size" or "repeat". `own_axes` are the values to
    sweep by dotted key, and `precisions` the selected ones, both None for the preset's. `has_gpu` selects one
    of the preset's two sizes. If `keeps_code`, the model's code comes from a saved run, and the model file is
    not read.
    """

    preset: Preset
    changes: Mapping[str, str] = field(default_factory=dict)
    own_axes: Mapping[str, tuple[str, ...]] | None = None
    precisions: tuple[Precision, ...] | None = None
    has_gpu: bool = False
    keeps_code: bool = False

    @cached_property
    def base(self) -> dict[str, Any]:
        """Return the preset's settings by dotted key, and the defaults of the form's other fields."""
        return {**flattened(experiment_from(self.preset.base(self.has_gpu))), **_FORM_DEFAULTS}

    def text(self, key: str) -> str:
        """Return the text of a field. "length" is `epochs` or `steps`."""
        key = self.length_key if key == "length" else key
        if key in self.changes:
            return self.changes[key]
        if key in _DATASET_OWN and "dataset" in self.changes:
            return ""
        return field_text(key, self.base[key])

    @cached_property
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        """Return the values to sweep, by dotted key. Only the question Sweep uses them."""
        if self.own_axes is not None:
            return self.own_axes
        swept = self.preset.sweep_for(self.has_gpu).items()
        return {
            key: tuple(field_text(key, value) for value in values)
            for key, values in swept
            if key != "precision"
        }

    def without_axes(self) -> Draft:
        """Return the draft of a question that does not sweep."""
        return replace(self, own_axes={}) if self.axes else self

    def with_axis(self, key: str, values: Sequence[str] | None) -> Draft:
        """Return the draft with these values to sweep. None removes the axis."""
        axes = {**self.axes, key: tuple(values)} if values is not None else dict(self.axes)
        if values is None:
            axes.pop(key, None)
        return self._with_axes(axes)

    def _with_axes(self, axes: Mapping[str, tuple[str, ...]]) -> Draft:
        preset = replace(self, own_axes=None)
        is_same = list(preset.axes.items()) == list(axes.items())
        return preset if is_same else replace(self, own_axes=dict(axes))

    def swept(self, catalog: Catalog | None) -> tuple[str, ...]:
        """Return the keys of the axes that apply and have several values."""
        return tuple(
            key for key, values in self.axes.items() if len(values) > 1 and self.applies(key, catalog)
        )

    @cached_property
    def first(self) -> Draft:
        """Return the draft with the first value of each axis as the text of its field."""
        if not self.axes:
            return self
        lengths = set(_LENGTHS) if self.axes.keys() & set(_LENGTHS) else set()
        kept = {key: text for key, text in self.changes.items() if key not in lengths}
        first = {key: values[0] for key, values in self.axes.items()}
        return replace(self, changes={**kept, **first}, own_axes={})

    @property
    def has_one_device(self) -> bool:
        """Return False if any of the values trains a run on multiple devices."""
        counts = self.axes.get("devices", (self.text("devices"),))
        return all(clean("devices", value) in ("1", "") for value in counts)

    @property
    def length_key(self) -> str:
        """Return the unit of the length: `epochs` or `steps`."""
        if changed := [key for key in _LENGTHS if key in self.changes]:
            return changed[0]
        return "steps" if self.base["steps"] is not None else "epochs"

    @cached_property
    def selected(self) -> tuple[Precision, ...]:
        """Return the selected precisions, in the order of the tiles."""
        chosen, swept = self.precisions, self.preset.sweep_for(self.has_gpu).get("precision")
        if chosen is None and swept is not None:
            chosen = tuple(Precision(str(value)) for value in swept)
        elif chosen is None:
            chosen = tuple(experiment.precision for _, experiment in self.preset.experiments(self.has_gpu))
        return tuple(precision for precision in Precision if precision in chosen)

    def is_changed(self, catalog: Catalog | None) -> bool:
        """Return True if any setting that applies differs from the preset."""
        changed = self.changes.keys() - FORM_SETTINGS.keys()
        has_own = self.precisions is not None or self.own_axes is not None
        return has_own or any(self.applies(key, catalog) for key in changed)

    def changed_options(self, catalog: Catalog | None) -> int:
        """Return how many settings under "More options" differ from the preset."""
        return len((self.changes.keys() & OPTIONS.keys()) - set(top_options(catalog)))

    def with_change(self, key: str, text: str) -> Draft:
        """Return the draft with new text in a field. Text equal to the preset's is not a change."""
        key = self.length_key if key == "length" else key
        if key in _LENGTHS:
            return self.with_length(key, text)
        rest = {name: value for name, value in self.changes.items() if name != key}
        without = replace(self, changes=rest)
        return (
            without
            if same_value(key, text, without.text(key))
            else replace(self, changes={**rest, key: text})
        )

    @property
    def model(self) -> ModelRef:
        """Return the name or file path of the model, as in its field."""
        return ModelRef(self.text("model").strip())

    @cached_property
    def code(self) -> Code | None:
        """Return the code of the user's model file. None for other models and for invalid code."""
        return code_from(self.text("code")) if keeps_code(self.model, self.text("code")) else None

    @property
    def has_kept_code(self) -> bool:
        """Return True if the code comes from a run or from the preset, not from the current file."""
        return self.keeps_code or "code" not in self.changes

    def with_model(self, text: str) -> Draft:
        """Return the draft with another model. A previous model file is removed with its code and data."""
        draft = self.with_change("model", text)
        if keeps_code(text.strip(), self.text("code")):
            return draft
        keeps_data = self.changes.get("dataset") != OWN_DATA or draft.model.library is not None
        gone = {"code"} if keeps_data else {"code", "dataset"}
        rest = {key: value for key, value in draft.changes.items() if key not in gone}
        return replace(draft, changes=rest, keeps_code=False)

    def with_code(self, code: Code, class_name: str | None = None) -> Draft:
        """Return the draft with a model file as its model, and with the data that the file provides."""
        model = code.file if class_name is None else f"{code.file}:{class_name}"
        draft = self.with_model("").with_change("model", model).with_change("code", code.to_json())
        return draft.with_change("dataset", OWN_DATA) if code.brings_data else draft

    def with_changes(self, changes: Changes) -> Draft:
        """Return the draft with these settings. A precision replaces the selected autocast precisions."""
        draft = self
        for key, text in changes:
            if key == "precision":
                kept = [precision for precision in draft.selected if not precision.is_autocast]
                draft = draft.with_precisions([*kept, Precision(text)])
            else:
                draft = draft.with_change(key, text)
        return draft

    def with_length(self, key: str, text: str) -> Draft:
        """Return the draft with a length in `key`, which is `epochs` or `steps`."""
        rest = {name: value for name, value in self.changes.items() if name not in _LENGTHS}
        without = replace(self, changes=rest)
        if without.length_key == key and same_value(key, text, without.text(key)):
            return without
        return replace(self, changes={**rest, key: text})

    def with_precisions(self, precisions: Sequence[Precision]) -> Draft:
        """Return the draft with these precisions selected."""
        chosen = tuple(precision for precision in Precision if precision in precisions)
        own = replace(self, precisions=None)
        return own if own.selected == chosen else replace(self, precisions=chosen)

    def with_experiment(self, experiment: Experiment) -> Draft:
        """Return the draft of `experiment`, as changes to the preset."""
        kept = {key: text for key, text in self.changes.items() if key in FORM_SETTINGS}
        draft = replace(self, changes=kept, precisions=None)
        values = flattened(experiment)
        for key in ("model", "dataset", *(name for name in values if name not in _NOT_TEXT)):
            draft = draft.with_change(key, field_text(key, values[key]))
        length = "steps" if experiment.steps is not None else "epochs"
        draft = draft.with_length(length, field_text(length, values[length]))
        draft = replace(draft, keeps_code=experiment.code is not None)
        return draft.with_precisions([experiment.precision])

    def on_machine(self, has_gpu: bool) -> Draft:
        """Return the draft with the preset's settings for a machine with or without a GPU."""
        return replace(self, has_gpu=has_gpu)

    def to_state(self) -> dict[str, Any]:
        """Return the draft as plain JSON values, with every setting in case its preset is deleted."""
        return {
            "preset": self.preset.name,
            "changes": dict(self.changes),
            "precisions": None if self.precisions is None else [entry.value for entry in self.precisions],
            "axes": {key: list(values) for key, values in self.axes.items()},
            "settings": {key: self.text(key) for key in self.base if key not in ("precision", *_LENGTHS)},
            "length": [self.length_key, self.text("length")],
            "ticked": [entry.value for entry in self.selected],
            "keeps_code": self.keeps_code,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], preset: Preset, *, has_gpu: bool) -> Draft:
        """Read the output of `to_state`, over `preset`. Raises KeyError, TypeError or ValueError."""
        draft = cls(preset, has_gpu=has_gpu, keeps_code=state.get("keeps_code") is True)
        given = dict(state["axes"]).items()
        axes = {key: tuple(map(str, values)) for key, values in given if key in draft.base and values}
        draft = draft._with_axes(axes)
        if preset.name == state["preset"]:
            given = dict(state["changes"]).items()
            changes = {key: str(text) for key, text in given if key in draft.base}
            chosen = state["precisions"]
            precisions = None if chosen is None else tuple(Precision(value) for value in chosen)
            return replace(draft, changes=changes, precisions=precisions)
        for key, text in dict(state["settings"]).items():
            if key in draft.base:
                draft = draft.with_change(key, str(text))
        if draft.code is not None and "code" not in state["changes"]:
            # it was the preset's
            draft = replace(draft, keeps_code=True)
        unit, length = state["length"]
        draft = draft.with_length(unit if unit in _LENGTHS else "epochs", str(length))
        return draft.with_precisions([Precision(value) for value in state["ticked"]])

    def saved_as(self, preset: Preset) -> Draft:
        """Return the draft once its settings are saved as `preset`. Repeats, limits, name and axes stay."""
        kept = {key: text for key, text in self.changes.items() if key in FORM_SETTINGS}
        saved = Draft(preset, changes=kept, has_gpu=self.has_gpu)
        return saved if saved.axes else saved._with_axes(self.axes)

    def reset(self) -> Draft:
        """Return the preset without changes."""
        return Draft(self.preset, has_gpu=self.has_gpu)

    def applies(self, key: str, catalog: Catalog | None) -> bool:
        """Return True if a setting applies with any of the values. Else it is hidden and ignored."""
        return key in FORM_SETTINGS or any(draft._applies(key, catalog) for draft in self._choices)

    @cached_property
    def _choices(self) -> tuple[Draft, ...]:
        """Return a draft for each combination of the values that decide which settings apply."""
        first, keys = self.first, [key for key in self.axes if key in _DECIDING]
        if not keys:
            return (first,)
        combined = islice(product(*(self.axes[key] for key in keys)), _MOST_CHOICES)
        chosen = ({**first.changes, **dict(zip(keys, values, strict=True))} for values in combined)
        return tuple(replace(first, changes=each) for each in chosen)

    def _applies(self, key: str, catalog: Catalog | None) -> bool:
        device = catalog.device(self.text("device")) if catalog else None
        on_cpu = device is not None and not device.is_gpu
        defines = frozenset() if self.code is None else self.code.defines
        chosen = FormValues(self.text, self.selected, on_cpu, defines)
        if not applies(key, chosen):
            return False
        dataset = catalog.dataset(self.text("dataset")) if catalog else None
        if dataset is not None and key == "num_classes":
            return dataset.any_classes
        return dataset is None or key != "data.augment" or dataset.can_augment

    def variants(self, catalog: Catalog | None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the runs as (label, nested settings), at least one per selected precision.

        Values may be text. An axis has its first value.
        """
        given = self.first.changes
        base = layered(self.preset.base(self.has_gpu), _DATASET_OWN if "dataset" in given else {})
        changes = self._applying_changes(catalog)
        own = self._own_variants()
        for precision in self.selected:
            for label, overrides in own.get(precision) or [(precision.label, {})]:
                kept = not overrides.keys() & given.keys()
                layers = [_nested(overrides)] if kept else []
                settings = layered(base, *layers, changes, {"precision": precision.value})
                yield (label if kept else precision.label), settings

    def _applying_changes(self, catalog: Catalog | None) -> dict[str, Any]:
        first = self.first.changes.items()
        changes: dict[str, Any] = {
            key: clean(key, text)
            for key, text in first
            if key not in FORM_SETTINGS and self.applies(key, catalog)
        }
        unused = {key: value for key, value in _DEFAULTS.items() if not self.applies(key, catalog)}
        return _nested({**changes, **unused})

    def _own_variants(self) -> dict[Precision, list[tuple[str, dict[str, Any]]]]:
        base = self.base
        variants: dict[Precision, list[tuple[str, dict[str, Any]]]] = {}
        for label, experiment in self.preset.experiments(self.has_gpu):
            overrides = {
                key: value
                for key, value in flattened(experiment).items()
                if key != "precision" and value != base[key]
            }
            variants.setdefault(experiment.precision, []).append((label, overrides))
        return variants


_NOT_TEXT = ("precision", "model", "dataset", *_LENGTHS)
# for settings that do not apply: these are neither refused nor a difference between two runs
_DEFAULTS = flattened(Experiment())


def _nested(dotted: Mapping[str, Any]) -> dict[str, Any]:
    return layered(*(from_dotted(key, value) for key, value in dotted.items()))
