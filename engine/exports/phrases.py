"""A verdict's sentence in its parts, so that a report can say the important ones louder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Phrase:
    """A piece of a sentence: a side's `title`, a `strong` figure, an `aside` in brackets, or `plain`."""

    text: str
    role: Literal["title", "strong", "aside", "plain"]


_PARTS = re.compile(
    r"(?P<strong>[\d.,]+ times (?:as fast|as slow|more)|[\d.,]+\s% of the memory)|(?P<aside>\([^()]*\))"
)


def phrases(sentence: str, title: str) -> tuple[Phrase, ...]:
    """The sentence, piece by piece; together the texts are the sentence again."""
    found: list[Phrase] = []
    rest = sentence
    if title and sentence.startswith(title):
        found.append(Phrase(title, "title"))
        rest = sentence[len(title) :]
    end = 0
    for match in _PARTS.finditer(rest):
        if match.start() > end:
            found.append(Phrase(rest[end : match.start()], "plain"))
        found.append(Phrase(match.group(), "strong" if match.group("strong") else "aside"))
        end = match.end()
    if rest[end:]:
        found.append(Phrase(rest[end:], "plain"))
    return tuple(found)
