"""How a race is written: as a still card or an animated picture, by the ending of the path."""

from __future__ import annotations

from pathlib import Path

from engine.exports.chart_names import ThemeName
from engine.exports.content import Content
from engine.exports.formats import Write
from resources.looks import DARK, LIGHT

RACE_SUFFIXES = (".png", ".svg", ".webp", ".gif")


def race_writer(suffix: str, theme: ThemeName = "dark") -> Write:
    """What writes the race to paths of that ending, one of `RACE_SUFFIXES`.

    The writer raises ProblemError where the runs have no race.
    """
    palette = DARK if theme == "dark" else LIGHT

    def write(content: Content, path: Path) -> None:
        # drawing takes libraries that who exports a table need not wait for
        from engine.exports import race_animation, race_still

        writers = {
            ".png": race_still.write_card_png,
            ".svg": race_still.write_card_svg,
            ".webp": race_animation.write_webp,
            ".gif": race_animation.write_gif,
        }
        writers[suffix](content, path, palette=palette)

    return write
