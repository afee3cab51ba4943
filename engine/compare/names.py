"""What sides are called: by their precision, and by what else distinguishes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from engine.experiment.experiment import Experiment
from engine.experiment.settings import PLAIN
from engine.experiment.value import shortened
from engine.store.record import RunRecord
from engine.words.names import recipe_words

Name = tuple[str, str]
"""The label and the note of a side."""


def run_names(firsts: Sequence[RunRecord]) -> list[Name]:
    """Names for the first runs of sides, as short as possible but unique."""
    names = _experiment_names([run.experiment for run in firsts])
    for run_word in (_device, _torch):
        names = _extended(names, [run_word(run) for run in firsts], everywhere=False)
    names = _extended(names, [_learning_rate(run.experiment) for run in firsts], everywhere=False)
    return _numbered(_extended(names, [_name(run) for run in firsts], everywhere=False))


def experiment_titles(experiments: Sequence[Experiment]) -> tuple[str, ...]:
    """Names for experiments on one machine, as short as possible but unique: "FP32", "FP16 AMP, fast"."""
    rates = [_learning_rate(experiment) for experiment in experiments]
    names = _numbered(_extended(_experiment_names(experiments), rates, everywhere=False))
    return tuple(", ".join(filter(None, name)) for name in names)


def _experiment_names(experiments: Sequence[Experiment]) -> list[Name]:
    names = [(experiment.precision.label, "") for experiment in experiments]
    # where there is little room, the end of a long model's name is left out, and not the batch
    for word in (_batch, _model, _dataset, _recipe):
        names = _extended(names, [word(experiment) for experiment in experiments], everywhere=True)
    return _extended(names, _codes(experiments), everywhere=True)


def _numbered(names: Sequence[Name]) -> list[Name]:
    """The names, those that came before with a number: "FP32 (2)"."""
    seen: Counter[Name] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        label, note = name
        if seen[name] > 1:
            name = (label, f"{note} ({seen[name]})") if note else (f"{label} ({seen[name]})", note)
        numbered.append(name)
    return numbered


def _extended(names: list[Name], words: list[str], *, everywhere: bool) -> list[Name]:
    """The names, with their words where these differ: among all sides, or among those of one name."""
    extended = []
    for (label, note), word in zip(names, words, strict=True):
        name = (label, note)
        rivals = {rival for owner, rival in zip(names, words, strict=True) if everywhere or owner == name}
        is_needed = word and len(rivals) > 1
        extended.append((label, f"{note}, {word}" if note else word) if is_needed else name)
    return extended


def _recipe(experiment: Experiment) -> str:
    return recipe_words(experiment.step.recipe or PLAIN)


def _batch(experiment: Experiment) -> str:
    return f"batch {experiment.batch_size:,}"


def _model(experiment: Experiment) -> str:
    return experiment.model


def _codes(experiments: Sequence[Experiment]) -> list[str]:
    """Numbers for the texts of a file, where it has several, in the order in which they come."""
    texts: dict[str, list[str]] = {}
    words = []
    for experiment in experiments:
        code, known = experiment.own_code, texts.setdefault(experiment.model, [])
        if code is not None and code.sha256 not in known:
            known.append(code.sha256)
        words.append("" if code is None else f"code {known.index(code.sha256) + 1}")
    several = {model for model, known in texts.items() if len(known) > 1}
    return [word if one.model in several else "" for one, word in zip(experiments, words, strict=True)]


def _dataset(experiment: Experiment) -> str:
    return experiment.dataset


def _learning_rate(experiment: Experiment) -> str:
    return f"rate {experiment.optimizer.learning_rate:g}"


def _device(run: RunRecord) -> str:
    return run.environment.device_name if run.environment else ""


def _torch(run: RunRecord) -> str:
    return f"torch {run.environment.torch}" if run.environment else ""


def _name(run: RunRecord) -> str:
    return shortened(run.name)
