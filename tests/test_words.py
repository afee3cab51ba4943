"""Text that a user reads keeps to the words of CONTRIBUTING.md, section *Words*."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
INSTEAD = {
    r"(graphics )?cards?": "GPU",
    r"processors?": "CPU",
    r"tells?|told|telling": "report, show, print",
    r"pictures?": "image (data), chart or screenshot (drawn)",
    r"made[- ]up": "synthetic, random",
    r"(go|goes|going|went) on": "continue, resume",
    r"figures?": "metric, number, result",
    r"(?<!ammeter )(?<![/.])engine(?![./])": "PyTorch",
    r"parts? from|parts at step": "diverges from",
    r"rungs?|ladders?": "precision, divergence test",
    r"grad scale": "loss scale",
    r"products?": "matmul",
    r"few(er)? bits|so many bits": "8-bit, 4-bit, low-bit",
    r"rests": "is paused",
    r"anew": "again",
    r"in force": "applied, active",
    r"hardly": "barely, little",
    r"in turns|takes? turns": "alternating",
    r"exactness|fineness": "precision, resolution",
    r"short(er)? (formats?|numbers?)|half-length": "lower precision, 16-bit",
    r"waits? for the (device|card)": "synchronizes with the GPU",
    r"exchang\w*": "synchronize gradients (all-reduce)",
    r"another machine": "remote machine",
    r"not clean|with caution|nothing follows|allow no conclusion": "not reliable, Caution:",
    r"\w*(normalis|initialis|utilis|organis|recognis|synchronis)\w*": "US spelling",
    r"\w*(colour|behaviour|licence|centre\b|grey)\w*": "US spelling",
    r"per cent": "percent",
    r"(?<!there )(is|are) no (?!longer|larger|more|less)\w+": "is not a",
    r"beside": "next to, with, relative to",
    r"wholly": "entirely",
    r"mends?": "fix",
    r"(un)?tick(s|ed)?": "select",
    r"pro(ve|ves|ven|of|ofs|ved)": "verify",
    r"(left|leaves?) out": "skipped, excluded",
    r"verbs?": "command",
    r"for ever": "forever",
}
"""A pattern of words, and what the field says instead."""
ANY = re.compile(rf"\b(?:{'|'.join(INSTEAD)})\b|\d[\s\u00a0\u202f]%(?!\}})", re.IGNORECASE)
PATTERNS = {words: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for words in INSTEAD}
PATTERNS[" %"] = re.compile(r"\d[\s\u00a0\u202f]%(?!\})")
RIGHT = {
    r"(?<!ammeter )(?<![/.])engine(?![./])": "engine/machines/program.py engine/training/runs/trial.py",
    r"(graphics )?cards?": "gui/sweep/panel.py",  # a card of the window
    r"processors?": "engine/installation/hardware.py engine/machines/ssh.py",  # keys of other programs
    r"figures?": "engine/cli/engine.py engine/cli/session.py engine/export/report/report.py "
    "resources/guide/commands.md",  # keys
    r"pictures?": "engine/export/formats.py",  # a module
    r"few(er)? bits|so many bits": "resources/guide/bf16-weights.md resources/guide/kernels-and-roofline.md",
    r"products?": "engine/training/profile/kernels.py resources/guide/profile-a-step.md "
    "resources/guide/optimizations.md resources/guide/reading-the-result.md resources/guide/scaling.md",
    r"exchang\w*": "resources/guide/commands.md",  # a value of an option
    r"another machine": "resources/guide/not-reliable.md",  # a different one, not a remote one
}
"""The files in which a word is right."""
NOT_READ = re.compile(
    r"SELECT |INSERT |UPDATE |DELETE |CREATE |PRAGMA|<path|<svg|\{ color|background:|\\[dwsS]|\(\?|QPush|px; "
)


def pages() -> Iterator[tuple[str, str]]:
    for pattern in ("README.md", "resources/guide/**/*.md", "resources/script/**/*.jinja"):
        for path in sorted(ROOT.glob(pattern)):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for path in sorted(ROOT.glob("resources/presets/*.toml")):
        said = re.findall(r"(?m)^\s*(?:title|about|label)\s*=.*$", path.read_text(encoding="utf-8"))
        yield str(path.relative_to(ROOT)), "\n".join(said)


@cache
def literals(path: Path) -> tuple[str, ...]:
    """Return the strings of a module that a user may read: no docstrings, keys or addresses."""
    texts = strings(ast.parse(path.read_text(encoding="utf-8")))
    read = (text for text in texts if re.search(r"[A-Za-z]{2}[ .,]|^[A-Z][a-z]+…?$", text))
    return tuple(text for text in read if not NOT_READ.search(text))


def strings(tree: ast.AST) -> Iterator[str]:
    """Yield the strings of a tree, but documentation, keys and what is a part of another string."""
    left = [(tree, True)]
    while left:
        node, is_read = left.pop()
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and is_read:
            yield node.value
        is_documentation = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_read &= not (is_documentation or isinstance(node, ast.Subscript | ast.JoinedStr))
        for value in vars(node).values():
            children = value if isinstance(value, list) else (value,)
            left += [(child, is_read) for child in children if isinstance(child, ast.AST)]


def departures(file: str, text: str) -> Iterator[str]:
    bare = re.sub(r"\]\([^)]*\)|`[^`]*`", " ", text)
    for words, pattern in PATTERNS.items() if ANY.search(bare) else ():
        if (found := pattern.search(bare)) and file not in RIGHT.get(words, "").split():
            yield f"{file}: “{found[0]}” in “{' '.join(text.split())[:90]}”: {INSTEAD.get(words, '87%')}"


def test_pages_use_the_fields_words() -> None:
    lines = ((file, line) for file, text in pages() for line in text.splitlines())
    assert [each for file, line in lines for each in departures(file, line)] == []


@pytest.mark.parametrize("package", ["gui", "engine"])
def test_strings_use_the_fields_words(package: str) -> None:
    found = [
        each
        for path in sorted((ROOT / package).rglob("*.py"))
        for text in literals(path)
        for each in departures(str(path.relative_to(ROOT)), text)
    ]
    assert not found, "\n".join(found)


def test_the_window_has_no_semicolons() -> None:
    paths = sorted((ROOT / "gui").rglob("*.py"))
    assert [text for path in paths for text in literals(path) if re.search(r"\w; \w", text)] == []
