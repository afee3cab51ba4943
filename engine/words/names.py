"""Optimizations, datasets and units in words, and the glossary of the terms on screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from engine.experiment.catalog import OWN_DATA, DataRef
from engine.experiment.experiment import OF_SCRIPTS, Experiment, Precision, all_settings, flattened
from engine.experiment.own.code import code_from
from engine.experiment.setting import FormValues
from engine.experiment.settings import FAST, PLAIN

_PART_WORDS = {
    "channels_last": "channels last",
    "fused": "fused optimizer",
    "compile": "compiled",
    "capture": "captured",
    "host_counters": "BatchNorm counters on the host",
}


def recipe_words(recipe: str) -> str:
    """Return the optimizations as used in a sentence: "fast", or "channels last + compiled"."""
    return " + ".join(_PART_WORDS.get(part, part) for part in recipe.split("+"))


def optimizations_words(experiment: Experiment) -> str:
    """Return an experiment's optimizations as a noun phrase: "fast optimizations", "channels last"."""
    words = {PLAIN: "the lack of optimizations", FAST: "fast optimizations"}
    return words.get(experiment.step.recipe, recipe_words(experiment.step.recipe))


def batch_words(experiment: Experiment) -> str:
    """Return the batch size for a line: "batch 64", or "batch 64 × 2 devices". "" for a script."""
    if experiment.is_script:
        return ""
    sharing = "" if experiment.devices == 1 else f" × {setting_text('devices', experiment.devices)} devices"
    return f"batch {experiment.batch_size:,}{sharing}"


class Trained(Protocol):
    """The properties of a run or experiment that decide the unit of throughput."""

    @property
    def dataset(self) -> str: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def is_script(self) -> bool: ...


def sample_unit(trained: Trained) -> str:
    """Return the unit of throughput in a sentence: "steps/s" for a script with no known batch."""
    return "steps/s" if trained.is_script and trained.batch_size <= 1 else "samples/s"


def speed_unit(trained: Iterable[Trained], datasets: Iterable[str] = ()) -> str:
    """Return the unit of throughput: "img/s" if all train images, also those on further `datasets`."""
    units = {sample_unit(each) if each.is_script else _dataset_unit(each.dataset) for each in trained}
    units |= set(map(_dataset_unit, datasets))
    return units.pop() if len(units) == 1 else "samples/s"


def _dataset_unit(dataset: str) -> str:
    return "img/s" if DataRef(dataset).task == "classification" else "samples/s"


def subject_words(experiment: Experiment) -> str:
    """Return what is trained: "resnet50 on cifar10", or a script: "train.py"."""
    if experiment.is_script:
        return experiment.command.script
    return f"{experiment.model} on {dataset_words(experiment.dataset)}"


def dataset_words(dataset: str) -> str:
    """Return the words for a dataset after "on"."""
    return "its own data" if dataset == OWN_DATA else dataset


def checkpointing_words(value: str) -> str:
    """Return a value of activation checkpointing as a noun phrase: "selective checkpointing"."""
    return f"activation budget {value}" if value[:1].isdigit() else f"{value} checkpointing"


_PART_NOUNS = {**_PART_WORDS, "compile": "compiling", "capture": "capturing", "fp8": "FP8"}


def recipe_title(recipe: str) -> str:
    """Return a recipe for the start of a line: "Fast", or "Channels last + compiled"."""
    words = recipe_words(recipe)
    return words[:1].upper() + words[1:]


def left_out_words(left_out: Mapping[str, str]) -> str:
    """Return the requested optimizations that were not applied, one per line with its reason."""
    return "\n".join(f"{_PART_NOUNS.get(part, part)}: {why.rstrip('.')}" for part, why in left_out.items())


def listed(names: Sequence[str]) -> str:
    """Return names as a list in a sentence: "a, b and c"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


# each term and what it means, for people who do not code
GLOSSARY: Mapping[str, str] = {
    "full precision": "Every number in the training has 32 bits.",
    "mixed precision": "Most calculations use 16-bit numbers, the sensitive ones 32 bits.",
    "FP32": "32-bit numbers with about 7 digits, the default of training.",
    "TF32": "32-bit numbers that the GPU rounds to about 3 digits when it multiplies.",
    "FP16": "16-bit numbers with about 3 digits and a small range. Tiny values can become zero.",
    "BF16": "16-bit numbers with about 2 digits and the same range as FP32.",
    "FP8": "8-bit numbers with about 1 digit, for the inputs of large matmuls. The rest is BF16.",
    "AMP": "Automatic mixed precision: PyTorch chooses which calculations use 16 bits.",
    "batch": "The number of images (or sequences, or samples) in one training step.",
    "peak memory": "The most memory that the training used at any moment.",
    "95% interval": "The range of the true value with 95% confidence, from repeated measurements.",
    "fast optimizations": "Settings other than precision that speed up training, such as torch.compile.",
    "Tensor Cores": "Units of an NVIDIA GPU that multiply many 16-bit or 8-bit numbers at once.",
}


def applies(key: str, chosen: FormValues) -> bool:
    """Return True if a setting applies, given the other settings. One that does not is not shown."""
    if not exists(key, is_script=chosen.is_script):
        return False
    return chosen.is_script or all_settings()[key].when(chosen)


def exists(key: str, *, is_script: bool) -> bool:
    """Return True if `key` is a setting of scripts, or without `is_script`, of experiments with a model."""
    return key.partition(".")[0] in OF_SCRIPTS if is_script else not key.startswith("command.")


def comparable_settings(experiment: Experiment) -> dict[str, Any]:
    """Return every setting by its dotted key, and code as its name and hash, equal in every folder."""
    values = flattened(experiment)
    if experiment.own_code is not None:
        values["code"] = experiment.own_code.short
    return values


def applying_settings(experiment: Experiment) -> dict[str, Any]:
    """Return the `comparable_settings` that apply, with only the length that is set."""
    values = comparable_settings(experiment)
    chosen = _chosen(experiment, values)
    del values["steps" if experiment.steps is None else "epochs"]
    return {key: value for key, value in values.items() if applies(key, chosen)}


def is_validated(experiment: Experiment) -> bool:
    """Return True if a run of the experiment is validated, so it may have an accuracy."""
    return not experiment.is_script and _chosen(experiment, flattened(experiment)).is_validated()


def _chosen(experiment: Experiment, values: Mapping[str, Any]) -> FormValues:
    code = experiment.own_code if experiment.model.file is not None else None
    return FormValues(
        lambda key: str(values[key]),
        (experiment.precision,),
        experiment.device == "cpu",
        frozenset() if code is None else code.defines,
        experiment.is_script,
    )


_SWITCHES_LEFT_OPEN = ("optimizer.fused", "data.on_device", "step.compile_dynamic")


def setting_text(key: str, value: Any) -> str:
    """Return the value of a setting, or of a fact about the machine, as text."""
    if value is None or value == [] or value == ():
        return "auto" if key in _SWITCHES_LEFT_OPEN else "none"
    if key == "precision":
        return Precision(value).label
    if key == "dataset":
        return dataset_words(str(value))
    if key == "code" and value.startswith("{"):
        return code_from(value).short
    if key == "step.recipe":
        return recipe_words(str(value))
    if isinstance(value, bool):
        return "on" if value else "off"
    if key == "devices" and value == 0:
        return "all"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if key == "seed" or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}"


def as_typed(value: object) -> str:
    """Return a setting's value as `--set` accepts it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
