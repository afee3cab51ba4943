"""The version has one place, and its section of the changelog."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from engine import __version__

ROOT = Path(__file__).parents[2]


def test_the_package_takes_its_version_from_the_engine() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "engine/__init__.py"


def test_the_newest_section_of_the_changelog_is_this_versions_and_all_others_are_released() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest, *others = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert re.fullmatch(rf"{re.escape(__version__)}, (unreleased|\d{{4}}-\d\d-\d\d)", newest)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+, \d{4}-\d\d-\d\d", other) for other in others)
