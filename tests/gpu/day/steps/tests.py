"""The tests of `tests/gpu`, one process per file, so that a hang or crash is limited to a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from day import reporting
from day.work import ROOT, StepError, Work

_FOLDER = ROOT / "tests" / "gpu"
_FIRST = ("training", "recipes", "limit", "data", "forecast")
"""By worth: what comes later is left out where the time is over."""
_ELSEWHERE = ("profile",)
"""In the step of that name."""
_OWN_SECONDS, _SLOW_SECONDS = 120.0, 480.0
PLUGINS = ("pytest_timeout", "pytestqt.plugin", "xdist.plugin", "day.reporting")
"""A machine may have others, which tests that hold every warning for an error would fail by."""
_SLOW = ("bf16", "fp16", "fp32")


@dataclass(frozen=True)
class Outcome:
    """Counts of tests that passed, were skipped, and failed or did not run; `words` names the last."""

    passed: int
    skipped: int
    bad: int
    words: str


def tests(work: Work) -> None:
    """Run all files but those of other steps, without the tests that compile ResNet-50."""
    names = [path.stem.removeprefix("test_").removesuffix("_cuda") for path in _FOLDER.glob("test_*_cuda.py")]
    rank = {name: place for place, name in enumerate(_FIRST)}
    ordered = sorted(set(names) - {*_ELSEWHERE}, key=lambda name: (rank.get(name, len(rank)), name))
    _tell(work, "tests", [_of_file(work, name) for name in ordered if work.has_time(30, name)])


def tests_slow(work: Work) -> None:
    """Run the tests that compile ResNet-50, one process per precision."""

    def of(which: str) -> Outcome:
        name = which.replace(" ", "-")
        return run_tests(work, name, _FOLDER, "-m", "slow", "-k", which, own_seconds=_SLOW_SECONDS)

    kinds = work.small(_SLOW, _SLOW[:1])
    with ThreadPoolExecutor(len(kinds)) as pool:
        _tell(work, "tests-slow", list(pool.map(of, kinds)))


def _of_file(work: Work, name: str) -> Outcome:
    return run_tests(work, name, _FOLDER / f"test_{name}_cuda.py", "-m", "not slow")


def _tell(work: Work, key: str, outcomes: Sequence[Outcome]) -> None:
    passed, skipped = sum(each.passed for each in outcomes), sum(each.skipped for each in outcomes)
    words = "; ".join(each.words for each in outcomes if each.words)
    work.report(key, sum(each.bad for each in outcomes), f"({passed} passed, {skipped} skipped) {words}")


def run_tests(
    work: Work,
    name: str,
    *arguments: str | Path,
    seconds: float | None = None,
    own_seconds: float = _OWN_SECONDS,
) -> Outcome:
    """Run tests in a process of their own, for no longer than is left.

    A rehearsal looks whether they are there; that they can be collected is shown by all tests.
    """
    if work.is_rehearsal:
        assert all((ROOT / word).exists() for word in arguments if "/" in str(word)), arguments
        return Outcome(0, 0, 0, f"{name}: not run")
    report = work.folder / f"{name}.jsonl"
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--tb=short", "-p", "no:cacheprovider"]
    command += [word for plugin in PLUGINS for word in ("-p", plugin)]
    room = work.left - 15 if seconds is None else seconds
    environment = {
        reporting.REPORT: str(report),
        reporting.SECONDS: str(own_seconds),
        reporting.LEFT: str(room),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join([str(_FOLDER), os.environ.get("PYTHONPATH", "")]),
    }
    try:
        done = work.run(*command, *map(str, arguments), seconds=room, environment=environment)
        print(done.stdout[-4_000:] if done.returncode else done.stdout[-400:], flush=True)
    except StepError as error:
        print(error, flush=True)
    found = reporting.read(report)
    if not found:
        raise StepError(f"no test was collected: {name}")
    for entry in found.values():
        if entry.is_bad:
            print(f"{entry.outcome}: {entry.test}\n    {entry.said[:300]}", flush=True)
    bad = [entry for entry in found.values() if entry.is_bad]
    outcomes = [entry.outcome for entry in found.values()]
    told = [entry.test.rpartition("::")[2] for entry in bad if entry.outcome != reporting.NOT_RUN]
    if len(bad) > len(told):
        told.append(f"{len(bad) - len(told)} not run")
    said = f"{name}: {', '.join(told)}" if bad else ""
    return Outcome(outcomes.count("passed"), outcomes.count("skipped"), len(bad), said)
