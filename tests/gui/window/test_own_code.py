"""The window shows runs of a model's own file, and never runs that file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from pytestqt.qtbot import QtBot

from engine.experiment.experiment import experiment_from
from engine.experiment.own.code import read_code
from engine.protocol.events import Environment, Finished, Started, Summary
from engine.store.store import Store
from gui.compare.panel import SettingsCard
from gui.window.main_window import MainWindow

FILE = """import sys

sys.modules["was_run"] = sys


def model():
    raise SystemExit


def batch(size):
    raise SystemExit
"""
MACHINE = Environment(
    device_name="A card", device_memory_mib=1.0, torch="2.11", python="3.12", os="Linux", ammeter="0.1"
)


def test_a_window_starts_with_such_runs_and_compares_them(
    start: Callable[[], MainWindow], store: Store, tmp_path: Path, qtbot: QtBot
) -> None:
    (tmp_path / "net.py").write_text(FILE, encoding="utf-8")
    code = read_code(tmp_path / "net.py")
    for precision, folder in (("fp32", code.folder), ("bf16", "/elsewhere")):
        kept = code.model_copy(update={"folder": folder}).to_json()
        experiment = experiment_from(
            {"model": "net.py", "code": kept, "dataset": "own", "precision": precision}
        )
        run = store.add(experiment)
        store.begin(run.id)
        begin = Started(
            experiment=experiment,
            environment=MACHINE,
            total_steps=1,
            steps_per_epoch=1,
            parameters=1,
            loss_name="loss",
            loss_unit="",
        )
        store.record(run.id, [begin, Finished(summary=Summary(steps=1, samples_per_second=1.0))])
    window = start()
    window.runs.set_checked([run.id for run in store.runs()])
    window.show_page("results")
    (settings,) = window.findChildren(SettingsCard)
    qtbot.waitUntil(lambda: len(settings.texts()) > 0)
    assert settings.texts()[0][0] == "Precision"
    assert "was_run" not in sys.modules
