"""The template of a workload file, for a model of the user's own."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from engine.export.files import place

TEMPLATE_NAME = "my_model.py"


def write_template(path: Path, *, force: bool = False) -> Path:
    """Writes the template and returns its path, which gets the ending .py. Raises ProblemError.

    Without `force` an existing file stays: TakenError.
    """
    target = path.with_suffix(".py")
    text = (files("resources") / "template" / TEMPLATE_NAME).read_text(encoding="utf-8")
    with place(target, force=force) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return target
