"""The manual page ammeter(1), from the help of the command line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import typer

from engine import __version__
from engine.cli.app import _app
from recipe.source import epoch

_FILES = (
    ("~/.local/share/Ammeter", "Saved runs, datasets, and the engine: PyTorch, which the program downloads."),
    ("~/.config/Ammeter", "Settings and your own presets."),
)


def manual_page() -> str:
    """The page in the language of man(7)."""
    # click is inside typer, whose parameters have no public type
    program: Any = typer.main.get_command(_app())
    day = datetime.fromtimestamp(epoch(), UTC).date().isoformat()
    lines = [
        f'.TH AMMETER 1 "{day}" "Ammeter {__version__}" "User Commands"',
        ".SH NAME",
        "ammeter \\- measure what mixed\\-precision training in PyTorch gains",
        ".SH SYNOPSIS",
        ".B ammeter",
        '.RI [ VERB " [" OPTIONS "] | " FILE .ammeter]',
        ".SH DESCRIPTION",
        "Without a verb, ammeter opens its window; with an archive, it imports the archive there.",
        *_text(program.help),
        ".SH VERBS",
    ]
    verbs = {name: verb for name, verb in program.commands.items() if not verb.hidden}
    for name, verb in verbs.items():
        lines += [f".SS {name}", *_text(verb.help)]
        for parameter in verb.params:
            told = getattr(parameter, "help", None)
            if told and not getattr(parameter, "hidden", False):
                names = [*parameter.opts, *parameter.secondary_opts]
                title = (
                    ", ".join(names)
                    if parameter.param_type_name == "option"
                    else (parameter.metavar or parameter.name)
                )
                lines += [".TP", f".B {_escaped(title)}", *_text(told)]
    lines.append(".SH FILES")
    for place, told in _FILES:
        lines += [".TP", f".I {_escaped(place)}", *_text(told)]
    return "\n".join(lines) + "\n"


def _text(text: str | None) -> list[str]:
    """Paragraphs; a line that begins with a dot or an apostrophe would be a command."""
    lines: list[str] = []
    for paragraph in (text or "").replace("\b", "").strip().split("\n\n"):
        words = _escaped(" ".join(paragraph.split()))
        lines += ([".PP"] if lines else []) + [f"\\&{words}" if words[:1] in ".'" else words]
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-").replace("’", "'").replace("…", "...")
