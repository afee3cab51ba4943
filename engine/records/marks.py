"""What a user writes on a saved run: its name, its tags and its note."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable

from engine.problem import ProblemError, request_problem
from engine.records import turns

MOST_TAGS = 20
LONGEST_TAG = 40
LONGEST_NOTE = 10_000

_GAPS = re.compile(r"[\s\x00-\x1f\x7f-\x9f,]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def cleaned_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags as they are kept: without commas and gaps, each of them once, whichever way it is capitalised.

    Raises ProblemError for one that is too long, and for too many.
    """
    kept: dict[str, str] = {}
    for tag in tags:
        words = _GAPS.sub(" ", tag).strip()
        if len(words) > LONGEST_TAG:
            message = f"The tag “{words[:20]}…” has {len(words):,} characters."
            raise ProblemError(request_problem(message, f"Use at most {LONGEST_TAG}.", key="tags", value=tag))
        if words:
            kept.setdefault(words.casefold(), words)
    if len(kept) > MOST_TAGS:
        message = f"{len(kept):,} tags are more than a run may have."
        raise ProblemError(request_problem(message, f"Use at most {MOST_TAGS}.", key="tags"))
    return tuple(kept.values())


def cleaned_note(note: str) -> str:
    """A note as it is kept: lines without control characters. Raises ProblemError if too long."""
    text = _CONTROLS.sub("", note.replace("\r\n", "\n").replace("\r", "\n")).strip()
    if len(text) > LONGEST_NOTE:
        message = f"The note has {len(text):,} characters."
        raise ProblemError(request_problem(message, f"Use at most {LONGEST_NOTE:,}.", key="note"))
    return text


def cleaned_name(name: str) -> str:
    """A name as it can be kept: bytes of the command line that are no text become question marks."""
    return name.encode("utf-8", "replace").decode("utf-8").strip()


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
