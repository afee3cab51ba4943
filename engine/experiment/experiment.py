"""What the user asked for: an `Experiment`, frozen, validated, JSON and TOML both ways."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from engine.experiment.problem import ProblemError, problems_from_validation, request_problem, setting_error
from engine.experiment.settings import (
    LEAST_BLOCKS,
    Checkpoint,
    Count,
    Data,
    Measure,
    NoneFromText,
    Optimizer,
    Part,
    Precision,
    Scaler,
    Schedule,
    Step,
    Validation,
    none_from_text,
)
from engine.experiment.text import shortened

__all__ = [
    "LEAST_BLOCKS",
    "Checkpoint",
    "Data",
    "Experiment",
    "Measure",
    "Optimizer",
    "Precision",
    "Scaler",
    "Schedule",
    "Step",
    "Validation",
    "experiment_from",
    "flattened",
    "from_dotted",
    "layered",
    "parse_toml",
    "read_toml",
    "setting_names",
]


class Experiment(Part):
    """Everything that decides what a run trains and how.

    `path` is a folder of pictures, for the dataset that is one. `image_size` and `num_classes` of None mean
    the dataset's own (for text the number of classes is the vocabulary); `samples` is the length of a
    synthetic epoch, `sequence_length` that of one sample of text, in tokens. `batch_size` is that of one
    forward pass; an optimizer step takes `step.gradient_accumulation` of them. `memory_cap_gib` limits the
    worker as a smaller card would; on a GPU it counts what tensors take, not the context and the libraries
    that a real card also has to hold. Of `epochs` and `steps` exactly one holds; with neither given it is one
    epoch.
    """

    model: str = Field("small-cnn", min_length=1, max_length=200)
    dataset: str = Field("fashion", min_length=1, max_length=200)
    path: Annotated[str | None, Field(max_length=4_096), NoneFromText] = None
    image_size: Annotated[int | None, Field(ge=1, le=8_192), NoneFromText] = None
    num_classes: Annotated[int | None, Field(ge=2, le=1_000_000), NoneFromText] = None
    samples: Count = 12_800
    sequence_length: int = Field(512, ge=2, le=1_000_000)
    precision: Precision = Precision.FP32
    batch_size: Count = 64
    epochs: Annotated[Count | None, NoneFromText] = None
    steps: Annotated[Count | None, NoneFromText] = None
    device: str = Field("auto", pattern=r"^(auto|cpu|mps|(cuda|xpu)(:\d{1,3})?)$")
    seed: int = Field(0, ge=0, lt=2**63)
    memory_cap_gib: Annotated[float | None, Field(gt=0, le=100_000), NoneFromText] = None
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    on_nan: Literal["continue", "stop", "fail"] = "continue"
    measure: Measure = Measure()
    optimizer: Optimizer = Optimizer()
    schedule: Schedule = Schedule()
    scaler: Scaler = Scaler()
    step: Step = Step()
    data: Data = Data()
    validation: Validation = Validation()
    checkpoint: Checkpoint = Checkpoint()

    @model_validator(mode="before")
    @classmethod
    def _one_epoch_unless_said(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            lengths = (none_from_text(data.get("epochs")), none_from_text(data.get("steps")))
            if lengths == (None, None):
                return {**data, "epochs": 1}
        return data

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.epochs is not None and self.steps is not None:
            raise setting_error(
                "steps", "epochs and steps are both given.", "Give a run's length as one of them.", self.steps
            )
        return self

    @model_validator(mode="after")
    def _unscaled_means_no_scaler(self) -> Self:
        if self.precision is Precision.FP16_UNSCALED and self.scaler.mode == "on":
            raise setting_error(
                "scaler.mode",
                "scaler.mode is 'on', but fp16-unscaled is the precision that trains without a scaler.",
                "Choose the precision fp16, or set scaler.mode to auto.",
                self.scaler.mode,
            )
        return self

    @property
    def step_samples(self) -> int:
        """Samples that one whole optimizer step trains on."""
        return self.batch_size * self.step.gradient_accumulation

    @property
    def uses_scaler(self) -> bool:
        """Whether the loss is scaled in this run."""
        if self.scaler.mode == "auto":
            return self.precision is Precision.FP16
        return self.scaler.mode == "on"

    def to_json(self) -> str:
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Experiment:
        """Reads what `to_json` wrote. Raises ProblemError."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ProblemError(*problems_from_validation(error, setting_names())) from None


