"""The text, tables and charts of an export, created once per kind of result, for any format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from engine import __version__
from engine.compare.sides import Side
from engine.compare.verdict import Pieces, join_pieces
from engine.drawing.chart_parts import LegendEntry
from engine.drawing.shapes import Drawing
from engine.experiment.experiment import Experiment, Precision, setting_title
from engine.experiment.value import in_sentence
from engine.protocol.advice import Advice, Changes
from engine.protocol.ranges import module_title
from engine.words.names import applying_settings, dataset_words, setting_text

Cells = tuple[str, ...]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Picture:
    """A chart in a document, drawn for a given width, with a title, a `note` and a legend.

    If a document has several charts, an image export writes the further ones to `x-NAME.png`.
    """

    name: str
    draw: Callable[[float], Drawing]
    title: str = ""
    note: str = ""
    legend: tuple[LegendEntry, ...] = ()


@dataclass(frozen=True)
class MetricText:
    """The text of a metric in a table: value, `relation` to the baseline, and uncertainty of the relation.

    Without `is_sound` the relation is not meaningful, and `interval` is the reason. With `is_inconclusive`
    there is no significant difference.
    """

    value: str
    relation: str = ""
    interval: str = ""
    is_sound: bool = True
    is_inconclusive: bool = False

    def __str__(self) -> str:
        return self.value


class CellText(str):
    """The text of a table cell, with the `value` that it is sorted by. None sorts last.

    A window draws the marker of a precision or the icon `mark` before it, stresses it if it `is_strong`, and
    grays it if it `is_faint`, and draws a `bar` after it, from -1 (to the left) to 1.
    """

    value: Any
    mark: Precision | str | None
    is_strong: bool
    is_faint: bool
    bar: float | None

    def __new__(
        cls,
        text: str,
        value: Any = ...,
        *,
        mark: Precision | str | None = None,
        is_strong: bool = False,
        is_faint: bool = False,
        bar: float | None = None,
    ) -> CellText:
        """Return the text, which by default is sorted by itself."""
        cell = super().__new__(cls, text)
        cell.value = text if value is ... else value
        cell.mark, cell.is_strong, cell.is_faint, cell.bar = mark, is_strong, is_faint, bar
        return cell


@dataclass(frozen=True)
class Action:
    """A button of a section in the window: its text and tooltip, and the command `name` with a `value`."""

    text: str
    tooltip: str
    name: str
    value: Any = None


Cell = str | MetricText
Part = Literal["answer", "setup", "appendix"]


@dataclass(frozen=True)
class Section:
    """A section of a document: sentences, charts, a table, `pairs` of names and values, and notes.

    The columns in `right` are right-aligned numbers. A web page omits the table if the charts show all of it
    (`is_drawn`). With `is_code`, sentences are code to be copied. The `part` "setup" describes the setup of
    the result, and an "appendix" is only on web pages. `template` renders the section on a web page.

    The window shows the section in the `tab` of that title, with buttons for its `actions`. An interactive
    `widget` of that name replaces the pictures and the table there.
    """

    title: str
    sentences: tuple[str, ...] = ()
    headings: Cells = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    right: Cells = ()
    notes: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    part: Part = "answer"
    template: str = "section.html"
    is_drawn: bool = False
    is_code: bool = False
    tab: str = ""
    widget: str = ""
    actions: tuple[Action, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if only the window shows a part of the section: its widget or its buttons."""
        has_any = self.sentences or self.rows or self.pairs or self.notes or self.pictures
        return not has_any and self.template == "section.html"

    def first_rows(self, most: int) -> tuple[tuple[tuple[Cell, ...], ...], int]:
        """Return at most `most` rows, and the number of omitted rows."""
        return self.rows[:most], max(0, len(self.rows) - most)


