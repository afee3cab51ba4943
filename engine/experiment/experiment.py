"""An `Experiment`: all settings of a run, frozen and validated, read from JSON, TOML or dotted keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from engine.experiment import catalog
from engine.experiment.catalog import DataRef, Precision
from engine.experiment.command import Command
from engine.experiment.optimizers import Optimizer, Scaler, Schedule
from engine.experiment.own.code import Code, code_from, keeps_code
from engine.experiment.own.library_models import (
    OVERRIDES_TABLE,
    ModelRef,
    overrides_of_table,
    sorted_overrides,
    split_overrides,
)
from engine.experiment.problem import (
    Problem,
    ProblemError,
    contradiction,
    problems_from_validation,
    request_problem,
)
from engine.experiment.setting import Flag, FormValues, Group, Setting, has, setting, setting_of
from engine.experiment.settings import (
    LEAST_BLOCKS,
    MOST_DEVICES,
    Checkpoint,
    Count,
    Data,
    Measure,
    NoneFromText,
    Part,
    Ranks,
    Step,
    Validation,
    none_from_text,
)
from engine.experiment.value import dotted, in_sentence, shortened

__all__ = [
    "LEAST_BLOCKS",
    "Checkpoint",
    "Command",
    "Data",
    "Measure",
    "Optimizer",
    "Precision",
    "Ranks",
    "Scaler",
    "Schedule",
    "Step",
]


def _all_devices(value: object) -> object:
    return 0 if isinstance(value, str) and value.strip().lower() == "all" else value


class Experiment(Part):
    """All settings of one training run. Exactly one of `epochs` and `steps` is set.

    A `command` replaces the model, data and optimizer. Its precision, batch size and device are those that
    the observer has seen.
    """

    model: ModelRef = setting(
        ModelRef("small-cnn"),
        "Model",
        "The network to train.",
        flag=Flag(
            "--model",
            "NAME",
            "`ammeter catalog` lists the models. Your own file: net.py or net.py:Net (see "
            "`ammeter template --help`).",
        ),
        is_picked=True,
    )
    code: Annotated[str | None, Field(max_length=4 * 2**20), NoneFromText] = setting(
        None,
        "Code",
        "The source code of your model file, stored with the run. Set by selecting the file as the model.",
        when=lambda chosen: chosen.model.file is not None,
    )
    overrides: Annotated[
        tuple[Annotated[str, Field(max_length=1_000)], ...],
        Field(max_length=200),
        BeforeValidator(split_overrides),
        AfterValidator(sorted_overrides),
    ] = setting(
        (),
        "Model settings",
        "Comma-separated settings that replace the defaults of a model from timm or "
        "transformers: hidden_size=256, num_hidden_layers=4. Empty: the defaults.",
        group=Group.MODEL,
        hint="the model's defaults",
        when=lambda chosen: chosen.model.library is not None,
    )
    dataset: DataRef = setting(
        DataRef("fashion"),
        "Dataset",
        "The images, text or numbers to train on.",
        flag=Flag("--dataset", "NAME", "`ammeter catalog` lists the datasets."),
        is_picked=True,
    )
    path: Annotated[str | None, Field(max_length=4_096), NoneFromText] = setting(
        None,
        "Path",
        "Your own data: a folder of images with one subfolder per class, a folder of text files, "
        "or a file of arrays.",
        when=has("dataset", catalog.IMAGE_FOLDER, catalog.TEXT_FOLDER, catalog.ARRAYS),
    )
    image_size: Annotated[int | None, Field(ge=1, le=8_192), NoneFromText] = setting(
        None,
        "Image size",
        "Pixels per side. Images are resized to it. Empty: the size of the dataset.",
        unit="px",
        group=Group.DATA,
        hint="the dataset's",
        when=FormValues.has_images,
        flag=Flag("--image-size", "PIXELS"),
    )
    num_classes: Annotated[int | None, Field(ge=2, le=1_000_000), NoneFromText] = setting(
        None,
        "Classes",
        "Number of classes of synthetic samples, or the size of their vocabulary. Empty: the usual number.",
        group=Group.DATA,
        hint="the dataset's",
        when=lambda chosen: not chosen.has("dataset", catalog.SYNTHETIC_REGRESSION, catalog.OWN_DATA),
    )
    samples: Count = setting(
        12_800,
        "Samples per epoch",
        "Number of synthetic samples in one epoch.",
        group=Group.DATA,
        when=lambda chosen: not chosen.loads(),
    )
    sequence_length: Annotated[int, Field(ge=2, le=1_000_000)] = setting(
        512,
        "Sequence length",
        "Number of tokens in one sample of text.",
        unit="tokens",
        group=Group.DATA,
        when=FormValues.is_text,
    )
    precision: Precision = setting(
        Precision.FP32,
        "Precision",
        "The number format, or mix of formats, used for training.",
        flag=Flag("--precision", "NAME", f"One of {', '.join(Precision)}."),
        is_picked=True,
    )
    batch_size: Count = setting(
        64, "Batch size", "Samples that pass through the network at once.", flag=Flag("--batch-size", "N")
    )
    epochs: Annotated[Count | None, NoneFromText] = setting(
        None, "Epochs", "Length of the run in epochs.", flag=Flag("--epochs", "N")
    )
    steps: Annotated[Count | None, NoneFromText] = setting(
        None, "Steps", "Length of the run in optimizer steps, instead of epochs.", flag=Flag("--steps", "N")
    )
    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|(cuda|xpu)(:\d{1,3})?)$")] = setting(
        "auto",
        "Device",
        "The device to train on. Auto: the first GPU, or the CPU if there is none.",
        group=Group.MACHINE,
        flag=Flag("--device", "NAME", "For example auto, cpu or cuda:0."),
        is_picked=True,
    )
    devices: Annotated[int, BeforeValidator(_all_devices), Field(ge=0, le=MOST_DEVICES)] = setting(
        1,
        "Devices",
        "Number of GPUs or CPU processes to train on, starting with the selected device. Batch "
        "size is per device. Enter all or 0 for every GPU.",
        group=Group.MACHINE,
        flag=Flag("--devices", "N"),
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = setting(
        0,
        "Seed",
        "Initializes the random number generators. The same seed repeats a run.",
        group=Group.MACHINE,
        flag=Flag("--seed", "N"),
    )
    memory_cap_gib: Annotated[float | None, Field(gt=0, le=100_000), NoneFromText] = setting(
        None,
        "Memory cap",
        "Limits tensors to this much memory, to simulate a smaller GPU. CUDA needs a few hundred "
        "MiB on top. Empty: no limit.",
        unit="GiB",
        group=Group.MACHINE,
        hint="none",
        flag=Flag("--memory-gib", "GIB"),
    )
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = setting(
        0.0,
        "Label smoothing",
        "The fraction of each label that is spread over the other classes, which makes the model "
        "less confident. 0: none.",
        group=Group.OPTIMIZATION,
        when=FormValues.has_labels,
        place=1,
    )
    on_nan: Literal["continue", "stop", "fail"] = setting(
        "continue",
        "On NaN",
        "What to do when the loss becomes NaN.",
        group=Group.MACHINE,
        words={"stop": "Stop the run", "fail": "Fail the run"},
    )
    measure: Measure = Measure()
    optimizer: Optimizer = Optimizer()
    schedule: Schedule = Schedule()
    scaler: Scaler = Scaler()
    step: Step = Step()
    ranks: Ranks = Ranks()
    data: Data = Data()
    validation: Validation = Validation()
    checkpoint: Checkpoint = Checkpoint()
    command: Command = Command()

    @model_validator(mode="before")
    @classmethod
    def _one_epoch_by_default(cls, data: Any) -> Any:
        is_table = isinstance(data, Mapping)
        if is_table and all(none_from_text(data.get(length)) is None for length in ("epochs", "steps")):
            return {**data, "epochs": 1}
        return data

    @model_validator(mode="before")
    @classmethod
    def _overrides_from_table(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or OVERRIDES_TABLE not in data:
            return data
        table = data[OVERRIDES_TABLE]
        if not isinstance(table, Mapping):
            why = f"is {shortened(table) or 'empty'}, but it must be a table of settings."
            remedy = f"Write each setting with its name, e.g. {OVERRIDES_TABLE}.hidden_size = 256."
            raise contradiction(OVERRIDES_TABLE, why, remedy, table)
        others = {key: value for key, value in data.items() if key != OVERRIDES_TABLE}
        given = split_overrides(others.get("overrides", ()))
        if isinstance(given, list | tuple):
            others["overrides"] = (*given, *overrides_of_table(table))
        return others

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.epochs is not None and self.steps is not None:
            raise contradiction("steps", "and epochs are both set.", "Set only one of them.", self.steps)
        if self.precision is Precision.FP16_UNSCALED and self.scaler.mode == "on":
            why = "is 'on', but fp16-unscaled trains without a loss scaler."
            remedy = "Use the precision fp16, or set it to auto."
            raise contradiction("scaler.mode", why, remedy, self.scaler.mode)
        if self.precision is Precision.BF16_PURE and self.scaler.mode == "on":
            why = "is 'on', but bf16-pure does not need it, because BF16 has the range of FP32."
            raise contradiction("scaler.mode", why, "Set it to auto.", self.scaler.mode)
        try:
            _ = self.own_code
        except ValueError as error:
            why = f"cannot be used: {error}."
            raise contradiction("code", why, "Select the model file again.", self.code) from None
        return self

    @property
    def own_code(self) -> Code | None:
        """The code of the user's model file. None for a model of the catalog."""
        return None if self.code is None else code_from(self.code)

    @property
    def is_script(self) -> bool:
        """Return True if a command of the user's own trains, and no model of Ammeter's."""
        return bool(self.command.line.strip())

    @property
    def device_step_samples(self) -> int:
        """The number of samples in one optimizer step, per device."""
        return self.batch_size * self.step.gradient_accumulation

    @property
    def step_samples(self) -> int:
        """The number of samples in one optimizer step, on all devices. Not yet known if `devices` is 0."""
        return self.device_step_samples * max(1, self.devices)

    @property
    def least_steps(self) -> int:
        """The steps of the shortest run with a speed: the warm-up and `LEAST_BLOCKS` full blocks."""
        warmup = max(self.measure.warmup_steps, self.step.least_warmup_steps)
        return warmup + LEAST_BLOCKS * self.measure.block_steps

    @property
    def uses_scaler(self) -> bool:
        """Return whether a loss scaler is used. With mode auto, only FP16 AMP has one."""
        if self.scaler.mode == "auto":
            return self.precision is Precision.FP16
        return self.scaler.mode == "on"

    @property
    def wants_fused(self) -> bool:
        """Return True if a fused optimizer is requested, which not every device and model supports."""
        if self.optimizer.fused is None:
            return "fused" in self.step.parts
        return self.optimizer.fused

    @property
    def rounds_stochastically(self) -> bool:
        """Return True if the optimizer rounds BF16 weights stochastically."""
        return self.optimizer.stochastic_rounding and self.precision is Precision.BF16_PURE

    def to_json(self) -> str:
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Experiment:
        """Read an experiment from the output of `to_json`. Raises ProblemError."""
        return _validated(lambda: cls.model_validate_json(text))


