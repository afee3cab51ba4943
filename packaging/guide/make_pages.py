"""Write the generated pages of the guide: contents, settings, commands and shortcuts.

    uv run python packaging/guide/make_pages.py [--check]

With `--check` nothing is written, and the exit status says whether the pages are up to date.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "resources" / "guide"
sys.path.insert(0, str(ROOT))

from engine.cli.app import parser  # noqa: E402
from engine.experiment.experiment import Experiment, all_settings, flattened  # noqa: E402
from engine.experiment.setting import Group  # noqa: E402
from engine.words.names import as_typed  # noqa: E402
from gui.help.browser import contents  # noqa: E402
from gui.help.dialog import shortcuts_text  # noqa: E402

_FORM = "The form"
_OPTIONS = ("Option", "What it does")
_SETTINGS = """# Settings

All settings of an experiment, as `ammeter settings` lists them. In a terminal, set one with
`--set KEY=VALUE`. In a TOML file, a dotted key is a key of its table. The headings are those of *More
options* in the form.
"""
_COMMANDS = """# Commands

All commands, as `ammeter --help` and `ammeter COMMAND --help` describe them. With `--json`, a command prints
exactly one JSON object.

| Exit status | Meaning |
| --- | --- |
| 0 | done |
| 1 | failed, or a requirement is not met |
| 2 | the request was wrong |
| 3 | a requirement is undecided |
| 4 | something you asked for is missing, such as a checkpoint on a full disk |
| 130 | interrupted by Ctrl+C |

## Options of an experiment

Every command that trains takes these options. A command may give one of them another meaning. Its own table
says so.

"""


def made_pages() -> Mapping[str, str]:
    """Return the text of each generated page, by its file name."""
    return {
        "README.md": _contents(),
        "settings.md": _settings(),
        "commands.md": _commands(),
        "shortcuts.md": _shortcuts(),
    }


def _shortcuts() -> str:
    # not every reader of Markdown knows all escapes
    text = re.sub(r"\\(?=\W)", "", shortcuts_text())
    return f"{text}\n\nOn macOS, press Command in place of Ctrl.\n"


def _contents() -> str:
    known = contents()
    lines = [f"# {known['title']}", "", known["intro"].strip()]
    for part in known["part"]:
        lines += ["", f"## {part['title']}", ""]
        lines += [f"- [{_title(name)}]({name}.md)" for name in part["pages"]]
    return "\n".join(lines) + "\n"


def _title(name: str) -> str:
    generated = {"settings": "Settings", "commands": "Commands", "shortcuts": "Shortcuts"}
    if name in generated:
        return generated[name]
    return (GUIDE / f"{name}.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _settings() -> str:
    defaults = flattened(Experiment())
    order = [_FORM, *Group]
    settings = sorted(all_settings().items(), key=lambda entry: order.index(_heading(entry[1])))
    text = _SETTINGS
    for heading, group in groupby(settings, key=lambda entry: _heading(entry[1])):
        rows = [(f"`{key}`", _about(setting, as_typed(defaults[key]))) for key, setting in group]
        text += f"\n## {heading}\n\n" + _table(("Key", "Setting"), rows)
    return text


def _heading(setting: Any) -> str:
    return _FORM if setting.group is None else setting.group


def _about(setting: Any, default: str) -> str:
    values = [value for value, _ in setting.choices if value not in ("", "true", "false")]
    parts = [f"**{setting.title}.** {setting.about}"]
    if values:
        parts.append(f"One of {', '.join(f'`{value}`' for value in values)}.")
    return " ".join([*parts, f"Default: `{default}`." if default else "Default: empty."])


def _commands() -> str:
    program = parser()
    shared = {_row(option) for option in program.commands["run"].params if _is_shared(option)}
    experiment = [row for row in map(_row, program.commands["run"].params) if row in shared]
    parts = [_COMMANDS + _table(_OPTIONS, experiment)]
    for name, command in _all_commands(program, "ammeter"):
        parts.append(_command(name, command, shared))
    return "\n".join(parts)


def _all_commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    for own, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from _all_commands(command, f"{name} {own}")
        elif not command.hidden:
            yield f"{name} {own}", command


def _command(name: str, command: Any, shared: set[tuple[str, str]]) -> str:
    options = [option for option in command.params if not getattr(option, "hidden", False)]
    rows = [row for row in map(_row, options) if row not in shared]
    paragraphs = (" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    text = "\n\n".join((f"## {name}", *paragraphs))
    takes = shared & set(map(_row, options))
    if len(takes) > 1:
        text += "\n\nIt also takes the options of an experiment" + (
            "." if takes == shared else f", except {_listed(name for name, _ in shared - takes)}."
        )
    return text.replace("|", "\\|") + "\n\n" + _table(_OPTIONS, rows)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _is_shared(option: Any) -> bool:
    return getattr(option, "rich_help_panel", None) == "Experiment"


def _row(option: Any) -> tuple[str, str]:
    flags = ", ".join(option.opts) if option.opts[0].startswith("-") else option.metavar
    value = f" {option.metavar}" if option.metavar and option.opts[0].startswith("-") else ""
    about = " ".join((getattr(option, "help", "") or "").split())
    has_number = type(option.default) in (int, float)
    return f"`{flags}{value}`", about + (f" Default: {option.default:g}." if has_number else "")


def _table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = [head, ("---", "---"), *((key, text.replace("|", "\\|")) for key, text in rows)]
    return "".join(f"| {key} | {text} |\n" for key, text in lines)


def main() -> int:
    """Write or compare the pages; return 1 if they differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare")
    is_check = parser.parse_args().check
    outdated = False
    for name, text in made_pages().items():
        path = GUIDE / name
        outdated |= not path.is_file() or path.read_text(encoding="utf-8") != text
        if not is_check:
            path.write_text(text, encoding="utf-8")
    return int(is_check and outdated)


if __name__ == "__main__":
    sys.exit(main())
