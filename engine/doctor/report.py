"""The checks as text for a bug report, which names neither the user nor the machine nor their folders."""

from __future__ import annotations

import getpass
import os
import re
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.experiment.paths import data_folder
from engine.installation.installed import engines_folder
from engine.protocol.events import Check

_MARKS = {"ok": "ok", "note": "note", "problem": "**problem**"}
_HIDDEN = "…"
_COMMON = frozenset({"root", "user", "users", "admin", "ammeter", "localhost", "home", "linux", "python"})
"""Names that identify nobody, and stand in sentences."""
_SYSTEM = ("/usr/", "/lib", "/dev/", "/etc/", "/bin", "/sbin", "/proc/", "/sys/")


@dataclass(frozen=True)
class Private:
    """Text kept out of the report: the user's home, names of the user and the machine, and other paths."""

    home: str
    names: tuple[str, ...]
    paths: tuple[str, ...]


def private_here(environment: Mapping[str, str] = os.environ) -> Private:
    """The private text of this user on this machine."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user without an entry
        user = ""
    host = socket.gethostname()
    values = (part for value in environment.values() for part in value.split(os.pathsep))
    own = (sys.prefix, sys.base_prefix, Path(__file__).parents[2], engines_folder(), data_folder())
    paths = (*values, *map(str, own))
    return Private(str(Path.home()), (user, host, host.partition(".")[0]), tuple(map(str.strip, paths)))


def report_text(checks: Sequence[Check], private: Private | None = None) -> str:
    """The checks as Markdown, without the user's names and paths."""
    private = private or private_here()
    lines = ["| Check | | Found | Remedy |", "| --- | --- | --- | --- |"]
    for check in checks:
        words = (check.name, _MARKS[check.status], check.detail, check.remedy)
        lines.append("| " + " | ".join(_cell(_without(text, private)) for text in words) + " |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


_PATH = re.compile(
    r"(?<![\w:/.~])(?:/[\w.+@%~-]+(?:/[\w.+@%~-]+)+/?|[A-Za-z]:[\\/][^\s'\"|;,]+|\\\\[^\s'\"|;,]+)"
)
_BELOW_HOME = re.compile(r"~[\\/][^\s'\"|;,]*")


def _without(text: str, private: Private) -> str:
    for path in _longest_first(path for path in private.paths if _is_private(path)):
        text = text.replace(path, _HIDDEN if not path.startswith(private.home) else "~")
    text = text.replace(private.home, "~") if len(private.home) > 1 else text
    text = _BELOW_HOME.sub("~", text)
    text = _PATH.sub(lambda match: match[0] if not _is_private(match[0]) else _HIDDEN, text)
    for name in _longest_first(private.names):
        if len(name) > 1 and name.lower() not in _COMMON:
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", _HIDDEN, text, flags=re.IGNORECASE)
    return text


def _is_private(path: str) -> bool:
    is_path = path.startswith("/") or bool(re.match(r"[A-Za-z]:[\\/]|\\\\", path))
    return is_path and len(path) > 3 and not path.startswith(_SYSTEM)


def _longest_first(texts: Iterable[str]) -> list[str]:
    return sorted(texts, key=len, reverse=True)