def experiment_from(settings: Mapping[str, Any]) -> Experiment:
    """Create an experiment from nested `settings`, whose values may be text.

    Raises ProblemError for invalid settings.
    """
    return _validated(lambda: Experiment.model_validate(settings))


def _validated(read: Callable[[], Experiment]) -> Experiment:
    try:
        return read()
    except ValidationError as error:
        titles = {key: setting.title for key, setting in all_settings().items()}
        raise ProblemError(*problems_from_validation(error, titles)) from None


def changed(experiment: Experiment, changes: Mapping[str, Any]) -> Experiment:
    """Return the experiment with changed settings, by dotted key. Raises ProblemError."""
    layers = (from_dotted(key, value) for key, value in changes.items())
    return experiment_from(layered(experiment.model_dump(mode="json"), *layers))


def layered(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested settings by key. Epochs replace steps, and another model drops the previous code."""
    result: dict[str, Any] = {}
    for layer in layers:
        steps, epochs = (none_from_text(layer.get(name)) for name in ("steps", "epochs"))
        if steps is not None and epochs is None:
            result.pop("epochs", None)
        if epochs is not None and steps is None:
            result.pop("steps", None)
        if "model" in layer and not keeps_code(layer["model"], result.get("code")):
            result.pop("code", None)
        if "model" in layer and layer["model"] != result.get("model"):
            result.pop("overrides", None)
            result.pop(OVERRIDES_TABLE, None)
        for key, value in layer.items():
            below = result.get(key)
            are_tables = isinstance(value, Mapping) and isinstance(below, Mapping)
            result[key] = layered(below or {}, value) if are_tables else value
    return result


def from_dotted(key: str, value: Any) -> dict[str, Any]:
    """Nest a dotted key: `"optimizer.learning_rate", 0.1` gives `{"optimizer": {"learning_rate": 0.1}}`."""
    # tables are one level deep: a key with more dots is unknown however it is nested
    for part in reversed(key.split(".", 2)):
        value = {part: value}
    return dict(value)


OF_SCRIPTS = frozenset(("command", "steps", "measure", "precision", "batch_size", "device"))
"""The settings, or tables of them, that a script has. The last three are observed."""


@cache
def all_settings() -> Mapping[str, Setting]:
    """Return all settings by their dotted keys."""
    return MappingProxyType({setting.key: setting for setting in _settings_of(Experiment, "")})


def flattened(experiment: Experiment) -> dict[str, Any]:
    """Return the values of all settings by dotted key, as plain JSON values."""
    return dict(dotted(experiment.model_dump(mode="json")))


def _settings_of(model: type[Part], prefix: str) -> Iterator[Setting]:
    for name, field in model.model_fields.items():
        part = field.annotation
        if isinstance(part, type) and issubclass(part, Part):
            yield from _settings_of(part, f"{prefix}{name}.")
        else:
            yield setting_of(prefix + name, field, model.group)


# the titles of what a run records of its machine
FACTS: Mapping[str, str] = {
    "node": "Node",
    "device_name": "Device name",
    "device_memory_mib": "Device memory",
    "torch": "PyTorch",
    "cuda": "CUDA",
    "driver": "Driver",
    "python": "Python",
    "os": "System",
    "ammeter": "Ammeter",
}


def setting_title(key: str) -> str:
    """Return the title of a setting, or of a fact in `FACTS`. Return any other key unchanged."""
    setting = all_settings().get(key)
    return setting.title if setting else FACTS.get(key, key)


def setting_help(key: str) -> str:
    """Return the help text of a setting."""
    return all_settings()[key].about


def named(key: str) -> str:
    """Return a setting's title within a sentence: "learning rate". Abbreviations keep their capitals."""
    return in_sentence(setting_title(key))


def setting_problem(
    key: str, message: str, remedy: str, *, value: object = None, allowed: str | None = None
) -> Problem:
    """Create a problem of kind `REQUEST`. The setting's title comes before `message`."""
    return request_problem(f"{setting_title(key)} {message}", remedy, key=key, value=value, allowed=allowed)


def setting_error(
    key: str, message: str, remedy: str, *, value: object = None, allowed: str | None = None
) -> ProblemError:
    """Create an error with one `setting_problem`."""
    return ProblemError(setting_problem(key, message, remedy, value=value, allowed=allowed))
