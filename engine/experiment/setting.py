"""The metadata of a setting, attached to its pydantic field: title, help, flag, and when it applies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum, auto
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import Field
from pydantic.fields import FieldInfo

from engine.experiment import catalog
from engine.experiment.catalog import DataRef, Precision
from engine.experiment.own.code import DATASET
from engine.experiment.own.library_models import ModelRef


@dataclass(frozen=True)
class FormValues:
    """The values of an experiment's form, from which it is decided which settings apply.

    `text` returns the text of a setting, such as "true", "0" or "sgd". `defines` are the names that the model
    file defines. `is_script`: a command trains.
    """

    text: Callable[[str], str]
    precisions: Sequence[Precision]
    is_on_cpu: bool = False
    defines: frozenset[str] = frozenset()
    is_script: bool = False

    def has(self, key: str, *texts: str) -> bool:
        """Return True if the value of setting `key` is one of `texts`."""
        return self.text(key).strip().lower() in texts

    @property
    def model(self) -> ModelRef:
        return ModelRef(self.text("model"))

    @property
    def dataset(self) -> DataRef:
        return DataRef(self.text("dataset"))

    def has_images(self) -> bool:
        """Return True if samples are or may be images. A file of arrays may contain images."""
        return self.has("dataset", catalog.ARRAYS) or self.dataset.task == "classification"

    def is_text(self) -> bool:
        """Return True for token sequences: a text dataset, or a library model that generates tokens."""
        is_of_library = self.has("dataset", catalog.OWN_DATA) and self.model.library is not None
        return is_of_library or self.dataset.task == "language"

    def loads_own(self) -> bool:
        """Return True if the model file defines a dataset, which a loader reads."""
        return self.has("dataset", catalog.OWN_DATA) and DATASET in self.defines

    def loads(self) -> bool:
        """Return True if a loader can read the dataset. Other datasets are generated on the device."""
        return self.has_images() and not self.has("dataset", catalog.SYNTHETIC)

    def uses_loader(self) -> bool:
        return self.loads_own() or (self.loads() and not self.has("data.on_device", "true"))

    def has_labels(self) -> bool:
        """Return True if Ammeter computes the loss and the targets are classes."""
        return not self.has("dataset", catalog.SYNTHETIC_REGRESSION) and not {"loss", "step"} & self.defines

    def has_validation_samples(self) -> bool:
        if self.has("dataset", catalog.OWN_DATA):
            return "validation_dataset" in self.defines
        return not self.has(
            "dataset", catalog.SYNTHETIC, catalog.SYNTHETIC_REGRESSION, catalog.SYNTHETIC_TOKENS
        )

    def is_validated(self) -> bool:
        return self.has_validation_samples() and not self.has("validation.every", "0")

    def uses_autocast(self) -> bool:
        return any(precision.is_autocast for precision in self.precisions)

    def compiles(self) -> bool:
        """Return True if the optimizations, or one of their values in a sweep, include compiling."""
        names = self.text("step.recipe").lower().replace(",", "+").split("+")
        return any(name.strip() in ("fast", "compile") for name in names)

    def rounds_weights(self) -> bool:
        """Return True for AdamW in pure BF16, whose weights can be rounded stochastically."""
        return Precision.BF16_PURE in self.precisions and self.text("optimizer.name").startswith("adamw")

    def uses_fp8(self) -> bool:
        return Precision.FP8 in self.precisions

    def uses_scaler(self) -> bool:
        """Return True if `Experiment.uses_scaler` is true for any of the precisions."""
        is_auto = self.has("scaler.mode", "auto") and Precision.FP16 in self.precisions
        return is_auto or self.has("scaler.mode", "on")

    def has_several_devices(self) -> bool:
        return not self.has("devices", "1", "")

    def uses_ddp(self) -> bool:
        return self.has_several_devices() and self.has("ranks.strategy", "ddp")

    def takes_optimizer(self) -> bool:
        """Return True unless the model file creates the optimizer."""
        return "optimizer" not in self.defines


class Group(StrEnum):
    """The headings under "More options" in the form, in their order."""

    MODEL = "Model"
    OPTIMIZATION = "Optimizer and loss"
    SCHEDULE = "Learning rate over time"
    SCALER = "Loss scaling"
    FORMATS = "Number formats and memory"
    DATA = "Data"
    SAVING = "Validation and checkpoints"
    MACHINE = "Machine and measurement"


class EntryKind(Enum):
    """The ways to enter a value in the form: type a number or a text, or select it from a list."""

    NUMBER = auto()
    TEXT = auto()
    CHOICE = auto()


@dataclass(frozen=True)
class Flag:
    """The command-line option of a setting, `--name PLACEHOLDER`. `more` is added to the setting's help."""

    name: str
    placeholder: str
    more: str = ""


@dataclass(frozen=True, eq=False)
class Setting:
    """The presentation of a setting in the form and the command line, and the rule for when it applies.

    `hint` is the placeholder of an empty field, `words` are labels of values that are not just capitalized.
    Without a `group` it is at the top of the form. `place` orders the settings in a group. `is_picked`: the
    value is selected from a list.
    """

    title: str
    about: str
    unit: str = ""
    group: Group | None = None
    hint: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    when: Callable[[FormValues], bool] = lambda chosen: True
    flag: Flag | None = None
    place: int = 0
    is_picked: bool = False
    key: str = ""
    entry: EntryKind = EntryKind.TEXT
    choices: tuple[tuple[str, str], ...] = ()


def setting(default: Any, title: str, about: str, **rest: Any) -> Any:
    """Create a pydantic field with its `Setting`. The type of the field has the bounds of the value."""
    info: FieldInfo = Field(default)
    info.metadata.append(Setting(title, about, **rest))
    return info


def has(key: str, *texts: str) -> Callable[[FormValues], bool]:
    """Create a condition for `when`: the value of setting `key` is one of `texts`."""
    return lambda chosen: chosen.has(key, *texts)


def setting_of(key: str, info: FieldInfo, group: Group | None) -> Setting:
    """Return the `Setting` of a field, with its key, the group of its table, and its choices added."""
    (own,) = (extra for extra in info.metadata if isinstance(extra, Setting))
    entry, choices = _entry_of(info.annotation, own.words)
    if own.is_picked:
        entry, choices = EntryKind.CHOICE, choices or tuple(own.words.items())
    return replace(own, key=key, group=own.group or group, entry=entry, choices=choices)


def _entry_of(kind: Any, words: Mapping[str, str]) -> tuple[EntryKind, tuple[tuple[str, str], ...]]:
    if get_origin(kind) is Annotated:
        return _entry_of(get_args(kind)[0], words)
    if get_origin(kind) in (Union, UnionType):
        (inner,) = (member for member in get_args(kind) if member is not NoneType)
        if inner is bool:
            return EntryKind.CHOICE, (("", "Auto"), ("true", "On"), ("false", "Off"))
        return _entry_of(inner, words)
    if get_origin(kind) is Literal:
        return EntryKind.CHOICE, tuple(
            (value, words.get(value, value.capitalize())) for value in get_args(kind)
        )
    if kind is bool:
        return EntryKind.CHOICE, (("false", "Off"), ("true", "On"))
    return (EntryKind.NUMBER if kind in (int, float) else EntryKind.TEXT), ()
