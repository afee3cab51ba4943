"""What the user asked for: an `Experiment` and its parts, frozen, validated, JSON and TOML both ways."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from engine.problem import ProblemError, problems_from_validation, request_problem, setting_error


class Precision(StrEnum):
    """The number formats a run can train in. `FP32` is strict: TF32 is off everywhere."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"

    @property
    def label(self) -> str:
        """The name on screen, such as "FP16 AMP"."""
        return self.value.upper() + (" AMP" if self.is_autocast else "")

    @property
    def is_autocast(self) -> bool:
        return self in (Precision.FP16, Precision.BF16)


def _none_from_text(value: object) -> object:
    """Lets a command line say that a setting is to be empty."""
    return None if isinstance(value, str) and value.strip().lower() in ("", "none", "null") else value


_none = BeforeValidator(_none_from_text)
_Count = Annotated[int, Field(ge=1, le=1_000_000_000)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", allow_inf_nan=False)


LEAST_BLOCKS = 5
"""Fewer whole blocks than this say nothing of how steady a speed is."""


class Measure(_Part):
    """How speed is measured: `warmup_steps` are trained but not counted; blocks of `block_steps` are."""

    warmup_steps: int = Field(10, ge=0, le=1_000_000)
    block_steps: int = Field(10, ge=1, le=1_000_000)

    @property
    def least_steps(self) -> int:
        """How long a run must be for a speed: the warm-up and `LEAST_BLOCKS` whole blocks."""
        return self.warmup_steps + LEAST_BLOCKS * self.block_steps


class Optimizer(_Part):
    """The optimizer and its settings; `momentum` belongs to SGD alone."""

    name: Literal["adamw", "sgd"] = "adamw"
    learning_rate: float = Field(1e-3, gt=0, le=1_000)
    weight_decay: float = Field(0.0, ge=0, le=1_000)
    momentum: float = Field(0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _momentum_is_for_sgd(self) -> Self:
        if self.momentum and self.name != "sgd":
            raise setting_error(
                "momentum",
                f"momentum is for sgd; {self.name} has its own.",
                "Set momentum to 0.",
                self.momentum,
            )
        return self


class Scaler(_Part):
    """`torch.amp.GradScaler`. Mode `auto` uses one for fp16 and none otherwise."""

    mode: Literal["auto", "on", "off"] = "auto"
    init_scale: float = Field(65_536.0, gt=0, le=2.0**127)
    growth_factor: float = Field(2.0, gt=1, le=1_024)
    backoff_factor: float = Field(0.5, gt=0, lt=1)
    growth_interval: int = Field(2_000, ge=1, le=1_000_000_000)


class Step(_Part):
    """How one optimizer step is made. The gradient norm is clipped at `clip_norm`, after unscaling."""

    recipe: Literal["plain"] = "plain"
    clip_norm: Annotated[float | None, Field(gt=0), _none] = None


class Validation(_Part):
    """When to validate: after each `every` epochs (0 is never), on at most `limit` samples (None is all)."""

    every: int = Field(1, ge=0, le=1_000_000)
    limit: Annotated[int | None, Field(ge=1), _none] = None


class Experiment(_Part):
    """Everything that decides what a run trains and how.

    `image_size` and `num_classes` of None mean the dataset's own; `samples` is the length of a synthetic
    epoch; `memory_cap_gib` limits the worker as a smaller card would. Of `epochs` and `steps` exactly one
    holds; with neither given it is one epoch.
    """

    model: str = Field("small-cnn", min_length=1, max_length=200)
    dataset: str = Field("fashion", min_length=1, max_length=200)
    image_size: Annotated[int | None, Field(ge=1, le=8_192), _none] = None
    num_classes: Annotated[int | None, Field(ge=2, le=1_000_000), _none] = None
    samples: _Count = 12_800
    precision: Precision = Precision.FP32
    batch_size: _Count = 64
    epochs: Annotated[_Count | None, _none] = None
    steps: Annotated[_Count | None, _none] = None
    device: str = Field("auto", pattern=r"^(auto|cpu|mps|(cuda|xpu)(:\d{1,3})?)$")
    seed: int = Field(0, ge=0, lt=2**63)
    memory_cap_gib: Annotated[float | None, Field(gt=0, le=100_000), _none] = None
    on_nan: Literal["continue", "stop", "fail"] = "continue"
    measure: Measure = Measure()
    optimizer: Optimizer = Optimizer()
    scaler: Scaler = Scaler()
    step: Step = Step()
    validation: Validation = Validation()

    @model_validator(mode="before")
    @classmethod
    def _one_epoch_unless_said(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            lengths = (_none_from_text(data.get("epochs")), _none_from_text(data.get("steps")))
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

    @property
    def uses_scaler(self) -> bool:
        """Whether the loss is scaled in this run."""
        if self.scaler.mode == "auto":
            return self.precision is Precision.FP16
        return self.scaler.mode == "on"

    def to_json(self) -> str:
        return self.model_dump_json()

    def to_toml(self) -> str:
        """The experiment as TOML; settings that are None are left out, which reads back as None."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))

    @classmethod
    def from_json(cls, text: str) -> Experiment:
        """Reads what `to_json` wrote. Raises ProblemError."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ProblemError(*problems_from_validation(error, setting_names())) from None

    @classmethod
    def from_toml(cls, text: str, origin: str = "the TOML text") -> Experiment:
        """Reads TOML; `origin` is named when it does not parse. Raises ProblemError."""
        return experiment_from(parse_toml(text, origin))


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
        steps, epochs = (_none_from_text(layer.get(name)) for name in ("steps", "epochs"))
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
    for part in reversed(key.split(".")):
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
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProblemError(
            request_problem(f"{origin} is not valid TOML: {error}.", "Correct that line.", value=origin)
        ) from None


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a dictionary. Raises ProblemError where it cannot be read or parsed."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ProblemError(
            request_problem(f"{path} could not be read: {reason}.", "Check the path.", value=path)
        ) from None
    return parse_toml(text, str(path))


def _dotted_names(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        part = field.annotation
        if isinstance(part, type) and issubclass(part, _Part):
            yield from _dotted_names(part, f"{prefix}{name}.")
        else:
            yield prefix + name


def _flat(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
