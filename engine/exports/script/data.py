"""How a script makes its batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.experiment import Experiment
from engine.exports.script.datasets import KNOWN, Colours, KnownDataset, Reader
from engine.exports.script.literals import LINE, call
from engine.problem import ProblemError, request_problem, unknown_name

Form = Literal["memory", "loaded", "turns", "text"]
_FORMS: dict[Reader, Form] = {
    "fake": "loaded",
    "folder": "loaded",
    "pictures": "turns",
    "tokens": "turns",
    "text": "text",
}
_RESIZED = 256 / 224


@dataclass(frozen=True)
class DataFacts:
    """The data of an experiment, as its script needs to know them. Sizes are in pixels a side."""

    experiment: Experiment
    known: KnownDataset

    @property
    def reader(self) -> Reader:
        return self.known.reader

    @property
    def form(self) -> Form:
        """How batches are made: from `memory` that holds it all, by a loader, in turns, or from text."""
        return _FORMS.get(self.reader, "memory")

    @property
    def seeds(self) -> bool:
        """Whether the order of an epoch is drawn from a seed of its own."""
        return self.form != "turns"

    @property
    def samples(self) -> int | None:
        """Of an epoch; None where only the folder of pictures says it."""
        return None if self.reader == "folder" else self.known.train_samples or self.experiment.samples

    @property
    def validates(self) -> bool:
        has_some = self.known.validation_samples > 0 or self.reader == "folder"
        return has_some and self.experiment.validation.every > 0

    @property
    def limit(self) -> int | None:
        """Samples to validate on, where that is not all."""
        limit, there = self.experiment.validation.limit, self.known.validation_samples
        return None if limit is None or (there and limit >= there) else limit

    @property
    def size(self) -> int:
        return self.experiment.image_size or self.known.image_size

    @property
    def resize_to(self) -> int | None:
        """The size that batches are brought to; pictures that are made or decoded have theirs already."""
        is_made = self.reader in ("fake", "folder")
        return None if is_made or self.size == self.known.image_size else self.size

    @property
    def resize_before(self) -> int:
        """The shorter side of a folder's pictures before their middle is cut out."""
        return round(_RESIZED * self.size)

    @property
    def channels(self) -> int:
        return self.known.channels

    @property
    def is_grey(self) -> bool:
        return self.known.channels == 1

    @property
    def repeats_grey(self) -> bool:
        return self.is_grey and self.experiment.model != "small-cnn"

    @property
    def colours(self) -> Colours | None:
        return self.known.colours

    @property
    def classes(self) -> int:
        """Of text: the vocabulary."""
        return self.experiment.num_classes or self.known.classes

    @property
    def length(self) -> int:
        """Of a sequence, in tokens."""
        return self.experiment.sequence_length

    @property
    def augments(self) -> bool:
        """Whether whole batches are shifted and flipped."""
        return self.experiment.data.augment and not self.loader_augments

    @property
    def loader_augments(self) -> bool:
        """Whether pictures are varied as they are decoded."""
        data = self.experiment.data
        return data.augment and self.reader == "folder" and not data.on_device

    @property
    def loader(self) -> str:
        """An expression for a loader of `draws`."""
        data = self.experiment.data
        settings = {"num_workers": str(data.workers)}
        if data.pin_memory and self.experiment.device.startswith(("cuda", "xpu")):
            settings["pin_memory"] = "True"
        decode = "made" if self.reader == "fake" else "decoded"
        named = {"batch_size": "None", "collate_fn": decode, **settings, "generator": "torch.Generator()"}
        return call(LINE - len("    loader = "), "DataLoader", "draws", **named)


def data_facts(experiment: Experiment) -> DataFacts:
    """The data of an experiment. Raises ProblemError for an unknown dataset or number of classes."""
    if experiment.dataset not in KNOWN:
        raise ProblemError(unknown_name("dataset", experiment.dataset, KNOWN, "dataset"))
    data = DataFacts(experiment, KNOWN[experiment.dataset])
    if data.reader == "folder" and not data.classes:
        message = "num_classes is not known yet: the run has not read its folder of pictures."
        raise ProblemError(request_problem(message, "Train it first.", key="num_classes"))
    return data
