"""The sides of a comparison: the repeats of an experiment, and how two sides differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

from engine.experiment.command import command_names
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.optimizers import Optimizer, Scaler, Schedule
from engine.experiment.settings import (
    FAST,
    PLAIN,
    Checkpoint,
    Measure,
    Validation,
)
from engine.experiment.value import shortened
from engine.lazy_imports import np
from engine.protocol.summary import Observed, Summary
from engine.statistics import outlying_side
from engine.store.record import RunRecord
from engine.words.names import applying_settings, comparable_settings, recipe_words, setting_text

Name = tuple[str, str]  # the label and the note of a side


def run_names(firsts: Sequence[RunRecord]) -> list[Name]:
    """Return names for the first runs of sides, as short as possible but unique."""
    experiments = [run.experiment for run in firsts]
    names, machines = _experiment_names(experiments), [run.environment for run in firsts]
    versions = {machine.torch for machine in machines if machine}
    is_one_script = len({one.command.name if one.is_script else "" for one in experiments} - {""}) == 1
    if is_one_script and len(names) == len(versions) > 1 and all(one.is_script for one in experiments):
        # by several installations of PyTorch
        return [(f"torch {machine.torch}", "") for machine in machines if machine]
    for words in (
        [machine.device_name if machine else "" for machine in machines],
        [f"torch {machine.torch}" if machine else "" for machine in machines],
        _learning_rates(experiments),
        *_script_words(experiments),
        [shortened(run.name) if run.has_own_name else "" for run in firsts],
    ):
        names = _extended(names, words, everywhere=False)
    return _numbered(names)


def experiment_titles(experiments: Sequence[Experiment]) -> tuple[str, ...]:
    """Return names for experiments on one machine, short but unique: "FP32", "FP16 AMP, fast"."""
    names = _extended(_experiment_names(experiments), _learning_rates(experiments), everywhere=False)
    return tuple(", ".join(filter(None, name)) for name in _numbered(names))


def _learning_rates(experiments: Sequence[Experiment]) -> list[str]:
    rates = (f"lr {experiment.optimizer.learning_rate:g}" for experiment in experiments)
    return _unless_script(experiments, rates)


def _script_words(experiments: Sequence[Experiment]) -> Iterator[list[str]]:
    commands = [experiment.command for experiment in experiments]
    yield [PurePath(command.folder).name for command in commands]
    yield [command.venv for command in commands]
    yield [f"{one.steps:,} steps" if one.is_script and one.steps else "" for one in experiments]


def _experiment_names(experiments: Sequence[Experiment]) -> list[Name]:
    scripts = iter(command_names([one.command for one in experiments if one.is_script]))
    names = [(next(scripts) if one.is_script else one.precision.label, "") for one in experiments]
    # where there is little room, the end of a long model's name is cut, and not the batch
    for words in (
        (f"batch {experiment.batch_size:,}" for experiment in experiments),
        (experiment.model for experiment in experiments),
        (experiment.dataset for experiment in experiments),
        (recipe_words(experiment.step.recipe or PLAIN) for experiment in experiments),
        map(_compile_mode, experiments),
        _codes(experiments),
    ):
        names = _extended(names, _unless_script(experiments, words), everywhere=True)
    return names


def _compile_mode(experiment: Experiment) -> str:
    mode = experiment.step.compile_mode
    return "" if mode == "default" or "compile" not in experiment.step.parts else mode


def _unless_script(experiments: Sequence[Experiment], words: Iterable[str]) -> list[str]:
    known = [(one.is_script, word) for one, word in zip(experiments, words, strict=True)]
    is_shared = len({word for is_script, word in known if not is_script}) == 1
    return ["" if is_script or is_shared else word for is_script, word in known]


def _numbered(names: Sequence[Name]) -> list[Name]:
    seen: Counter[Name] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        label, note = name
        if seen[name] > 1:
            name = (label, f"{note} ({seen[name]})") if note else (f"{label} ({seen[name]})", note)
        numbered.append(name)
    return numbered


def _extended(names: list[Name], words: Sequence[str], *, everywhere: bool) -> list[Name]:
    extended = []
    for (label, note), word in zip(names, words, strict=True):
        name = (label, note)
        rivals = {rival for owner, rival in zip(names, words, strict=True) if everywhere or owner == name}
        is_needed = word and len(rivals) > 1
        extended.append((label, f"{note}, {word}" if note else word) if is_needed else name)
    return extended


def _codes(experiments: Sequence[Experiment]) -> list[str]:
    texts: dict[str, list[str]] = {}
    words = []
    for experiment in experiments:
        code, known = experiment.own_code, texts.setdefault(experiment.model, [])
        if code is not None and code.sha256 not in known:
            known.append(code.sha256)
        words.append("" if code is None else f"code {known.index(code.sha256) + 1}")
    several = {model for model, known in texts.items() if len(known) > 1}
    return [word if one.model in several else "" for one, word in zip(experiments, words, strict=True)]


Axis = Literal["precision", "recipe", "batch"]
AXES: tuple[Axis, ...] = ("precision", "recipe", "batch")

_OF_AXES = ("precision", "step.recipe", "batch_size")
_HARMLESS = (
    "seed",
    "device",
    "on_nan",
    "validation.every",
    "checkpoint.best",
    "checkpoint.last",
    "checkpoint.every",
    "checkpoint.rewind_every",
)
_OF_PRECISION = (
    "step.fp32_modules",
    "step.autocast_tf32",
    "step.fp8_recipe",
    "step.fp8_small_layers",
)
_OF_RECIPE = ("step.compile_mode", "step.compile_dynamic")


def differing_axes(one: Experiment, other: Experiment) -> tuple[Axis, ...]:
    """Return the axes (precision, recipe, batch) in which two experiments differ.

    Scripts have none: their precision and batch were observed, and do not explain a difference.
    """
    if one.is_script or other.is_script:
        return ()
    return tuple(axis for axis in AXES if _axis_value(one, axis) != _axis_value(other, axis))


def with_axes(experiment: Experiment, axes: Iterable[Axis], target: Experiment) -> Experiment:
    """Return the experiment with the target's values on these axes."""
    for axis in axes:
        if axis == "precision":
            own = {key.partition(".")[2]: attrgetter(key)(target) for key in _OF_PRECISION}
            step = experiment.step.model_copy(update=own)
            update = {"precision": target.precision, "step": step, "scaler": target.scaler}
        elif axis == "recipe":
            own = {key.partition(".")[2]: attrgetter(key)(target) for key in ("step.recipe", *_OF_RECIPE)}
            update = {"step": experiment.step.model_copy(update=own)}
        else:
            update = {"batch_size": target.batch_size}
        experiment = experiment.model_copy(update=update)
    return experiment


