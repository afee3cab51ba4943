"""Check: two small batches on the CPU through the model and loss of an experiment, without training it."""

from __future__ import annotations

import time

from engine.experiment.experiment import Experiment
from engine.protocol.findings import Checked
from engine.training.checks.subject import Subject, subject_of
from engine.training.checks.tree import Tree, described
from engine.training.doctor import read_catalog
from engine.training.models.build import count_parameters
from engine.training.precision import autocast
from engine.training.prepare import Plan


def check(experiment: Experiment) -> Checked:
    """The findings on an experiment's model. Touches no device but the CPU, and saves nothing.

    Raises ProblemError where the experiment cannot run here.
    """
    began = time.perf_counter()
    plan = Plan(experiment, read_catalog())
    subject = subject_of(plan)
    tree = Tree(subject.model)
    outputs, loss = _passed(subject, plan, tree)
    return Checked(
        tree=tree.rows(),
        parameters=count_parameters(subject.model),
        inputs=described(subject.batch(0)[0]),
        outputs=outputs,
        loss=loss,
        seconds=time.perf_counter() - began,
    )


def _passed(subject: Subject, plan: Plan, tree: Tree) -> tuple[str, str]:
    """Forward and backward; what the model returned and its loss in words."""
    inputs, targets = subject.batch(0)
    with autocast(plan.experiment.precision, subject.device):
        with tree.watching():
            outputs = subject.model(inputs)
        loss = subject.loss(outputs, targets)
    loss.backward()  # type: ignore[no-untyped-call]
    return described(outputs), described(loss)
