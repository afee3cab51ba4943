"""*Run demo* in the real window on the GPU: its seconds, pages, replay and exports."""

from __future__ import annotations

import os
from contextlib import nullcontext
from unittest.mock import patch

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import show as benchmark
from PySide6.QtWidgets import QApplication

from day.work import AMMETER, StepError, Work
from engine.experiment.catalog import Catalog
from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.race.race import Race
from engine.race.showcase import Showcase
from engine.store.store import Store
from gui.demo import measurement
from gui.theme.theme import set_reduced_motion, theme
from gui.window.app import make_application
from gui.window.main_window import MainWindow

_EXPORTS = ("race.webp", "report.html", "report.pdf", "table.md", "runs.ammeter")
_EXPORT_SECONDS = 60.0


def show(work: Work) -> None:
    """Press *Run demo* in a new store and plays the race to its end; then exports the two runs."""
    application = make_application([])
    # what the desktop asks for must not cut the race short
    set_reduced_motion(False)

    def look(window: MainWindow, page: str) -> None:
        for mode in ("dark", "light"):
            theme().set_mode(mode)
            QApplication.processEvents()
            window.grab().save(str(work.folder / f"{page}-{mode}.png"))

    small = patch.multiple(measurement, showcase=_small_case)
    with Store() as store, work.launcher() as launcher, small if work.is_rehearsal else nullcontext():
        shown = benchmark.show_me(store, launcher, work.folder, work.left - 60, look)
    application.processEvents()
    work.report("show", shown.seconds, _ratio_words(shown.race))
    for name in _EXPORTS[:: work.small(1, -1)][: work.small(len(_EXPORTS), 1)]:
        if work.has_time(_EXPORT_SECONDS, name):
            _export(work, shown.run_ids, name)


def _ratio_words(race: Race) -> str:
    """Return the ratio with its interval; without repeats it is the one within the two runs."""
    if race.ratio is None:
        return f"(no ratio: {race.verdict.sentence})"
    if race.verdict.speedup_ci is not None:
        low, high = race.verdict.speedup_ci
        return f"({race.ratio:.2f}, {low:.2f} to {high:.2f})"
    summaries = [lane.side.runs[0].summary for lane in race.lanes]
    full, mixed = (None if one is None else one.samples_per_second_ci for one in summaries)
    if full is None or mixed is None:
        return f"({race.ratio:.2f}, without an interval)"
    return f"({race.ratio:.2f}, {mixed[0] / full[1]:.2f} to {mixed[1] / full[0]:.2f} within the two runs)"


def _export(work: Work, run_ids: tuple[str, ...], name: str) -> None:
    target = work.folder / name
    done = work.run(*AMMETER, "export", *run_ids, "--to", target, seconds=_EXPORT_SECONDS)
    if done.returncode:
        raise StepError(f"{name} was not written: {done.stderr.strip()[-300:]}")
    print(f"{name}: {target.stat().st_size / 1e6:.2f} MB", flush=True)


def _small_case(_: Catalog) -> Showcase:
    """Return a pair that is trained in a moment."""
    settings = {
        "model": "small-cnn",
        "dataset": "fashion",
        "batch_size": 4,
        "steps": 24,
        "measure": {"warmup_steps": 2, "block_steps": 2},
        "validation": {"every": 0},
        "device": "cpu",
    }
    full: Experiment = experiment_from(settings)
    mixed = full.model_copy(update={"precision": Precision.BF16})
    return Showcase("Demo", (("FP32", full), ("BF16 AMP", mixed)), "A rehearsal.")