def speed_equivalent(experiment: Experiment) -> Experiment:
    """Return the experiment without the settings that do not affect speed. Equal results are equally fast."""
    optimizer = experiment.optimizer
    step = experiment.step
    if not experiment.precision.is_autocast:
        step = step.model_copy(update={"fp32_modules": (), "autocast_tf32": False})
    if "compile" not in step.parts:
        step = step.model_copy(update={"compile_mode": "default", "compile_dynamic": None})
    if experiment.precision is not Precision.FP8:
        step = step.model_copy(update={"fp8_recipe": "tensorwise", "fp8_small_layers": None})
    return experiment.model_copy(
        update={
            # the same code in another folder is as fast
            "code": experiment.own_code and experiment.own_code.sha256,
            "seed": 0,
            "steps": None,
            "epochs": 1,
            "device": "auto",
            "on_nan": "continue",
            "label_smoothing": 0.0,
            "optimizer": Optimizer(
                name=optimizer.name, momentum=0.9 if optimizer.momentum else 0.0, fused=optimizer.fused
            ),
            "schedule": Schedule(),
            "scaler": Scaler(mode="on" if experiment.uses_scaler else "off"),
            "step": step,
            "measure": Measure(),
            "validation": Validation(),
            "checkpoint": Checkpoint(),
        }
    )


def is_same_machine(one: RunRecord, other: RunRecord) -> bool:
    """Return True if both runs had devices of the same name and the same version of PyTorch."""
    mine, theirs = one.environment, other.environment
    if mine is None or theirs is None:
        return False
    return (mine.device_name, mine.torch) == (theirs.device_name, theirs.torch)


def unlike_settings(one: Experiment, other: Experiment) -> tuple[tuple[str, object, object], ...]:
    """Return key and both values of differing settings, except precision, recipe, batch and command.

    Settings that apply to neither experiment are ignored. A script differs from a model by its name.
    """
    if one.is_script is not other.is_script:
        subjects = [each.command.script if each.is_script else each.model for each in (one, other)]
        return (("model", subjects[0], subjects[1]),)
    mine, theirs = comparable_settings(one), comparable_settings(other)
    ignored = {*_OF_AXES, *_HARMLESS, *(key for key in mine if key.startswith("command."))}
    if one.precision is not other.precision:
        ignored |= {*_OF_PRECISION, *(key for key in mine if key.startswith("scaler."))}
    if one.step.recipe != other.step.recipe:
        ignored |= {*_OF_RECIPE}
    applying = applying_settings(one).keys() | applying_settings(other).keys()
    return tuple(
        (key, mine[key], theirs[key])
        for key in mine
        if key in applying and key not in ignored and mine[key] != theirs[key]
    )


