"""The view of the communication between the devices of a profiled step."""

from __future__ import annotations

from collections.abc import Sequence

from engine.profile.exchange import (
    BY_DEVICE,
    BY_SIZE,
    DEVICE_HEADINGS,
    HOW_MEASURED,
    SIZE_HEADINGS,
    device_rows,
    exchange_sentences,
    size_rows,
)
from engine.protocol.profiles import Profiles
from gui.widgets import label
from gui.widgets.answer_page import AnswerPage, wrapped
from gui.widgets.boxes import Part
from gui.widgets.table import ResultTable
from gui.widgets.table.columns import word_columns


class DevicesView(AnswerPage):
    """Show how a run's devices communicate, device by device and by message size."""

    def __init__(self) -> None:
        super().__init__(
            "Devices",
            "How long do the devices communicate, and which one do the others wait for?",
            "Splits the step of each device into computing, overlapped and exposed communication, and "
            "waiting. This needs a profile of a run on multiple devices.",
            "Profile",
            "Profile a few steps with the form's settings",
        )

    def show_profiles(self, profiles: Profiles | None) -> None:
        """Show the communication in all profiles. For None, show the empty state."""
        if profiles is None or not (devices := device_rows(profiles)):
            self.show_empty()
            return
        answer, *more = exchange_sentences(profiles)
        parts: list[Part] = [wrapped(sentence, "body") for sentence in more]
        tables = ((BY_DEVICE, DEVICE_HEADINGS, devices), (BY_SIZE, SIZE_HEADINGS, size_rows(profiles)))
        for title, headings, rows in tables:
            if rows:
                parts += [label(title, "heading"), _table(title, headings, rows)]
        self.show_answer(answer, *parts, wrapped(HOW_MEASURED, "hint"))


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> ResultTable[Sequence[str]]:
    table = ResultTable(title, word_columns(headings, headings[1:], rows), whole=True, sorts=False)
    table.show_rows(rows)
    return table
