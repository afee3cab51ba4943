"""The words of every kind of result in every text that is exported of it."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from tests.engine.export.kinds.test_kinds import Made, made
from tests.golden import Golden

__all__ = ["made"]
KINDS = ("comparison", "limit", "numerics", "profile", "sweep", "tune")
SUFFIXES = (".md", ".json", ".csv", ".tex", ".html", ".svg")


def words(text: str) -> str:
    """Return the words of a page or a drawing, without what is hidden in it."""
    text = re.sub(r"(?s)<(style|script|defs)\b.*?</\1>|<!--.*?-->", " ", text)
    lines = (unescape(line).strip() for line in re.sub(r"<[^>]+>", "\n", text).splitlines())
    return "\n".join(line for line in lines if line)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("made", KINDS, indirect=True)
def test_the_words_of_an_export(
    made: Made, request: pytest.FixtureRequest, golden: Golden, tmp_path: Path, suffix: str
) -> None:
    folder = tmp_path / "golden"
    folder.mkdir()
    made.kind.export(made.result, folder / f"x{suffix}")
    texts = []
    for path in sorted(folder.iterdir()):
        text = path.read_text(encoding="utf-8")
        text = words(text) if path.suffix in (".html", ".svg") else text
        # samples are figures, which tests of the exports check
        texts.append(f"--- {path.name} ---\n" + "\n".join(text.splitlines()[:400]))
    golden("\n".join(texts), f"{request.node.callspec.params['made']}-{suffix[1:]}")
