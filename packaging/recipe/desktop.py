"""Desktop integration: the program's entry, icons, file type, description and manual page."""

from __future__ import annotations

import gzip
import shutil
from datetime import UTC, datetime
from pathlib import Path

from engine import __version__
from engine.cli.app import parser
from recipe.icon import APP, icon_image, icon_svg
from recipe.source import ROOT, epoch

LINUX = ROOT / "packaging" / "linux"
_SIZES = (16, 22, 24, 32, 48, 64, 128, 256, 512)


def write_desktop(share: Path) -> None:
    """Write all files below `share`, such as /usr/share of a package."""
    _copy(f"{APP}.desktop", share / "applications")
    _copy(f"{APP}.xml", share / "mime" / "packages")
    _write(share / "metainfo" / f"{APP}.metainfo.xml", metainfo().encode())
    _write(share / "icons/hicolor/scalable/apps" / f"{APP}.svg", icon_svg().encode())
    for size in _SIZES:
        path = share / f"icons/hicolor/{size}x{size}/apps/{APP}.png"
        path.parent.mkdir(parents=True)
        icon_image(size).save(str(path))
    _write(share / "man/man1/ammeter.1.gz", gzip.compress(manual_page().encode(), mtime=0))


def metainfo() -> str:
    """Return the AppStream description of this version."""
    day = datetime.fromtimestamp(epoch(), UTC).date().isoformat()
    text = (LINUX / f"{APP}.metainfo.xml").read_text(encoding="utf-8")
    return text.replace("@VERSION@", __version__).replace("@DATE@", day)


def _copy(name: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    shutil.copy(LINUX / name, folder / name)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)


_FILES = (
    ("~/.local/share/Ammeter", "Saved runs, datasets, and the engine: PyTorch, which the program downloads."),
    ("~/.config/Ammeter", "Settings and your own presets."),
)


def manual_page() -> str:
    """Return the manual page in man(7) format."""
    program = parser()
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
