"""Results of the steps, merged over calls, as JSON and as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, Field

from day.figures import FIGURES

JSON_NAME, TABLE_NAME = "day.json", "day.md"


class Seen(BaseModel):
    """A value measured on `machine`, with an explanation in `detail`."""

    value: float
    detail: str = ""
    at: str = ""
    machine: str = ""


class Ended(BaseModel):
    """The end of a step: it failed with `problem`, or succeeded if that is empty."""

    seconds: float
    problem: str = ""
    at: str = ""


class Results(BaseModel):
    """Values by key and ends of steps by name; the latest counts."""

    is_rehearsal: bool = False
    figures: dict[str, Seen] = Field(default_factory=dict)
    steps: dict[str, Ended] = Field(default_factory=dict)

    def merge(self, later: Results) -> None:
        """Merge later results. A rehearsal's values mean nothing and never mix with others."""
        if later.is_rehearsal == self.is_rehearsal:
            self.figures |= later.figures
            self.steps |= later.steps

    def unreported(self) -> list[str]:
        """Return the keys that the steps that ran should have reported, and did not."""
        return [
            key
            for key, figure in FIGURES.items()
            if figure.step in self.steps and key not in self.figures and not figure.is_optional
        ]

    def markdown(self) -> str:
        """Return the tables of values and aims, and of steps."""
        return "\n".join(self._lines()) + "\n"

    def save(self, folder: Path) -> None:
        (folder / JSON_NAME).write_text(self.model_dump_json(indent=1), encoding="utf-8")
        (folder / TABLE_NAME).write_text(self.markdown(), encoding="utf-8")

    def _lines(self) -> Iterator[str]:
        yield "# A rehearsal, whose figures mean nothing" if self.is_rehearsal else "# What the card showed"
        for machine in dict.fromkeys(seen.machine for seen in self.figures.values()):
            yield f"\n{machine}"
        yield "\n| figure | aim | seen | | known of an H200 |\n| --- | --- | --- | --- | --- |"
        for key, figure in FIGURES.items():
            seen = self.figures.get(key)
            value = "" if seen is None else f"**{figure.text(seen.value)}** {seen.detail}".rstrip()
            cells = (figure.title, figure.aim, value, self.verdict(key), figure.known)
            yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
        yield "\n| step | seconds | |\n| --- | --- | --- |"
        for name, ended in self.steps.items():
            yield f"| {name} | {ended.seconds:,.0f} | {ended.problem or 'done'} |"

    def verdict(self, key: str) -> str:
        """ "met", "missed" or "not measured"."""
        seen = self.figures.get(key)
        if seen is None:
            return "not measured"
        return "met" if FIGURES[key].is_met(seen.value) else "missed"


def read(path: Path) -> Results:
    """Return the results in a file. Raises OSError, or ValueError if the file is invalid."""
    return Results.model_validate_json(path.read_text(encoding="utf-8"))
