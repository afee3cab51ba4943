"""Which rows of a list a typed text finds, and in which order. No Qt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple


class Row(NamedTuple):
    """A value, a fact about it, shown at the right, and its text where that is not the value itself.

    A row with a text of its own is an offer: choosing it is `SearchBox.picked` and no edit.
    """

    value: str
    fact: str = ""
    text: str = ""

    @property
    def shown(self) -> str:
        return self.text or self.value


class Group(NamedTuple):
    """Rows under a heading, which may be empty.

    While text is typed, a group of an earlier `turn` stands before those of a later one.
    """

    heading: str
    rows: Sequence[Row]
    turn: int = 0


def narrowed(groups: Iterable[Group], typed: str) -> list[Group]:
    """The rows in which, or in whose heading, all typed words occur; the best first, and none twice.

    Best is the name itself, then its beginning, the beginnings of its words, anything inside it, and last the
    heading.
    """
    words = typed.casefold().split()
    if not words:
        return list(groups)
    # a number begins a word too: "resnet 50" finds resnet50
    starts = [re.compile(rf"(?:(?<![^\W_])|(?<!\d)(?=\d)){re.escape(word)}") for word in words]
    shown: set[str] = set()
    ranked: list[tuple[int, int, Group]] = []
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
    group: Group, words: Sequence[str], starts: Sequence[re.Pattern[str]]
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