def experiment_from(settings: Mapping[str, Any]) -> Experiment:
    """The experiment that nested `settings` describe; values may be text. Raises ProblemError."""
    try:
        return Experiment.model_validate(settings)
    except ValidationError as error:
        raise ProblemError(*problems_from_validation(error, setting_names())) from None


def layered(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings laid over one another, the later over the earlier, tables merged key by key.

    Of `epochs` and `steps` the one in the later layer holds.
    """
    result: dict[str, Any] = {}
    for layer in layers:
        steps, epochs = (none_from_text(layer.get(name)) for name in ("steps", "epochs"))
        if steps is not None and epochs is None:
            result.pop("epochs", None)
        if epochs is not None and steps is None:
            result.pop("steps", None)
        for key, value in layer.items():
            below = result.get(key)
            if isinstance(value, Mapping) and isinstance(below, Mapping):
                result[key] = layered(below, value)
            else:
                result[key] = value
    return result


def from_dotted(key: str, value: Any) -> dict[str, Any]:
    """`"optimizer.learning_rate", 0.1` as the nested settings `{"optimizer": {"learning_rate": 0.1}}`."""
    nested: Any = value
    # no table lies within another's table: what has more dots is unknown however it is nested
    for part in reversed(key.split(".", 2)):
        nested = {part: nested}
    return dict(nested)


def setting_names() -> tuple[str, ...]:
    """Every key of an experiment, dotted."""
    return tuple(_dotted_names(Experiment, ""))


def flattened(experiment: Experiment) -> dict[str, Any]:
    """Every setting by its dotted key, as plain JSON values."""
    return dict(_flat(experiment.model_dump(mode="json"), ""))


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """TOML as a dictionary. Raises ProblemError that names `origin` and the place."""
    try:
        # tomllib takes the square of a dotted key's length
        if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
            raise RecursionError
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        why = f"{origin} is not valid TOML: {shortened(error, _LONGEST_REASON)}."
        raise ProblemError(request_problem(why, "Correct that line.", value=origin)) from None
    except (ValueError, RecursionError) as error:
        is_deep = isinstance(error, RecursionError)
        why = f"{origin} {'is nested too deep' if is_deep else 'has a number of too many digits'}."
        raise ProblemError(request_problem(why, "No setting needs that.", value=origin)) from None


_LONGEST_REASON, _MOST_DOTS = 200, 2_000


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a dictionary. Raises ProblemError where it cannot be read or parsed."""
    try:
        with path.open("rb") as file:
            # whatever lies there is read no further than that
            content = file.read(MOST_TOML_BYTES + 1)
        text = content.decode("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        if isinstance(error, ValueError) and not isinstance(error, UnicodeDecodeError):
            reason = "no file has such a name"
        raise ProblemError(
            request_problem(f"{path} could not be read: {reason}.", "Check the path.", value=path)
        ) from None
    if len(content) > MOST_TOML_BYTES:
        message = f"{path} is larger than a file of settings may be ({MOST_TOML_BYTES // 2**10:,} KiB)."
        raise ProblemError(request_problem(message, "Leave out what is no setting.", value=path))
    return parse_toml(text, str(path))


MOST_TOML_BYTES = 2**20


def _dotted_names(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        part = field.annotation
        if isinstance(part, type) and issubclass(part, Part):
            yield from _dotted_names(part, f"{prefix}{name}.")
        else:
            yield prefix + name


def _flat(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
