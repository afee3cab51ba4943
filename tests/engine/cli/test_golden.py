"""The words of the command line: the help of every command, and what those print that read what is saved."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.cli.app import VERBS, main
from engine.experiment.paths import store_path
from tests.engine.cli.test_results import saved
from tests.golden import Golden

__all__ = ["saved"]
KINDS = ("limit", "numerics", "profile", "sweep", "tune", "run")


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("TERMINAL_WIDTH", "110")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what a command prints, and its exit status."""
    capsys.readouterr()
    status = main(arguments)
    told = capsys.readouterr()
    lines = [f"$ ammeter {' '.join(arguments)}", told.out.rstrip()]
    if told.err:
        lines += ["--- stderr ---", told.err.rstrip()]
    return "\n".join([*lines, f"[exit status {status}]", ""])


def shape(value: Any) -> Any:
    """Return JSON with one element of each list, and without its figures."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value[:1]]
    return value


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_the_words_of_help(capsys: pytest.CaptureFixture[str], golden: Golden, verb: str) -> None:
    golden(printed(capsys, *filter(None, [verb]), "--help"), f"help-{verb or 'ammeter'}")


@pytest.mark.parametrize("kind", KINDS)
def test_the_words_of_a_saved_result(
    capsys: pytest.CaptureFixture[str], saved: dict[str, str], golden: Golden, kind: str
) -> None:
    key = saved[kind]
    as_json = printed(capsys, "show", key, "--json").splitlines()[1]
    texts = [printed(capsys, "show", key), json.dumps(shape(json.loads(as_json)), indent=1)]
    texts += [printed(capsys, "delete", key, "--yes")]
    golden("\n".join(texts), f"show-{kind}")


@pytest.mark.parametrize(
    "arguments",
    [
        ("results",),
        ("presets",),
        ("settings",),
        ("template",),
        ("machines", "list"),
        ("show", "no-such-id"),
        ("run", "--precision", "fp7"),
        ("run", "--set", "batch_size=none"),
        ("run", "--set", "no.such=1"),
        ("compare", "--preset", "none"),
        ("export", "no-such-id", "--to", "x.pdf"),
        ("limit", "--memory-gib", "0"),
        ("nothing",),
    ],
    ids="-".join,
)
def test_the_words_of_a_command(
    capsys: pytest.CaptureFixture[str], saved: dict[str, str], golden: Golden, arguments: tuple[str, ...]
) -> None:
    golden(printed(capsys, *arguments), "-".join(arguments).replace("=", "-").replace("--", ""))


def test_the_tables_of_a_database(saved: dict[str, str], golden: Golden) -> None:
    with closing(sqlite3.connect(store_path())) as opened:
        tables = [row[0] for row in opened.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")]
    golden("\n\n".join(sorted(tables)), "database")


TINY = ("--model", "small-cnn", "--dataset", "fashion", "--device", "cpu", "--steps", "60")
TINY += ("--batch-size", "32")
RUNS = {
    "run": ("run", *TINY, "--precision", "bf16"),
    "run-fails": ("run", *TINY, "--seed", "7"),
    "compare": ("compare", *TINY),
    "compare-repeats": ("compare", *TINY, "--repeats", "3"),
    # the second run of each side fails
    "compare-fails": (
        *("compare", *TINY, "--seed", "6", "--repeats", "2"),
        *("--require", "speed >= 1.05", "--require", "loss"),
    ),
    "compare-disturbed": ("compare", *TINY, "--seed", "9"),
    "limit": ("limit", *TINY[:6], "--precision", "fp32", "--precision", "bf16", "--memory-gib", "1"),
    "numerics": ("numerics", *TINY, "--precision", "fp16"),
    "profile": ("profile", *TINY, "--precision", "fp32", "--precision", "bf16"),
    "check": ("check", *TINY[:4]),
    "tune": ("tune", *TINY, "--change", "precision"),
    "sweep": ("sweep", *TINY[:8], "--sweep", "batch_size=32,64", "--sweep", "precision=fp32,bf16"),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_words_of_a_command_that_trains(
    capsys: pytest.CaptureFixture[str], home: Path, trains: None, golden: Golden, name: str
) -> None:
    # the time of this very search
    golden(re.sub(r" in \d+(\.\d)? s(econds)?", " in <seconds>", printed(capsys, *RUNS[name])), name)
