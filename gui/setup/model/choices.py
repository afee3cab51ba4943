"""The entries of the model box: the user's own files, recent models, and the catalog."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from engine.experiment.checks import Catalog, ModelEntry
from engine.experiment.own.code import MODEL, Code
from engine.experiment.own.library_models import ModelRef
from engine.words.numbers import magnitude_text


class Row(NamedTuple):
    """A row of a search box's list: a value, and a fact about it at the right.

    A row with a `text` is an action instead: selecting it emits `SearchBox.picked` and does not edit the
    value.
    """

    value: str
    fact: str = ""
    text: str = ""

    @property
    def shown(self) -> str:
        return self.text or self.value


class ChoiceGroup(NamedTuple):
    """Rows of a search box's list under a heading, which may be "".

    During a search, groups are sorted by `turn`, lowest first.
    """

    heading: str
    rows: Sequence[Row]
    turn: int = 0


OPEN, NEW, CHECK = "\0open", "\0new", "\0check"
"""The values of the actions in the list. No model can have these names."""
_ACTIONS = {OPEN: "Open a file…", NEW: "New from template…", CHECK: "Check this model"}
_OFFERS = ChoiceGroup("", [Row(value, text=text) for value, text in _ACTIONS.items()], turn=1)

MOST_RECENT = 8


def with_recent(recent: Sequence[str], model: str) -> tuple[str, ...]:
    """Return the recently used models with another one added, newest first."""
    return (model, *(other for other in recent if other != model))[:MOST_RECENT]


def model_choices(catalog: Catalog, recent: Sequence[str], code: Code | None) -> list[ChoiceGroup]:
    """Return all groups of the box. `recent` has names and file paths, `code` is the selected file's."""
    groups = [_OFFERS]
    if code is not None and (models := models_in(code))[1:]:
        groups.append(ChoiceGroup(code.file, [Row(name) for name in models], turn=-2))
    entries = {entry.name: entry for entry in (*catalog.models, *catalog.library_models)}
    if recent:
        rows = []
        for name in recent:
            entry, ref = entries.get(name), ModelRef(name)
            if entry is not None:
                rows.append(Row(name, _size(entry)))
            elif ref.file is not None:
                place = Path(ref.file)
                rows.append(Row(name, short_folder(place.parent), ref.in_file(place.name)))
        groups.append(ChoiceGroup("Recent", rows, turn=-1))
    # by family, smallest first; unknown sizes are in the order of the catalog
    families: dict[str, list[ModelEntry]] = {}
    for model in entries.values():
        families.setdefault(model.family, []).append(model)
    for family, members in families.items():
        members.sort(key=lambda model: model.parameters or 0)
        groups.append(ChoiceGroup(family, [Row(model.name, _size(model)) for model in members]))
    return groups


def models_in(code: Code) -> tuple[str, ...]:
    """Return the models in a file: "net.py" if it defines `model()`, and "net.py:Net" for each class."""
    own = (code.file,) if MODEL in code.defines else ()
    return (*own, *(f"{code.file}:{name}" for name in code.classes))


def short_folder(folder: str | Path) -> str:
    """Return a folder for display: with ~ for the home folder, and only the last two parts of a long path."""
    place = Path(folder)
    try:
        shown = Path("~") / place.relative_to(Path.home())
    except (ValueError, RuntimeError):
        shown = place
    return str(shown) if len(str(shown)) <= _LONGEST_FOLDER else str(Path("…", *place.parts[-2:]))


_LONGEST_FOLDER = 28


def parameters_words(model: ModelEntry | None) -> str:
    """Return a model's size: "25.6 M parameters". Empty if unknown."""
    return "" if model is None or model.parameters is None else f"{_size(model)} parameters"


def _size(model: ModelEntry) -> str:
    return "" if model.parameters is None else magnitude_text(model.parameters)


def narrowed(groups: Iterable[ChoiceGroup], typed: str) -> list[ChoiceGroup]:
    """Return the rows that contain all typed words in their text or heading, best matches first, without
    duplicates.

    The order of matches: the full name, its start, the starts of its words, any part of it, the heading.
    """
    words = typed.casefold().split()
    if not words:
        return list(groups)
    # a number begins a word too: "resnet 50" finds resnet50
    starts = [re.compile(rf"(?:(?<![^\W_])|(?<!\d)(?=\d)){re.escape(word)}") for word in words]
    shown: set[str] = set()
    ranked: list[tuple[int, int, ChoiceGroup]] = []
    for group in groups:
        rows = [(rank, row) for rank, row in _ranked(group, words, starts) if row.value not in shown]
        if rows:
            rows.sort(key=itemgetter(0))
            shown.update(row.value for _, row in rows)
            ranked.append((group.turn, rows[0][0], group._replace(rows=[row for _, row in rows])))
    ranked.sort(key=itemgetter(0, 1))
    return [group for _, _, group in ranked]


_EXACT, _BEGINS, _BEGINS_WORDS, _INSIDE, _BY_HEADING = range(5)


def _ranked(
    group: ChoiceGroup, words: Sequence[str], starts: Sequence[re.Pattern[str]]
) -> Iterator[tuple[int, Row]]:
    heading, wholes = group.heading.casefold(), (" ".join(words), "".join(words))
    for row in group.rows:
        name = row.shown.casefold()
        text = f"{name} {heading}"
        if any(word not in text for word in words):
            continue
        if name in wholes:
            yield _EXACT, row
        elif name.startswith(words[0]) and len(words) == 1:
            yield _BEGINS, row
        elif all(start.search(name) for start in starts):
            yield _BEGINS_WORDS, row
        else:
            yield (_INSIDE if all(word in name for word in words) else _BY_HEADING), row
