"""Validate a draft: its plan, or its problems. Does not use Qt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from engine.experiment.checks import (
    Catalog,
    DataLookup,
    DatasetEntry,
    DeviceEntry,
    Lookup,
    dataset_of,
    device_count,
    problems,
)
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.problem import Problem, ProblemError, problems_from_validation, request_problem
from engine.experiment.sweep import check_seeds
from engine.experiment.value import MIB_PER_GIB
from engine.words.numbers import counted, duration
from gui.session.request import Request
from gui.setup.draft import Draft
from gui.setup.fields import NONE, NUMBER_KEYS, SETTINGS, clean

_GPU_SIZES = (2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 48.0, 80.0)
_CPU_SIZES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Memory caps in GiB for the worker, at most half the machine's memory."""
_USUAL_CPU_GIB = 1.0
_MOST = 6


def memory_cap_choices(device: DeviceEntry) -> tuple[float, ...]:
    """Return the memory caps in GiB to offer on the device, smallest first."""
    gib = device.memory_mib / MIB_PER_GIB
    if device.is_gpu:
        return tuple(size for size in _GPU_SIZES if size < gib)[-_MOST:]
    return tuple(size for size in _CPU_SIZES if size <= gib / 2)[:_MOST] or (round(gib / 2, 2),)


def default_memory_cap(device: DeviceEntry | None) -> float | None:
    """Return the default memory cap in GiB. None for the full device memory."""
    if device is None or device.name != "cpu":
        return None
    sizes = memory_cap_choices(device)
    return next((size for size in reversed(sizes) if size <= _USUAL_CPU_GIB), sizes[0])


# a slot of the window puts all of them into the queue
MOST_REPEATS = 100
_LONGEST_REMEDY = 80
_READING = "Reading the data…"


@dataclass(frozen=True)
class Outcome:
    """The result of checking the form: the labeled experiments it describes, and its problems by setting.

    Each experiment is trained `repeats` times. `epochs` has the optimizer steps per epoch of each experiment,
    None if unknown. `is_reading` is True while the data is still being read.
    """

    experiments: tuple[tuple[str, Experiment], ...]
    problems: Mapping[str, Problem]
    repeats: int = 1
    epochs: tuple[int | None, ...] = ()
    is_reading: bool = False

    def seconds(self, expected: Callable[[Experiment], float | None]) -> float | None:
        """Return the expected time of one run of each experiment. None if that of any is unknown."""
        seconds = [] if self.reason is not None else [expected(one) for _, one in self.experiments]
        return None if None in seconds else sum(filter(None, seconds)) or None

    @property
    def reason(self) -> str | None:
        """Return a sentence that says why the draft cannot run. None if it can."""
        against = next((problem.message for problem in self.problems.values()), None)
        return against or (_READING if self.is_reading else None)


def check(
    draft: Draft,
    catalog: Catalog | None,
    refused: Mapping[Experiment, Problem] = MappingProxyType({}),
    file_problem: Problem | None = None,
    *,
    look: Lookup,
    judges_machine: bool = True,
    ignored: Collection[str] = (),
) -> Outcome:
    """Validate every run of the draft, with the first value of each axis.

    `look` reads the facts of the data. Without a catalog or `judges_machine`, only settings that do not
    depend on the machine are checked. `refused` are problems that the worker reported before, `file_problem`
    is the model file's reading error, and problems of `ignored` settings are dropped.
    """
    first = {} if file_problem is None else {"model": file_problem}
    for problem in _blanks(draft):
        if problem.key not in ignored:
            first.setdefault(problem.key or "", problem)
    experiments: list[tuple[str, Experiment]] = []
    seen: list[DataLookup | None] = []

    def seeing(experiment: Experiment, dataset: DatasetEntry) -> DataLookup | None:
        seen.append(look(experiment, dataset))
        return seen[-1]

    for label, settings in draft.variants(catalog):
        experiment, invalid = _validated(settings)
        against = wrong = [problem for problem in invalid if problem.key not in ignored]
        if judges_machine and catalog and experiment:
            against = [*wrong, *problems(experiment, catalog, seeing)]
        if experiment is not None and not wrong:
            against += [refused[experiment]] if judges_machine and experiment in refused else []
            if experiment not in (known for _, known in experiments):
                experiments.append((label, experiment))
        for problem in against:
            if problem.key not in ignored:
                first.setdefault(problem.key or "", problem)
    repeats = 1
    try:
        repeats = _Repeats.model_validate({"repeat": clean("repeat", draft.text("repeat"))}).repeat
        check_seeds(experiments, repeats)
    except ValidationError as error:
        if "repeat" not in ignored:
            titles = {"repeat": SETTINGS["repeat"].title}
            first.setdefault("repeat", problems_from_validation(error, titles)[0])
    except ProblemError as error:
        first.setdefault("seed", error.problem)
    epochs = tuple(_steps_in_epoch(experiment, catalog, look) for _, experiment in experiments)
    return Outcome(tuple(experiments), first, repeats, epochs, is_reading=None in seen)


