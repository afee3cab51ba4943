"""Sections as a self-contained web page, in the style of a comparison's report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from engine import __version__
from engine.drawing.shapes import Drawing
from engine.experiment.experiment import Experiment
from engine.experiment.titles import setting_title
from engine.export.report.page import hidden, picture, rendered
from engine.export.sections.data import Saved
from engine.export.sections.section import Section
from engine.words.names import dataset_words
from engine.words.settings import applying_settings

PAGE_WIDTH = 926.0


@dataclass(frozen=True)
class PageFigure:
    """A picture of a section, with its title and a legend of samples and labels."""

    picture: Markup
    title: str = ""
    legend: tuple[tuple[Markup, str], ...] = ()


def page_figure(drawing: Drawing, title: str = "", legend: Sequence[tuple[Drawing, str]] = ()) -> PageFigure:
    """A drawing as a figure; the samples of its legend are drawings, too."""
    return PageFigure(
        picture(drawing), title, tuple((hidden(sample, "sample"), label) for sample, label in legend)
    )


def sections_page(
    record: Saved,
    title: str,
    experiments: Sequence[Experiment],
    sections: Sequence[Section],
    figures: Mapping[str, Sequence[PageFigure]],
    *,
    noun: str,
    warnings: Sequence[str] = (),
) -> str:
    """The page as text; it opens from a mail, in light and dark, and needs no scripts.

    `figures` are by the titles of their sections. Settings that differ between the experiments have all
    their values.
    """
    first = experiments[0]
    settings: dict[str, list[str]] = {}
    for experiment in experiments:
        for key, value in applying_settings(experiment).items():
            settings.setdefault(key, []).append(_text(value))
    return rendered(
        "sections.html",
        version=__version__,
        title=title,
        subject=" · ".join(
            (
                dataset_words(first.dataset),
                f"batch {first.batch_size:,}",
                record.device_name,
                f"{record.created.astimezone():%Y-%m-%d %H:%M}",
            )
        ),
        warnings=warnings,
        sections=sections,
        figures=figures,
        settings=[(setting_title(key), " / ".join(dict.fromkeys(texts))) for key, texts in settings.items()],
        nothing=f"No part of the {noun} was finished.",
        made=f"Made by Ammeter {__version__} from {noun} {record.id}.",
    )


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