class TrainingDifference(NamedTuple):
    """A setting that makes two trainings different: its name in the plural, and the value in each."""

    what: str
    one: str
    other: str


_WORK = {
    "model": "models",
    "code": "code",
    "dataset": "datasets",
    "path": "paths",
    "image_size": "image sizes",
    "num_classes": "numbers of classes",
}


def changes_training(key: str) -> bool:
    """Return True if runs that differ in this setting do different trainings."""
    return key in _WORK


def training_differences(one: Experiment, other: Experiment) -> tuple[TrainingDifference, ...]:
    """Return the differences that make two experiments different trainings, most important first."""
    return tuple(
        TrainingDifference(_WORK[key], setting_text(key, mine), setting_text(key, theirs))
        for key, mine, theirs in unlike_settings(one, other)
        # of another file the code differs anyway
        if changes_training(key) and (key != "code" or one.model == other.model)
    )


def _axis_value(experiment: Experiment, axis: Axis) -> object:
    if axis == "precision":
        return experiment.precision
    return experiment.step.recipe if axis == "recipe" else experiment.batch_size


# A run that waits may not know these yet; it is a repeat of runs that do.
_OPEN = {"device": "auto", "image_size": None, "num_classes": None}
_ABSENT = object()
_OF_SCRIPTS = ("command.", "measure.", "steps")


@dataclass(frozen=True)
class Side:
    """One side of a comparison: repeats of an experiment, which differ only in seed and name.

    `runs`, oldest first, are on the same device and version of PyTorch, and there is at least one. `label` is
    the precision, or a script's name: "train.py --amp". `note` is whatever else distinguishes the sides of a
    comparison: "fast", "batch 64".
    """

    runs: tuple[RunRecord, ...]
    label: str
    note: str = ""
    recipes_differ: bool = False

    @property
    def title(self) -> str:
        """The label and the note, unique among the sides of a comparison: "FP32", "FP16 AMP, fast"."""
        return ", ".join(filter(None, (self.label, self.note)))

    @property
    def is_named_fast(self) -> bool:
        """True if the note contains "fast", because the optimizations of the compared sides differ."""
        return self.recipes_differ and self.runs[0].experiment.step.recipe == FAST

    @property
    def id(self) -> str:
        """The id of the side's oldest run."""
        return self.runs[0].id

    @property
    def precision(self) -> Precision:
        """The precision. That of a script is known once one of its runs has started."""
        return next((run for run in self.runs if run.environment), self.runs[0]).experiment.precision

    @property
    def is_script(self) -> bool:
        """True if a command of the user's own trained."""
        return self.runs[0].experiment.is_script

    @property
    def seen(self) -> Summary:
        """The summary of the first run whose formats are known, or whose script was observed. Else empty."""
        known = (run.summary for run in self.runs if run.summary)
        return next((summary for summary in known if summary.formats or summary.observed), Summary())

    @property
    def observed(self) -> Observed | None:
        """The observations of a script's first run that has any."""
        return self.seen.observed

    @property
    def recipe(self) -> str:
        """The requested recipe in words: "plain", "fast", or its parts."""
        return recipe_words(self.runs[0].experiment.step.recipe)

    def contains(self, run_id: str | None) -> bool:
        """Return True if that run is one of the repeats."""
        return any(run.id == run_id for run in self.runs)

    def without(self, run_ids: Collection[str]) -> Side:
        """Return the side without some of its runs, or itself if none is left. Its id may be another."""
        kept = tuple(run for run in self.runs if run.id not in run_ids)
        return replace(self, runs=kept) if kept else self

    def name_of(self, run: RunRecord) -> str:
        """Return a run's name to start a sentence: "“Mine” (FP32)", "FP32", "FP32, repeat 2"."""
        if run.has_own_name:
            return f"“{shortened(run.name)}” ({self.title})"
        return self.title if len(self.runs) == 1 else f"{self.title}, repeat {self.runs.index(run) + 1:,}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the runs, oldest first, each once."""
        return tuple(dict.fromkeys(run.title for run in self.runs))


def sides_of(runs: Sequence[RunRecord]) -> tuple[Side, ...]:
    """Group runs into sides, in the order of their first runs."""
    groups: list[_Group] = []
    for run in runs:
        settings = _shared_settings(run)
        group = next((group for group in groups if group.agrees(settings)), None)
        if group is None:
            groups.append(group := _Group(settings))
        elif run.environment is not None:
            group.settings = settings
        group.runs.append(run)
    ordered = [tuple(sorted(group.runs, key=lambda run: run.number)) for group in groups]
    firsts = [group[0] for group in ordered]
    differ = len({run.experiment.step.recipe for run in firsts}) > 1
    names = zip(ordered, run_names(firsts), strict=True)
    return tuple(Side(group, label, note, differ) for group, (label, note) in names)


