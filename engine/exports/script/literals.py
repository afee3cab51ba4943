"""Values as Python source, which cannot end in anything but that value."""

from __future__ import annotations

from typing import Any

LINE = 110
"""The longest line of a script, in characters."""


def literal(value: Any) -> str:
    """A number, a text, a flag, or a tuple of these, as source; texts in double quotes where they can be."""
    if isinstance(value, tuple):
        parts = [literal(part) for part in value]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    shown = repr(value)
    if isinstance(value, str) and shown.startswith("'") and '"' not in shown:
        return f'"{shown[1:-1]}"'
    return shown


def call(room: int, function: str, *arguments: str, **named: str) -> str:
    """A call as source, whose arguments are source too; over several lines if it is longer than `room`."""
    parts = [*arguments, *(f"{name}={value}" for name, value in named.items())]
    listed = ", ".join(parts)
    if len(function) + len(listed) + len("()") <= room:
        return f"{function}({listed})"
    if len(listed) <= room:
        return f"{function}(\n    {listed}\n)"
    return f"{function}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def sentence_of(text: str, most: int = 90) -> str:
    """A text of a person's for a docstring: on one line, visible, and unable to end it."""
    visible = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(visible.split())
    if len(line) > most:
        line = line[: most - 1].rstrip() + "…"
    return line.replace("\\", "\\\\").replace('"', '\\"')
