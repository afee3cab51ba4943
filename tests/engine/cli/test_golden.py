"""The words of the command line: the help of every command, and what those print that read what is saved."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.cli import VERBS, main
from engine.experiment.paths import store_path
from engine.training.doctor import read_catalog
from engine.worker.launcher import Launcher
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


WORKER = """
if job["job"] == "catalog":
    say(event="catalog", catalog=json.loads(CATALOG))
    sys.exit()
asked = job["experiment"]
batch, is_mixed = asked["batch_size"], asked["precision"] == "bf16"
if job["job"] == "try":
    fits = batch <= 64 * (1 + is_mixed)
    trial = dict(batch_size=batch, fits=fits, steps=3, cause=None if fits else "memory")
    say(event="tried", budget_mib=1024.0, trial=dict(trial, peak_mib=7.0 * batch) if fits else trial)
    sys.exit()
speed = (1_000.0 + asked["seed"]) * (1.6 if is_mixed else 1.0) * min(batch, 64) / 32
count = asked["steps"]
steps = list(range(1, count + 1))
started()
say(event="samples", step=steps, seconds=[0.01 * step for step in steps], loss=[1.0 / step for step in steps],
    samples_per_second=[speed] * count, learning_rate=[0.1] * count)
say(event="epoch", epoch=1, step=count, seconds=1.0, train_loss=0.5, validation_accuracy=0.75)
if asked["seed"] == 7:
    say(event="failed", problem=dict(kind="nan", message="The loss is NaN.", remedy="Use BF16."))
    sys.exit()
say(event="finished", summary=dict(steps=count, samples_per_second=speed, step_ms=1e3 * batch / speed,
    peak_resident_mib=4.0 * batch, final_train_loss=0.5, final_validation_accuracy=0.75, seconds=1.0,
    speed_note="other programs used 40% of the CPU" if asked["seed"] == 9 else None))
"""
"""A worker that trains at known speeds. Seed 7 diverges, and seed 9 is disturbed."""
TINY = (
    "--model",
    "small-cnn",
    "--dataset",
    "fashion",
    "--device",
    "cpu",
    "--steps",
    "60",
    "--batch-size",
    "32",
)
RUNS = {
    "run": ("run", *TINY, "--precision", "bf16"),
    "run-fails": ("run", *TINY, "--seed", "7"),
    "compare": ("compare", *TINY),
    "compare-repeats": ("compare", *TINY, "--repeats", "3"),
    "compare-disturbed": ("compare", *TINY, "--seed", "9"),
    "limit": ("limit", *TINY[:6], "--precision", "fp32", "--precision", "bf16", "--memory-gib", "1"),
    "sweep": ("sweep", *TINY[:8], "--sweep", "batch_size=32,64", "--sweep", "precision=fp32,bf16"),
}


@pytest.fixture
def trains(scripted: Callable[..., Launcher], monkeypatch: pytest.MonkeyPatch) -> None:
    worker = WORKER.replace("CATALOG", repr(read_catalog().model_dump_json()))
    monkeypatch.setattr("engine.cli.session.launcher_for", lambda *_: scripted(worker))


@pytest.mark.parametrize("name", RUNS)
def test_the_words_of_a_command_that_trains(
    capsys: pytest.CaptureFixture[str], home: Path, trains: None, golden: Golden, name: str
) -> None:
    # the time of this very search
    golden(re.sub(r"trials in \d+\.\d s", "trials in <seconds>", printed(capsys, *RUNS[name])), name)
