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
_ALL = "all"
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
    if work.is_rehearsal:
        outcomes = [_of_files(work, _ALL, ordered)]
    else:
        outcomes = [_of_files(work, name, [name]) for name in ordered if work.has_time(30, name)]
    _tell(work, "tests", outcomes)


def tests_slow(work: Work) -> None:
    """Run the tests that compile ResNet-50, one process per precision."""

    def of(which: str) -> Outcome:
        name = which.replace(" ", "-")
        return run_tests(work, name, _FOLDER, "-m", "slow", "-k", which, own_seconds=_SLOW_SECONDS)

    kinds = work.small(_SLOW, _SLOW[:1])
    with ThreadPoolExecutor(len(kinds)) as pool:
        _tell(work, "tests-slow", list(pool.map(of, kinds)))


def _of_files(work: Work, name: str, files: Sequence[str]) -> Outcome:
    paths = [_FOLDER / f"test_{each}_cuda.py" for each in files]
    return run_tests(work, name, *paths, "-m", "not slow")


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

    A rehearsal collects the files of `tests`, and looks whether the others are there.
    """
    if work.is_rehearsal and name != _ALL:
        assert all((ROOT / word).exists() for word in arguments if "/" in str(word)), arguments
        return Outcome(0, 0, 0, f"{name}: not collected")
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
    words = [*command, *work.small([], ["--collect-only"]), *map(str, arguments)]
    try:
        done = work.run(*words, seconds=room, environment=environment)
        print(done.stdout[-4_000:] if done.returncode else done.stdout[-400:], flush=True)
    except StepError as error:
        print(error, flush=True)
    found = reporting.read(report)
    if not found:
        raise StepError(f"no test was collected: {name}")
    if work.is_rehearsal:
        return Outcome(0, 0, 0, f"{name}: {len(found)} collected")
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
