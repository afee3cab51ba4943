"""However many values of a text from outside are wrong, few errors are made of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import engine
from engine.experiment.catalog import Catalog
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.presets import broken_presets, parse_toml
from engine.experiment.problem import ProblemError
from engine.experiment.value import MOST_VALUES, Bounded, Message, check_size
from engine.export.archive.container import Manifest, RecordPart
from engine.machines.machine import Machines
from engine.machines.remote_worker import RemoteHeader
from engine.protocol import events, jobs
from engine.protocol.events import Environment

MANY = 20_000
WRONG_LIST = json.dumps(["x"] * MANY)
WRONG_TABLE = json.dumps(dict.fromkeys(map(str, range(MANY)), 1))


class _Tables(Message):
    lists: tuple[tuple[int, ...], ...] = ()
    tables: Mapping[str, int] = {}
    either: tuple[int | Environment, ...] = ()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (_Tables, f'{{"lists": [{WRONG_LIST}]}}'),
        (_Tables, f'{{"lists": {json.dumps([["x"]] * MANY)}}}'),
        (_Tables, f'{{"tables": {json.dumps(dict.fromkeys(map(str, range(9_000)), "x"))}}}'),
        (_Tables, f'{{"either": {WRONG_LIST}}}'),
        (_Tables, WRONG_TABLE),
        (_Tables, f'{{"either": [{WRONG_TABLE}]}}'),
        (Manifest, f'{{"runs": {WRONG_LIST}, "files": {json.dumps([{}] * MANY)}}}'),
        (RecordPart, f'{{"tags": {json.dumps([1] * MANY)}, "columns": {json.dumps([1] * MANY)}}}'),
        (Experiment, f'{{"overrides": {json.dumps([1] * MANY)}}}'),
        (Experiment, f'{{"step": {WRONG_TABLE}}}'),
        (Catalog, f'{{"models": {json.dumps([{}] * MANY)}}}'),
        (RemoteHeader, f'{{"at": {WRONG_LIST}}}'),
    ],
)
def test_many_wrong_values_are_few_errors(kind: type[Bounded], text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate_json(text)
    assert caught.value.error_count() < 100


@pytest.mark.parametrize("read", [events.from_line, jobs.from_line])
@pytest.mark.parametrize(
    "line",
    [
        f'{{"event": "samples", "job": "forecast", "step": {WRONG_LIST}}}',
        f'{{"event": "heartbeat", "job": "forecast", {WRONG_TABLE[1:]}',
        f'{{"event": "skipped", "job": "train", "steps": {json.dumps([0.5] * MANY)}}}',
    ],
)
def test_a_line_of_many_wrong_values_is_told_in_a_few_words(read: Callable[[bytes], Any], line: str) -> None:
    with pytest.raises(ValueError) as caught:
        read(line.encode())
    assert len(str(caught.value)) < 10_000


@pytest.mark.parametrize("text", ["[" + "0," * (MOST_VALUES + 1) + "0]", '{"a":0,' * 600_000, WRONG_TABLE])
def test_a_text_of_too_many_values_is_refused_before_it_is_read(text: str) -> None:
    for each in (text, text.encode()):
        with pytest.raises(ValidationError, match="too many values"):
            check_size(each)


def test_what_is_large_and_right_is_read() -> None:
    rows = {name: [1.0] * 60_000 for name in ("seconds", "loss", "samples_per_second", "learning_rate")}
    line = json.dumps({"event": "samples", "step": list(range(1, 60_001)), **rows})
    samples = events.from_line(line)
    assert isinstance(samples, events.Samples) and len(samples.step) == 60_000
    check_size(json.dumps([{"name": str(place), "is_large": True} for place in range(MANY)]))
    check_size(json.dumps({"text": "a: b, " * MANY}))


def test_settings_of_a_file_are_bounded_too(home: Path) -> None:
    with pytest.raises(ProblemError, match="a table with too many keys"):
        parse_toml("".join(f"a{place} = 1\n" for place in range(MANY)), "x.toml")
    with pytest.raises(ProblemError) as caught:
        experiment_from({"overrides": [1] * MANY, "data": {"workers": ["x"] * MANY}})
    assert len(caught.value.problems) < 10
    folder = home / "presets"
    folder.mkdir(parents=True)
    (folder / "wide.toml").write_text(f"title = 'x'\nexperiment = {{}}\nvariants = {[1] * MANY}\n")
    assert len(broken_presets()) == 1
    path = home / "machines.toml"
    path.write_text(f"machines = {[1] * MANY}\n")
    with pytest.raises(ProblemError, match="cannot be read"):
        Machines(path).all()


def test_every_value_that_the_engine_reads_is_bounded() -> None:
    files = Path(engine.__file__).parent.rglob("*.py")
    assert [file.name for file in files if "(BaseModel" in file.read_text()] == ["value.py"]
