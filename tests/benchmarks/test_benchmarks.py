"""Each benchmark runs, at its smallest; its figures mean nothing then."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo.config
from PySide6.QtWidgets import QApplication

import engine.worker.launcher
from engine.worker.launcher import Launcher

# some start workers, each of which imports torch
pytestmark = [pytest.mark.timeout(300), pytest.mark.qt_log_ignore("This plugin does not support")]
FOLDER = Path(__file__).parent
IMPORTED_BY_OTHERS = ("by_hand", "planted", "planted_faults", "planted_models", "side_by_side", "within")
SMALLEST: dict[str, list[str]] = {
    "accuracy": ["--seeds", "1", "--steps", "2", "--precision", "fp32"],
    "attribution": ["--model", "resnet18", "--quick"],
    "check_time": ["--model", "small-cnn", "--image-size", "32", "--repeats", "1", "--precision", "fp32"],
    "broken_files": ["--only", "no such file"],
    "compare": ["2", "200", "2"],
    "diagnosis_off": ["--device", "cpu", "--rounds", "1", "--steps", "12"],
    "diagnosis_time": ["--model", "small-cnn", "--batch-size", "4", "--repeats", "1"],
    "energy": ["--device", "cpu", "--seconds", "0.2", "--size", "16"],
    "export": ["--steps", "100", "--form", "markdown"],
    "fastest": ["--model", "small-cnn", "--kinds", "checkpointing", "--repeats", "1", "--quick"],
    "false_alarms": ["--runs", "1", "--steps", "2"],
    "first_step": ["--repeats", "1", "--arm", "ready"],
    "forecast": ["--device", "cpu", "--model", "small-cnn", "--precision", "fp32"],
    "hf_types": ["--type", "gpt2", "--steps", "2", "--device", "cpu"],
    "interval_coverage": ["--comparisons", "2"],
    "long_runs": ["500"],
    "loop_tax": ["--model", "small-cnn", "--rounds", "2", "--steps", "2"],
    "model_box": ["--names", "20"],
    "own_files": ["--rounds", "1", "--steps", "1"],
    "packaged_start": ["--repeats", "1"],
    "peaks": ["--device", "cpu", "--rounds", "1", "--size", "64"],
    "planted_faults": ["--only", "log of zero"],
    "planted_islands": ["--modules", "6", "--seeds", "1", "--steps", "2"],
    "probe": ["--device", "cpu", "--model", "small-cnn", "--precision", "fp32", "--seconds", "0"],
    "range_slider": ["5", "2"],
    "repaint": ["200", "2"],
    "runs_table": ["--runs", "20"],
    "search_memory": ["--failures", "1"],
    "setup_kills": ["--kills", "2", "--files", "5"],
    "show": ["2", "--not-saved"],
    "step_bar": ["--device", "cpu", "--model", "small-cnn", "--precision", "fp32", "--repeats", "1"],
    "start": ["--repeats", "1"],
    "sweep_kills": ["--kills", "2", "--cells", "2", "--repeats", "1"],
    "sweep_time": ["--device", "cpu", "--grid", "steps", "--cells", "1", "--steps", "16"],
    "sweep_views": ["--cells", "12"],
    "telemetry_tax": ["--device", "cpu", "--pairs", "2", "--steps", "2", "--recipe", "plain"],
    "timm_models": ["--name", "test_resnet", "--steps", "2", "--device", "cpu"],
    "verdicts": ["--device", "cpu", "--only", "copies"],
    "window_tax": ["--pairs", "1", "--steps", "6"],
}


def test_none_is_forgotten() -> None:
    scripts = {path.stem for path in FOLDER.glob("*.py")} - {*IMPORTED_BY_OTHERS, Path(__file__).stem}
    assert scripts == set(SMALLEST) - {*IMPORTED_BY_OTHERS}


@pytest.mark.parametrize("name", SMALLEST)
def test_it_runs_at_its_smallest(
    name: str,
    qapp: QApplication,
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *SMALLEST[name]])
    monkeypatch.syspath_prepend(str(FOLDER))
    # a benchmark may set what it pleases there; threads gain nothing on so little, and wait for each other
    monkeypatch.setattr(os, "environ", {**os.environ, "OMP_NUM_THREADS": "1"})
    share(launcher, monkeypatch)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        # a compiler takes longer than all the benchmarks
        with torch._dynamo.config.patch(disable=True):
            runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
        for module in IMPORTED_BY_OTHERS:
            sys.modules.pop(module, None)
    assert capsys.readouterr().out.count("\n") >= 2, "it prints a table"


def share(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the benchmark use workers that are at the ready, unless it brings its own."""

    class Shared(Launcher):
        def __new__(cls, *args: Any, **settings: Any) -> Launcher:
            return launcher if cls is Shared and not settings else super().__new__(cls)

    monkeypatch.setattr(engine.worker.launcher, "Launcher", Shared)
