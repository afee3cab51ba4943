"""The answer of a study: what is asked of experiments, and what is known of it so far."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from engine.experiment.experiment import Experiment
from engine.experiment.value import Message
from engine.words.names import dataset_words, listed

StudyKind = Literal["limit", "numerics", "profile", "tune"]


class Answer(Message):
    """The base of the kinds' own answers."""

    kind: ClassVar[StudyKind]

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        raise NotImplementedError

    @property
    def run_ids(self) -> tuple[str | None, ...]:
        """The saved runs that the experiments are of, as many as experiments; None where one is of no run."""
        return (None,) * len(self.experiments)

    @property
    def is_known(self) -> bool:
        """True once anything is known."""
        raise NotImplementedError

    @property
    def is_complete(self) -> bool:
        """True if nothing is left to be carried on."""
        return True

    def afresh(self) -> Self:
        """The same question, of which nothing is known."""
        raise NotImplementedError

    @property
    def digest(self) -> str:
        """The answer in a few words, for a list of studies; empty where there are none."""
        return ""

    @property
    def title(self) -> str:
        """The subject, such as "small-cnn on Fashion-MNIST, FP32 and FP16 AMP"."""
        first, *_ = self.experiments
        names = tuple(dict.fromkeys(experiment.precision.label for experiment in self.experiments))
        return f"{first.model} on {dataset_words(first.dataset)}, {listed(names)}"