def _validated(settings: Mapping[str, Any]) -> tuple[Experiment | None, list[Problem]]:
    """Return the experiment, with defaults in place of invalid settings, and the problems of those
    settings.
    """
    against: list[Problem] = []
    while True:
        try:
            return experiment_from(settings), against
        except ProblemError as error:
            against += error.problems
            fewer = _without_keys({problem.key for problem in error.problems}, settings)
            if fewer == settings:
                return None, against
            settings = fewer


def _without_keys(
    keys: Collection[str | None], settings: Mapping[str, Any], prefix: str = ""
) -> dict[str, Any]:
    return {
        name: _without_keys(keys, value, f"{prefix}{name}.") if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if prefix + name not in keys
    }


class _Repeats(BaseModel):
    repeat: int = Field(ge=1, le=MOST_REPEATS)


def _blanks(draft: Draft) -> list[Problem]:
    wrong = []
    # an empty length would be read as one epoch
    if clean(key := draft.length_key, draft.text(draft.length_key)).lower() in ("", NONE):
        wrong.append(request_problem("Length is empty.", "Enter how long to train.", key=key, value=""))
    if not draft.selected:
        remedy = "Select one, or several to compare."
        wrong.append(request_problem("No precision is selected.", remedy, key="precision"))
    return wrong


def explanation(problem: Problem) -> str:
    """Return the problem's sentence, and its remedy if it is short and adds information.

    For a number, the sentence alone names the valid range.
    """
    names_allowed = problem.key in NUMBER_KEYS and problem.allowed is not None
    if names_allowed or len(problem.remedy) > _LONGEST_REMEDY:
        return problem.message
    return f"{problem.message} {problem.remedy}"


def request(draft: Draft, outcome: Outcome) -> Request:
    """Create the request of a valid draft, with the first value of each axis."""
    return named_request(draft.text("name").strip() or None, outcome)


def named_request(name: str | None, outcome: Outcome) -> Request:
    """Create the request of a valid form. Without a `name`, the runs are numbered."""
    labels = [label for label, _ in outcome.experiments]
    title = name or _comparison_title(labels, outcome.repeats)
    return Request(title, outcome.experiments, name, outcome.repeats)


def _comparison_title(labels: Sequence[str], repeats: int) -> str:
    if len(labels) == 1:
        return f"{labels[0]}, {repeats} times" if repeats > 1 else ""
    return f"{labels[0]} against {labels[1]}" if len(labels) == 2 else ", ".join(labels)


def button_words(draft: Draft, outcome: Outcome) -> str:
    """Return the primary button's text: "Compare 2 precisions, 3 times each", "Train in FP32"."""
    count, selected, repeats = len(outcome.experiments), draft.selected, outcome.repeats
    if count > max(len(selected), 1):
        words = f"Compare {count} runs"
    elif len(selected) > 1:
        words = f"Compare {len(selected)} precisions"
    else:
        words = f"Train in {selected[0].label}" if selected else "Train"
    if repeats == 1:
        return words
    return f"{words}, {repeats} times" + (" each" if count > 1 else "")


