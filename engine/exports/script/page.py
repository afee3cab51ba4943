"""A run as the source of a program."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from engine.experiment import Experiment
from engine.exports.script.data import data_facts
from engine.exports.script.head import head_of
from engine.exports.script.imports import imports_of
from engine.exports.script.literals import literal
from engine.exports.script.loading import data_argument, loading_lines
from engine.exports.script.model import model_facts
from engine.exports.script.shortening import shortened
from engine.exports.script.training import STYLES, TrainingFacts, parts_in_force
from engine.parts import RecipePart
from engine.records.record import RunRecord

MOST_LINES = 119
_DOCSTRINGS = re.compile(r'^ +""".*"""\n\n?', re.MULTILINE)
_COMMENTS = re.compile(r"^ +#.*\n", re.MULTILINE)


def script_of(run: RunRecord, steps_per_epoch: int | None = None) -> str:
    """The source of a program that trains what the run trained, and prints the loss of each step.

    It is shorter than 120 lines; where parts had to be left out for it, its docstring says so. A run told its
    `steps_per_epoch` when it started; a few learning rates depend on it. Raises ProblemError for a model or a
    dataset that this version does not know, and where such a run has not started.
    """
    for experiment, left_out in ((run.experiment, ()), *shortened(run.experiment)):
        facts = _facts(experiment, parts_in_force(run), steps_per_epoch)
        for style in STYLES:
            text = _rendered(run, replace(facts, style=style), left_out)
            if text.count("\n") <= MOST_LINES:
                return text
    # so many parts at once are hardly ever seen: the code has to speak for itself
    return _COMMENTS.sub("", text)


def _facts(
    experiment: Experiment, parts: tuple[RecipePart, ...], steps_per_epoch: int | None
) -> TrainingFacts:
    data = data_facts(experiment)
    model = model_facts(experiment, channels=data.channels, classes=data.classes, image_size=data.size)
    return TrainingFacts(experiment, model, data, parts, steps_per_epoch)


def _rendered(run: RunRecord, facts: TrainingFacts, left_out: tuple[str, ...]) -> str:
    template = _templates().get_template("script.jinja")
    body = template.render(
        model=facts.model,
        data=facts.data,
        training=facts,
        argument=data_argument(facts.data),
        loading=loading_lines(facts.data),
        unpacked="*" if facts.data.form in ("memory", "turns") else "",
    )
    if facts.style == "terse":
        body = _DOCSTRINGS.sub("", body)
    imports = imports_of(body)
    return f"{head_of(run, facts, imports, left_out)}\n\n{imports}\n\n{body.rstrip()}\n"


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_template),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["literal"] = literal
    return environment


def _template(name: str) -> str:
    return (files("resources") / "script" / name).read_text(encoding="utf-8")