_IN_TURNS = 0.5


def is_interleaved(side: Side, other: Side) -> bool:
    """Return True if the repeats of two sides are interleaved, so drift of the machine affects both alike.

    The measure is Somers' D of side and order (American Sociological Review 27, 1962): 0 for A B B A, a half
    for A B A B, 1 if all of one side came first. It is the fraction of a steady drift's worst bias that is
    left in the ratio. With alternating runs it is at most a half. A side of one run has no order.
    """
    begun = [[run for run in either.runs if run.started] for either in (side, other)]
    if min(map(len, begun)) < 2:
        return True
    mine, theirs = (np.array([run.started for run in runs]) for runs in begun)
    # each node of a cluster is a machine by itself
    my_nodes, their_nodes = (np.array([str(node_of(run)) for run in runs]) for runs in begun)
    is_alike = my_nodes[:, np.newaxis] == their_nodes
    is_later = (mine[:, np.newaxis] > theirs)[is_alike]
    is_earlier = (mine[:, np.newaxis] < theirs)[is_alike]
    return not is_alike.any() or abs(float(is_later.mean() - is_earlier.mean())) <= _IN_TURNS


def node_of(run: RunRecord) -> str | None:
    """Return the cluster node that a run was trained on, or None for any other machine."""
    return None if run.environment is None else run.environment.node


def pairs_on_nodes(side: Side, baseline: Side) -> list[tuple[RunRecord, RunRecord]] | None:
    """Return the pairs of repeats that trained on the same node, or None if all were on one machine."""
    runs = [run for run in (*side.runs, *baseline.runs) if run.environment is not None]
    if len(set(map(node_of, runs))) < 2:
        return None

    def key(run: RunRecord) -> tuple[object, ...]:
        return run.comparison, run.experiment.seed, node_of(run)

    theirs = {key(run): run for run in baseline.runs if run.comparison is not None}
    return [(run, theirs[key(run)]) for run in side.runs if key(run) in theirs]


def paired_repeats(side: Side, baseline: Side) -> list[tuple[RunRecord, RunRecord]] | None:
    """Return the pairs of repeats that trained in succession, or None unless every repeat has a partner."""
    mine, theirs = (
        {(run.comparison, run.experiment.seed): run for run in either.runs} for either in (side, baseline)
    )
    are_unique = len(mine) == len(side.runs) and len(theirs) == len(baseline.runs)
    if not are_unique or mine.keys() != theirs.keys() or any(comparison is None for comparison, _ in mine):
        return None
    return [(run, theirs[key]) for key, run in mine.items()]


def side_with_outliers(side: Side, baseline: Side) -> Side | None:
    """Return the side whose repeats have outliers while the other side's have none, or None.

    See `statistics.outlying_side`.
    """
    on_one_node, partners = pairs_on_nodes(side, baseline), paired_repeats(side, baseline)
    pairs = partners if on_one_node is None else on_one_node
    runs = (side.runs, baseline.runs) if pairs is None else list(zip(*pairs, strict=True))
    if len(runs) < 2:
        return None
    speeds = [[run.summary.samples_per_second for run in each if run.summary is not None] for each in runs]
    known = [[speed for speed in each if speed is not None] for each in speeds]
    is_paired = pairs is not None and all(len(each) == len(pairs) for each in known)
    slow = outlying_side(*known, is_paired=is_paired)
    return None if slow is None else (side, baseline)[slow]


def allows_interval(side: Side, baseline: Side) -> bool:
    """Return True if the ratio of two sides' times may have a confidence interval.

    Their runs need to be interleaved, and outliers must not be on one side only.
    """
    return is_interleaved(side, baseline) and side_with_outliers(side, baseline) is None


@dataclass
class _Group:
    settings: dict[str, Any]
    runs: list[RunRecord] = field(default_factory=list)

    def agrees(self, other: dict[str, Any]) -> bool:
        return all(self.settings[key] == other[key] for key in self.settings.keys() & other.keys())


def _shared_settings(run: RunRecord) -> dict[str, Any]:
    settings = comparable_settings(run.experiment)
    del settings["seed"]
    if run.experiment.is_script:
        # precision and batch were observed
        settings = {key: value for key, value in settings.items() if key.startswith(_OF_SCRIPTS)}
        del settings["command.require"]
    if run.environment is not None:
        settings["device_name"] = run.environment.device_name
        settings["torch"] = run.environment.torch
        return settings
    return {key: value for key, value in settings.items() if _OPEN.get(key, _ABSENT) != value}


def all_runs(sides: Iterable[Side]) -> tuple[RunRecord, ...]:
    """Return all runs, one side after the other."""
    return tuple(run for side in sides for run in side.runs)
