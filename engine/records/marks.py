"""What a user writes on a saved run: its name, its tags and its note."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable

from engine.problem import ProblemError, request_problem
from engine.records import turns
from engine.text import one_line, printable, shortened

MOST_TAGS = 20
LONGEST_TAG = 40
LONGEST_NOTE = 10_000
LONGEST_NAME = 1_000

_GAPS = re.compile(r"[\s,]+")


def cleaned_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags as they are kept: without commas and gaps, each of them once, whichever way it is capitalised.

    Raises ProblemError for one that is too long, and for too many.
    """
    kept: dict[str, str] = {}
    for tag in tags:
        words = _GAPS.sub(" ", one_line(tag)).strip()
        if len(words) > LONGEST_TAG:
            message = f"The tag “{shortened(words, 21)}” has {len(words):,} characters."
            raise ProblemError(request_problem(message, f"Use at most {LONGEST_TAG}.", key="tags", value=tag))
        if words:
            kept.setdefault(words.casefold(), words)
    if len(kept) > MOST_TAGS:
        message = f"{len(kept):,} tags are more than a run may have."
        raise ProblemError(request_problem(message, f"Use at most {MOST_TAGS}.", key="tags"))
    return tuple(kept.values())


def cleaned_note(note: str) -> str:
    """A note as it is kept: lines, of which each can be shown. Raises ProblemError if too long."""
    text = printable(note).strip()
    if len(text) > LONGEST_NOTE:
        message = f"The note has {len(text):,} characters."
        raise ProblemError(request_problem(message, f"Use at most {LONGEST_NOTE:,}.", key="note"))
    return text


def cleaned_name(name: str) -> str:
    """A name as it is kept: on one line that can be shown, and not endless."""
    return shortened(name.strip(), LONGEST_NAME)


def rename(connection: sqlite3.Connection, run_id: str, name: str) -> None:
    """Gives a run another name. Raises ProblemError for none."""
    if not cleaned_name(name):
        raise ProblemError(request_problem("name is empty.", "Give the run a name.", key="name", value=name))
    turns.row_of(connection, run_id)
    connection.execute("UPDATE runs SET name = ? WHERE id = ?", (cleaned_name(name), run_id))


def set_tags(connection: sqlite3.Connection, run_id: str, tags: Iterable[str]) -> None:
    """Gives a run these tags and no others."""
    kept = json.dumps(cleaned_tags(tags), ensure_ascii=False)
    turns.row_of(connection, run_id)
    connection.execute("UPDATE runs SET tags = ? WHERE id = ?", (kept, run_id))


def set_note(connection: sqlite3.Connection, run_id: str, note: str) -> None:
    """Gives a run a note in place of the one that it has; an empty one takes that away."""
    kept = cleaned_note(note)
    turns.row_of(connection, run_id)
    connection.execute("UPDATE runs SET note = ? WHERE id = ?", (kept, run_id))