@dataclass(frozen=True)
class Conclusion:
    """The conclusion at the start of a document in one sentence, and notes in small print below it.

    A comparison has one for each `side`. Empty notes are skipped.
    """

    side: Side | None
    pieces: Pieces
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The verdict and the notes as running text."""
        return " ".join(
            f"{text.removesuffix('.')}." for text in (join_pieces(self.pieces), *self.notes) if text
        )


@dataclass(frozen=True)
class Document:
    """A result as titled sections, from which every export format is written.

    `subject` is the training, with place and time. It starts with its `answers`, in a comparison one per
    side. If it `is_named`, its title stands above them. `nothing` is shown if there are no sections,
    `undrawn` in place of a chart.
    `tables` are the full data as rows, by the ending of the file to write. The ending "" is the exported file
    itself, which without such an entry contains the sentences. `values` are the JSON object, `facts` the
    metadata of an image, with the `foot` below it. A page shows at most `most_rows` rows of a table.
    """

    title: str
    subject: str
    sections: tuple[Section, ...]
    made: str
    where: str = ""
    answers: tuple[Conclusion, ...] = ()
    warnings: tuple[str, ...] = ()
    is_named: bool = False
    nothing: str = ""
    tables: Mapping[str, Callable[[], Iterable[Row]]] = field(default_factory=dict)
    values: Callable[[], Mapping[str, Any]] = dict
    facts: Mapping[str, Any] = field(default_factory=dict)
    foot: tuple[str, ...] = ()
    most_rows: int = 200
    undrawn: str = "There is nothing to draw yet."

    @property
    def pictures(self) -> tuple[Picture, ...]:
        return tuple(picture for section in self.sections for picture in section.pictures)


class Saved(Protocol):
    """The fields that every saved result has. `ammeter` is the version that created it."""

    @property
    def id(self) -> str: ...
    @property
    def created(self) -> datetime: ...
    @property
    def device_name(self) -> str: ...
    @property
    def ammeter(self) -> str | None: ...


def document_of(
    saved: Saved,
    noun: str,
    title: str,
    experiments: Sequence[Experiment],
    sections: Iterable[Section],
    *,
    values: Callable[[], Mapping[str, Any]],
    size: str = "",
    has_batch: bool = True,
    **more: Any,
) -> Document:
    """Return the document of a saved result. Settings that differ between its experiments list all values.

    `values` follow the keys that all JSON objects have. `size` starts the subject ("24 combinations"). A
    result that is itself a batch size does not list one (`has_batch`).
    """
    known = tuple(sections)
    texts: dict[str, dict[str, None]] = {}
    for experiment in experiments:
        for key, value in applying_settings(experiment).items():
            if has_batch or key != "batch_size":
                texts.setdefault(key, {})[setting_text(key, value)] = None
    settings = tuple((setting_title(key), " / ".join(shown)) for key, shown in texts.items())
    batches = {experiment.batch_size for experiment in experiments}
    subject = (
        size,
        dataset_words(experiments[0].dataset),
        f"batch {batches.pop():,}" if has_batch and len(batches) == 1 else "",
        saved.device_name,
        f"{saved.created.astimezone():%Y-%m-%d %H:%M}",
    )
    head = {
        "ammeter": __version__,
        # the version that made the result; null if unknown
        "made_with": saved.ammeter,
        "id": saved.id,
        "created": saved.created.isoformat(),
        "device": saved.device_name,
    }
    return Document(
        title,
        " · ".join(filter(None, subject)),
        (*known, Section("Settings", pairs=settings, part="setup")),
        f"Made by Ammeter {__version__} from {noun} {saved.id}",
        is_named=bool(more.get("answers")),
        nothing="" if known else f"No part of the {noun} was finished.",
        values=lambda: {**head, **values()},
        **{"facts": dict(settings), **more},
    )


_SWITCHES = {"true": "on", "false": "off"}
ADVICE_TAB, _USE = "Advice", "Use these settings"


def use_action(changes: Changes, text: str = _USE) -> tuple[Action, ...]:
    """Return the button that puts changes of settings into the form. Empty without changes."""
    if not changes:
        return ()
    return (Action(text, f"Put into the form: {in_sentence(changes_words(changes))}", "use", changes),)


def advice_sections(
    given: Iterable[tuple[str, Advice]], none: str = "", *, tab: str = ADVICE_TAB
) -> tuple[Section, ...]:
    """Return a section for each piece of advice in `given`, or a section with the sentence `none` if there is
    no advice. Each piece comes with the precisions or other subject that it applies to, or "".
    """
    found = tuple(_advice_section(what, item, tab) for what, item in given)
    return found or ((Section(ADVICE_TAB, (none,), tab=tab),) if none else ())


def _advice_section(what: str, item: Advice, tab: str) -> Section:
    pairs = (
        ("For", what),
        ("Modules", names_words(item.modules) if item.modules else ""),
        ("Change", changes_words(item.changes)),
    )
    return Section(
        item.message.removesuffix("."),
        (item.evidence,),
        pairs=tuple(pair for pair in pairs if pair[1]),
        tab=tab,
        actions=use_action(item.changes, item.action or _USE),
    )


def changes_words(changes: Changes) -> str:
    """Return the settings by their titles: "Modules kept in FP32: fc · Precision: BF16 AMP"."""
    return " · ".join(
        f"{setting_title(key)}: {setting_text(key, _SWITCHES.get(text, text)) or 'none'}"
        for key, text in changes
    )


def names_words(names: Sequence[str], most: int = 8) -> str:
    """Return at most `most` names of modules, and the number of others. Return "none" without any."""
    more = len(names) - most
    shown = ", ".join(map(module_title, names[:most]))
    return f"{shown} and {more:,} more" if more > 0 else shown or "none"
