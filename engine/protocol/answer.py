"""The answer of a study: its experiments and its results so far."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from engine.experiment.experiment import Experiment
from engine.experiment.value import Message
from engine.words.names import dataset_words, listed

StudyKind = Literal["limit", "numerics", "profile", "tune"]


class Answer(Message):
    """The base class of the saved result of a study, with its experiments. Each kind of study has its own."""

    kind: ClassVar[StudyKind]

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        raise NotImplementedError

    @property
    def run_ids(self) -> tuple[str | None, ...]:
        """The saved run of each experiment, or None."""
        return (None,) * len(self.experiments)

    @property
    def is_known(self) -> bool:
        """True once there is any result."""
        raise NotImplementedError

    @property
    def is_complete(self) -> bool:
        """True if the study is finished."""
        return True

    def afresh(self) -> Self:
        """Return the same study without results."""
        raise NotImplementedError

    @property
    def digest(self) -> str:
        """The answer in a few words for a list of studies, empty without one."""
        return ""

    @property
    def title(self) -> str:
        """The subject, such as "small-cnn on Fashion-MNIST, FP32 and FP16 AMP"."""
        first, *_ = self.experiments
        names = tuple(dict.fromkeys(experiment.precision.label for experiment in self.experiments))
        return f"{first.model} on {dataset_words(first.dataset)}, {listed(names)}"
