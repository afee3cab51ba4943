"""Tests that need a GPU, where there seems to be one: named, first and in one process, or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from tests import gpu_plugin

pytest_plugins = ["pytester"]

_TORCH = """
import os

class cuda:
    @staticmethod
    def is_available():
        return os.environ.get("CUDA_VISIBLE_DEVICES") != "" and "NO_GPU" not in os.environ
"""
_TEST = """
import os
import pytest
import torch

@pytest.mark.parametrize("number", range(4))
def test_it(number):
    where = "gpu" if torch.cuda.is_available() else ""
    with open({log!r}, "a") as log:
        print("{name}", os.getpid(), where, file=log)
"""

Run = Callable[..., tuple[pytest.RunResult, list[list[str]]]]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the project in small: what pytest says, and the words that each test has written, in order."""
    for name, text in {"gpu": "own", "benchmarks": "profile", "engine": "other"}.items():
        folder = pytester.path / "tests" / name
        folder.mkdir(parents=True)
        log = str(pytester.path / "log")
        (folder / f"test_{text}.py").write_text(_TEST.format(log=log, name=text), encoding="utf-8")
    shutil.copy(gpu_plugin.__file__, pytester.path / "tests" / "gpu_plugin.py")
    (pytester.path / "tests" / "conftest.py").write_text(
        'pytest_plugins = ["gpu_plugin"]\n', encoding="utf-8"
    )
    (pytester.path / "tests" / "torch.py").write_text(_TORCH, encoding="utf-8")
    pytester.makeini("[pytest]\ntestpaths = tests\naddopts = --import-mode=importlib -rs\n")
    monkeypatch.setenv("PYTHONPATH", str(pytester.path / "tests"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    # the others take longer to load than all the rest
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(*arguments: str) -> tuple[pytest.RunResult, list[list[str]]]:
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "xdist", *arguments)
        log = pytester.path / "log"
        return result, [line.split() for line in log.read_text().splitlines()] if log.exists() else []

    return run


def names(lines: list[list[str]]) -> list[str]:
    return [line[0] for line in lines]


@pytest.mark.parametrize("arguments", [(), ("-n", "2", "--dist", "worksteal")])
def test_unnamed_they_are_skipped_and_no_other_test_sees_the_gpu(
    run: Run, arguments: tuple[str, ...]
) -> None:
    result, lines = run(*arguments)
    assert not any("gpu" in line for line in lines) and "other" in names(lines)
    result.assert_outcomes(passed=8, skipped=4)
    result.stdout.fnmatch_lines([f"*{gpu_plugin.UNNAMED}*"])


def test_named_they_come_before_all_others_in_one_process(run: Run) -> None:
    result, lines = run("tests/benchmarks", "tests/engine", "tests/gpu/test_own.py::test_it")
    result.assert_outcomes(passed=12)
    assert names(lines) == ["own"] * 4 + ["profile"] * 4 + ["other"] * 4
    assert len({line[1] for line in lines}) == 1 and all("gpu" in line for line in lines[:4])


def test_workers_would_share_the_gpu(run: Run) -> None:
    result, lines = run("tests/gpu", "-n", "2")
    result.assert_outcomes(skipped=4)
    result.stdout.fnmatch_lines([f"*{gpu_plugin.IN_WORKERS}*"])
    assert not lines


def test_without_a_gpu_they_say_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_GPU", "1")
    result, lines = run("tests/gpu")
    result.assert_outcomes(skipped=4)
    result.stdout.fnmatch_lines([f"*{gpu_plugin.NO_GPU}"])
    assert not lines
