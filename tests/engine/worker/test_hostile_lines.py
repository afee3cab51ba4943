"""A worker may say anything: whatever its lines hold, the run ends, in a sentence, and can be read again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from copy import deepcopy
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, ProblemError
from engine.protocol.events import Event, Failed, to_line
from engine.runner import Runner
from engine.store.store import Store
from engine.worker.site import HERE, Item, WorkerExited, parse_line
from engine.worker.supervision import ProcessSession, Timeouts
from tests.engine.conftest import started_of

STARTED = json.loads(to_line(started_of(Experiment(precision="fp16"), 9, 9)))
SAMPLES = {
    "event": "samples",
    "step": [1, 2],
    "seconds": [0.1, 0.2],
    "loss": [1.0, 0.5],
    "samples_per_second": [9.0, 9.0],
    "learning_rate": [0.1, 0.1],
    "grad_scale": [1.0, 1.0],
}
EPOCH = {"event": "epoch", "epoch": 1, "step": 2, "seconds": 0.2, "train_loss": 0.7}
PROBLEM = {"kind": "internal", "message": "It broke.", "remedy": "Mend it."}
SUMMARY = {"steps": 2, "seconds": 0.2, "samples_per_second": 9.0, "peak_resident_mib": 5.0, "recipe": "plain"}
TEMPLATES: tuple[dict[str, Any], ...] = (
    STARTED,
    SAMPLES,
    EPOCH,
    {**EPOCH, "validation_accuracy": 0.5},
    {"event": "phase", "name": "measuring", "fraction": 0.5, "detail": "so"},
    {"event": "skipped", "steps": [1]},
    {"event": "heartbeat", "step": 2},
    {"event": "log", "message": "Well.", "step": 1},
    {"event": "pictures", "jpeg": "AAAA", "side": 8, "count": 1},
    {"event": "examined", "checks": [{"name": "a", "status": "ok", "detail": "b"}]},
    {"event": "finished", "summary": SUMMARY},
    {"event": "finished", "summary": {"steps": 0}, "stopped": True},
    {"event": "failed", "problem": PROBLEM, "detail": "Trace", "summary": SUMMARY},
    {"event": "failed", "problem": {**PROBLEM, "kind": "out-of-memory"}},
)
DEEP: Any = 0
for _ in range(500):
    DEEP = [DEEP]
HOSTILE = (
    *(0, -1, 2**53, 2**53 + 1, 2**63, 2**64, 10**400, -(10**400), 1.5, 1e308, -1e308, 5e-324),
    *("NaN", "Infinity", "", "x" * 20_000, "[/x] \x1b]0;t\x07\x9b2J", "\ud800", None, True, [], {}, DEEP),
    *([1] * 20_000, [2**70], ["NaN"] * 2, {"a": 10**400}),
)
RAW = (b"", b"[" * 50_000, b'{"event": "heartbeat", "step": 1' + b"0" * 5_000 + b"}", b"\xff\xfe", b"{}")


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in a tree of JSON."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in pairs:
        yield (*path, key)
        yield from places(value, (*path, key))


PLACES = tuple(tuple(places(template)) for template in TEMPLATES)


def line_of(chance: Random) -> bytes:
    """An event in which up to two values are others than they should be, or what is no event."""
    if chance.random() < 0.05:
        return chance.choice(RAW)
    number = chance.randrange(len(TEMPLATES))
    event = deepcopy(TEMPLATES[number])
    for _ in range(chance.randrange(3)):
        *way, last = chance.choice(PLACES[number])
        inner: Any = event
        for key in way:
            # what stood there may have been changed before
            inner = dict(enumerate(inner)).get(key) if isinstance(inner, list) else inner.get(key)
            if not isinstance(inner, list | dict):
                break
        else:
            if isinstance(inner, dict) or last in range(len(inner)):
                inner[last] = chance.choice(HOSTILE)
    return json.dumps(event).encode()


class Said:
    """In place of a worker process: what it said, and then its end."""

    pid, stderr_tail = 1, "its last words"
    is_away, is_waiting, place, delay_seconds = False, False, None, 0.0

    def __init__(self, said: Iterable[bytes]) -> None:
        self._items = iter([*map(parse_line, said), WorkerExited()])

    def next_item(self, timeout_seconds: float) -> Item:
        return next(self._items)

    def send(self, request: object) -> None:
        """It does not listen."""

    def kill(self) -> None:
        """It is none."""

    forget = kill_orphans = kill

    def close(self) -> int:
        return 1


def runner_of(store: Store, said: Iterable[bytes]) -> Runner:
    start = lambda job, keep=None: ProcessSession(Said(said), job, Timeouts())  # noqa: E731
    return Runner(store, SimpleNamespace(start=start, site=HERE))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store(tmp_path_factory.mktemp("hostile") / "ammeter.sqlite") as opened:
        yield opened


def ending(store: Store, said: Iterable[bytes]) -> Event:
    """How the run ends of a worker that says this; nothing of it is left running or unreadable."""
    run_id = store.add(Experiment()).id
    *_, last = runner_of(store, said).run(run_id)
    found, unreadable = store.listing()
    assert not unreadable
    if isinstance(last, Failed):
        assert last.problem.message.strip() and len(last.problem.message) <= 10_000
    for run in found:
        assert run.status.is_over and run.summary is not None and run.experiment is not None
        assert json.dumps(run.to_dict(), allow_nan=False)
        assert store.events(run.id) and store.summary_so_far(run.id) is not None
        store.samples(run.id)
    store.remove([run.id for run in found])
    return last


@pytest.mark.slow
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**32))
def test_whatever_a_worker_says_its_run_ends(store: Store, seed: int) -> None:
    chance = Random(seed)
    first = [json.dumps(STARTED).encode()] if seed % 4 else []
    said = [line_of(chance) for _ in range(chance.randrange(7))]
    assert ending(store, [*first, *said]).event in ("finished", "failed")


@pytest.mark.parametrize(
    "line",
    [
        {**STARTED, "steps_per_epoch": 0},
        {**STARTED, "total_steps": 2**63},
        {**SAMPLES, "step": [1, 2**64]},
        {**SAMPLES, "step": [1, 2**53 + 1]},
        {**SAMPLES, "seconds": [0.1, "NaN"]},
        {**SAMPLES, **{name: values * 32_769 for name, values in SAMPLES.items() if name != "event"}},
        {**EPOCH, "seconds": "Infinity"},
        {"event": "skipped", "steps": [10**400]},
        {"event": "finished", "summary": {"steps": 2**70}},
        {"event": "examined", "checks": []},
    ],
    ids=lambda line: line["event"],
)
def test_what_is_out_of_bounds_fails_the_run_in_a_sentence(store: Store, line: dict[str, Any]) -> None:
    last = ending(store, [json.dumps(STARTED).encode(), json.dumps(line).encode()])
    assert isinstance(last, Failed) and last.problem.kind is Kind.PROTOCOL
    assert "sent" in last.problem.message and len(last.problem.message) < 400


def test_losses_beyond_any_sum_are_summed_up(store: Store) -> None:
    for losses in ([1e308, 1e308], ["Infinity", "-Infinity"]):
        said = [STARTED, {**SAMPLES, "loss": losses}]
        assert isinstance(ending(store, [json.dumps(line).encode() for line in said]), Failed)


def test_an_answer_to_another_job_is_none(store: Store) -> None:
    said = json.dumps({"event": "examined", "checks": []}).encode()
    with pytest.raises(ProblemError, match="does not answer its job"):
        runner_of(store, [said]).catalog()


def test_a_line_without_an_end_is_not_read_to_it(store: Store) -> None:
    last = ending(store, [json.dumps(STARTED).encode(), b'{"event": "log", "message": "' + b"x" * 2**25])
    assert isinstance(last, Failed) and "33,554,432 bytes" in last.detail
    assert len(last.problem.message) < 400


def test_what_is_told_is_shown_and_never_obeyed() -> None:
    told = {"event": "log", "message": "\x1b]0;title\x07 \x9b2J and\r\nmore\x00"}
    event = parse_line(json.dumps(told).encode())
    assert getattr(event, "message", None) == "\ufffd]0;title\ufffd \ufffd2J and\nmore\ufffd"