def plan_words(outcome: Outcome, seconds: float | None = None, *, is_script: bool = False) -> str:
    """Describe the plan: "2 runs, 940 steps each", or with the time of each once, "2 runs, about 3 min".

    Runs of scripts, whose warm-up is not part of the length: "10 runs, 5 of each".

    Runs that are too short are mentioned: "2 runs, 9 steps each (throughput needs 60)".
    """
    count = len(outcome.experiments) * outcome.repeats
    planned = [
        (experiment, _steps(experiment, epoch))
        for (_, experiment), epoch in zip(outcome.experiments, outcome.epochs, strict=True)
    ]
    lengths = {_length_words(experiment, steps) for experiment, steps in planned}
    if seconds is not None:
        plan = f"{counted(count, 'run')}, about {duration(seconds * outcome.repeats)}"
    elif is_script:
        plan = f"{counted(count, 'run')}" + (f", {outcome.repeats} of each" if len(planned) > 1 else "")
    elif len(lengths) == 1:
        plan = f"{counted(count, 'run')}, {lengths.pop()}" + (" each" if count > 1 else "")
    else:
        plan = counted(count, "run")
    short = [first.least_steps for first, steps in planned if steps is not None and steps < first.least_steps]
    return f"{plan} (throughput needs {max(short):,})" if short else plan


def _length_words(experiment: Experiment, steps: int | None) -> str:
    return counted(steps, "step") if steps is not None else counted(experiment.epochs or 0, "epoch")


def _steps(experiment: Experiment, epoch: int | None) -> int | None:
    if experiment.steps is None and epoch is not None and experiment.epochs is not None:
        return experiment.epochs * epoch
    return experiment.steps


def _steps_in_epoch(experiment: Experiment, catalog: Catalog | None, look: Lookup) -> int | None:
    """Return the optimizer steps in an epoch. None while the dataset's size is unknown."""
    try:
        dataset = dataset_of(experiment, catalog, look) if catalog else None
    except ProblemError:
        return None
    if catalog is None or dataset is None:
        return None
    if dataset.needs_path and dataset.train_samples is None:
        return None
    own = (dataset.train_samples or experiment.samples) // device_count(experiment, catalog)
    return -(-own // experiment.device_step_samples)


def converted_length(draft: Draft, outcome: Outcome) -> tuple[str, str]:
    """Return the length in the other unit, as (key, text). The number stays if it cannot be converted."""
    key = draft.length_key
    other = "steps" if key == "epochs" else "epochs"
    per_epoch = next(iter(outcome.epochs), None)
    length = clean(key, draft.text(key))
    if per_epoch is None or not length.isdecimal():
        return other, draft.text(key)
    factor = per_epoch if key == "epochs" else 1 / per_epoch
    return other, f"{max(1, round(int(length) * factor)):,}"


def unresolved(experiment: Experiment, catalog: Catalog) -> Experiment:
    """Return a run's experiment without the settings that this machine would select automatically."""
    dataset = catalog.dataset(experiment.dataset)
    update: dict[str, object] = {}
    if experiment.device == catalog.devices[0].name:
        update["device"] = "auto"
    for name in () if dataset is None else ("image_size", "num_classes"):
        if getattr(experiment, name) == getattr(dataset, name):
            update[name] = None
    return experiment.model_copy(update=update)


def limit_request(
    draft: Draft, outcome: Outcome, catalog: Catalog, cpu_limit_gib: float | None = None
) -> Request:
    """Create the request of a batch-size search for a valid draft.

    `cpu_limit_gib` replaces the default memory cap on a CPU if the form has none.
    """
    # for the limit alone: a run under a cap has no speed on a CPU
    pairs = []
    for label, experiment in outcome.experiments:
        usual = default_memory_cap(catalog.device(experiment.device))
        if experiment.memory_cap_gib is None and usual is not None:
            experiment = experiment.model_copy(update={"memory_cap_gib": cpu_limit_gib or usual})
        pairs.append((label, experiment))
    return request(draft, replace(outcome, experiments=tuple(pairs)))
