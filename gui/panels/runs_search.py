"""What the runs table's filter understands: words, and words with a key such as `tag:paper`. No Qt."""

from __future__ import annotations

import re
from collections.abc import Callable

from engine.experiment import Precision
from engine.records.record import Status
from gui.panels.recipe_names import recipe_title
from gui.panels.runs_line import Line
from gui.panels.runs_words import dataset_words, status_words

_PLACES: dict[str, Callable[[Line], str]] = {
    "name": lambda line: line.run.name,
    "tag": lambda line: "\n".join(line.run.tags),
    "note": lambda line: line.run.note,
    "model": lambda line: line.glance.model,
    "dataset": lambda line: dataset_words(line.glance.dataset, line.glance.image_size),
    "precision": lambda line: f"{line.glance.precision.value}\n{line.glance.precision.label}",
    "recipe": lambda line: recipe_title(line.glance.recipe),
    "batch": lambda line: str(line.glance.batch_size),
    "status": lambda line: f"{line.run.status.value}\n{status_words(line.run)}",
}
TIP = (
    "Shows the runs that have every word in their name, tags, note, model, dataset, precision, recipe or"
    " status. A key looks in one place alone: tag:paper, model:resnet50, precision:fp16, status:failed,"
    ' batch:64; quotes keep words together: tag:"figure 2".'
)

_TERM = re.compile(r'(?:(\w+):(?:"([^"]*)"?|(\S*)))|"([^"]*)"?|(\S+)')
_WHOLE = {
    "precision": frozenset(precision.value for precision in Precision),
    "status": frozenset(status.value for status in Status),
}


class Search:
    """A filter as it was typed; capitals make no difference, and an unknown key is a word like others."""

    def __init__(self, text: str = "") -> None:
        self._terms = tuple(_term(found) for found in _TERM.finditer(text.casefold()))

    def __call__(self, line: Line) -> bool:
        """Whether the run is one of those looked for."""
        return all(fits(line) for fits in self._terms)


def _term(found: re.Match[str]) -> Callable[[Line], bool]:
    key, *values = found.groups()
    value = next((part for part in values if part is not None), "")
    place = _PLACES.get(key or "")
    if place is None:
        wanted = f"{key}:{value}" if key else value
        return lambda line: wanted in line.words
    if value and (key == "batch" or value in _WHOLE.get(key, ())):
        # "fp16" is not to find what was trained unscaled, nor 64 what was trained with 640
        return lambda line: value in place(line).casefold().split("\n")
    return lambda line: bool(said := place(line)) and value in said.casefold()
