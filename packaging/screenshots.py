"""Take the README's screenshots from the real window: every place and page, and each state of a comparison.

    uv run python packaging/screenshots.py [FOLDER] [--steps N] [--size 1440x900] [--seconds 600]

Without a display it draws offscreen. Runs and settings go to a folder that is thrown away. It ends with an
error where something does not come within `--seconds`.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from functools import partial
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pytest
from PySide6.QtWidgets import QApplication

from engine.export.kinds.numerics import TITLES
from engine.installation import installed
from engine.installation.builds import builds_for
from engine.installation.description import Description
from engine.installation.hardware import Gpu, Hardware, Vendor
from engine.installation.installed import State
from engine.installation.installer import Installer
from engine.installation.request import InstallPlan, InstallRequest, Package
from engine.protocol.tune import CHANGE_KINDS
from engine.store.store import Store
from engine.worker.launcher import Launcher, try_out
from gui.theme.theme import theme
from gui.window.app import make_application, run_until
from gui.window.main_window import MainWindow
from gui.window.remembered import Settings

ROOT = Path(__file__).parent.parent
GRANULARITY, LIMIT_GIB = 32, "0.25"
"""Of the pictured limit: few trials, so that it takes a minute and not ten."""
GPU_STEPS = 15_000
"""The preset's own are over in a second there, before anybody could take a picture of the run."""
REPEATS = "3"
SWEEP_STEPS = 60
"""The fewest that give a speed."""
TUNED_KINDS = 2
"""Of all kinds of settings: the whole search takes an hour on a CPU."""
WRONG_MODEL = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4),
        )
        self.head = nn.Linear(1568, 10)

    def forward(self, x):
        x = self.features(x)
        return self.head(x.flatten(1))
"""
START_SECONDS = 120.0
ENGINE_PACKAGES = 21
ENGINE_FOLDER = "/home/you/.local/share/Ammeter/engine"
WORKSTATION = Hardware(
    system="linux",
    machine="x86_64",
    processor="AMD Ryzen 9 7950X",
    gpus=(Gpu(Vendor.NVIDIA, "NVIDIA GeForce RTX 4090", (8, 9)),),
    nvidia_driver="580.65",
    cuda_of_driver=(13, 0),
)
"""A constructed machine: the engine of the machine that takes the pictures is there already."""


def grab(application: QApplication, window: MainWindow, folder: Path, name: str) -> None:
    """Save an image in each theme."""
    for mode in ("dark", "light"):
        theme().set_mode(mode)
        window.live.refresh()
        for _ in range(3):
            application.processEvents()
        window.grab().save(str(folder / f"{name}-{mode}.png"))


def show_setup(application: QApplication, folder: Path, size: tuple[int, int]) -> None:
    """Show the page *Install PyTorch* for a constructed machine. Nothing is downloaded."""
    builds = builds_for(WORKSTATION)
    found = Description(state=State.ABSENT, folder=ENGINE_FOLDER, hardware=WORKSTATION, builds=builds)

    class Constructed(Installer):
        def describe(self) -> Description:
            return found

        def plan(self, wanted: InstallRequest) -> InstallPlan:
            build = found.builds[0]
            size_bytes = build.download_bytes or 0
            packages = (Package("torch", "2.15.0"),) * ENGINE_PACKAGES
            sizes = (size_bytes, False, 2 * size_bytes, 0, 200 * 2**30)
            return InstallPlan(wanted, build.backend, "2.15.0", packages, Path(ENGINE_FOLDER), *sizes)

    make_installer = partial(Constructed, Path(ENGINE_FOLDER), try_out)
    with pytest.MonkeyPatch.context() as patch, Store() as store:
        patch.setenv("AMMETER_ENGINE", ENGINE_FOLDER)
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
            patch.delenv(name, raising=False)
        patch.setattr(installed, "has_own_torch", lambda: False)
        window = MainWindow(store, Launcher(), Settings.load(), make_installer=make_installer)
        window.resize(*size)
        window.show()
        try:
            page = window.engine.page
            run_until(lambda: page.begin_button.isEnabled(), within_seconds=START_SECONDS)
            grab(application, window, folder, "engine")
        finally:
            window.close_without_asking()


def take(
    application: QApplication, window: MainWindow, folder: Path, steps: int | None, seconds: float
) -> None:
    run_until(window.setup.run_action.isEnabled, within_seconds=START_SECONDS)
    catalog = window.experiments.catalog
    assert catalog is not None  # the button waits for it
    if steps is None and catalog.has_gpu:
        steps = GPU_STEPS
    if steps is not None:
        form = window.setup.form
        form.length.unit.edited.emit("steps")
        form.length.setText(str(steps))
        form.length.edited.emit(str(steps))
    window.setup.question_box.list.open()
    grab(application, window, folder, "questions")
    window.setup.question_box.list.dismiss()
    # without repeats a headline has no interval
    window.setup.set_text("repeat", REPEATS)
    run_until(window.setup.run_action.isEnabled, within_seconds=START_SECONDS)
    window.setup.run_action.trigger()
    run_until(lambda: len(window.live.runs()) >= 2, within_seconds=seconds)
    second = window.live.runs()[1]
    # one that ended before anybody looked is pictured at its end
    run_until(
        lambda: second.is_over or second.step > 0.6 * (second.total_steps or math.inf), within_seconds=seconds
    )
    grab(application, window, folder, "running")
    run_until(lambda: second.is_over and not window.experiments.works.items(), within_seconds=seconds)
    run_until(lambda: window.live.answer() is not None, within_seconds=START_SECONDS)
    grab(application, window, folder, "experiment")
    run_ids = tuple(run.id for run in window.experiments.runs.records())
    window.setup.set_text("repeat", "1")
    profile(application, window, folder, seconds, run_ids[:2])
    show_results(application, window, folder, run_ids)
    show_race(application, window, folder)
    find_limit(application, window, folder, seconds)
    examine(application, window, folder, seconds)
    sweep(application, window, folder, seconds)
    tune(application, window, folder, seconds)
    fail(application, window, folder, seconds)


def show_results(
    application: QApplication, window: MainWindow, folder: Path, run_ids: tuple[str, ...]
) -> None:
    """Show the comparison in Results, at its metrics and at its profile."""
    window.runs.set_checked(run_ids)
    window.show_page("results")
    # the comparison is read in a thread
    run_until(window.others.compare.table.isVisible, within_seconds=START_SECONDS)
    grab(application, window, folder, "results")
    tabs = window.others.compare.tabs
    titles = [tabs.tabText(place) for place in range(tabs.count())]
    tabs.setCurrentIndex(titles.index("Profile"))
    grab(application, window, folder, "results-profile")
    tabs.setCurrentIndex(0)


def fail(application: QApplication, window: MainWindow, folder: Path, seconds: float) -> None:
    """Run a model file whose last layer expects another size than it receives."""
    with tempfile.TemporaryDirectory() as own:
        path = Path(own) / "net.py"
        path.write_text(WRONG_MODEL, encoding="utf-8")
        window.experiments.trust.ask = lambda _code: True
        window.show_page("compare")
        window.setup.picker.open(str(path))
        run_until(window.setup.run_action.isEnabled, within_seconds=START_SECONDS)
        window.setup.run_action.trigger()
        run_until(lambda: window.live.failure is not None, within_seconds=seconds)
        run_until(lambda: window.experiments.running is None, within_seconds=seconds)
        grab(application, window, folder, "failed")


def show_race(application: QApplication, window: MainWindow, folder: Path) -> None:
    """Show the replay of the two runs, at the moment the faster one ends."""
    window.show_page("show")
    run_until(lambda: window.others.demo_panel.page == "race", within_seconds=START_SECONDS)
    clock = window.others.demo_panel.race.clock
    clock.pause()
    raced = window.others.demo.reader.raced
    assert raced is not None  # it is on the page
    clock.seek(raced.race.seconds)
    grab(application, window, folder, "show")


def find_limit(application: QApplication, window: MainWindow, folder: Path, seconds: float) -> None:
    """Find the largest batch under a small limit."""
    window.show_page("limit")
    window.others.limit_panel.restore({**window.others.limit_panel.state(), "granularity": GRANULARITY})
    window.others.limit_panel.memory_chosen.emit(LIMIT_GIB)
    window.setup.run_action.trigger()
    works = window.experiments.works
    run_until(lambda: works.running is not None, within_seconds=START_SECONDS)
    run_until(lambda: works.running is None, within_seconds=seconds)
    grab(application, window, folder, "limit")


def examine(application: QApplication, window: MainWindow, folder: Path, seconds: float) -> None:
    """Examine the numerics of the form's model in FP16 or BF16 and show its precision map."""
    window.setup.set_text("memory_cap_gib", "")
    window.show_page("numerics")
    works, panel = window.experiments.works, window.others.numerics_panel
    window.setup.run_action.trigger()
    run_until(lambda: works.running is not None, within_seconds=START_SECONDS)
    run_until(lambda: works.running is None, within_seconds=seconds)
    panel.tabs.open(TITLES["map"])
    run_until(lambda: panel.map is not None, within_seconds=seconds)
    panel.map.tree.expandAll()
    grab(application, window, folder, "numerics")


def profile(
    application: QApplication, window: MainWindow, folder: Path, seconds: float, run_ids: tuple[str, ...]
) -> None:
    """Profile both runs and show them side by side."""
    works = window.experiments.works
    window.others.profiles.profile_runs(run_ids)
    run_until(lambda: works.running is not None, within_seconds=START_SECONDS)
    run_until(lambda: works.running is None, within_seconds=seconds)
    window.show_page("profile")
    grab(application, window, folder, "profile")


def tune(application: QApplication, window: MainWindow, folder: Path, seconds: float) -> None:
    """Tune a few settings and show the verified result."""
    window.show_page("tune")
    options, works = window.others.tune_panel.options, window.experiments.works
    options.restore({**options.state(), "kinds": CHANGE_KINDS[:TUNED_KINDS]})
    window.setup.run_action.trigger()
    run_until(lambda: works.running is not None, within_seconds=START_SECONDS)
    run_until(lambda: works.running is None, within_seconds=seconds)
    grab(application, window, folder, "tune")


def sweep(application: QApplication, window: MainWindow, folder: Path, seconds: float) -> None:
    """Sweep batch sizes: show it in progress, with other jobs in the queue, and at its end."""
    window.show_page("compare")
    form, works = window.setup.form, window.experiments.works
    form.length.unit.edited.emit("steps")
    form.length.edited.emit(str(SWEEP_STEPS))
    window.show_page("sweep")
    window.setup.set_axis("batch_size", ("32", "64", "128"))
    run_until(window.setup.run_action.isEnabled, within_seconds=START_SECONDS)
    window.setup.run_action.trigger()
    run_until(lambda: works.running is not None, within_seconds=START_SECONDS)
    window.show_page("compare")
    window.setup.set_text("batch_size", "64")
    for add in (window.setup.run_action.trigger, lambda: window.setup.submit("limit")):
        add()
    # the runs begin once all pilots are over
    run_until(lambda: window.experiments.running is not None, within_seconds=seconds)
    run_until(lambda: bool(window.live.runs()) and window.live.runs()[-1].step > 40, within_seconds=seconds)
    window.show_page("sweep")
    window.backstage.show_page("queue")
    grab(application, window, folder, "queue")
    for item in works.items():
        works.remove(item.key)
    window.backstage.dismiss()
    run_until(lambda: works.running is None, within_seconds=seconds)
    window.show_page("sweep")
    run_until(window.others.sweep_panel.isVisible, within_seconds=START_SECONDS)
    grab(application, window, folder, "sweep")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "resources" / "screenshots")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--size", default="1440x900")
    parser.add_argument("--seconds", type=float, default=600.0, help="for the runs, and for each of the rest")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    width, height = (int(side) for side in options.size.split("x"))
    with tempfile.TemporaryDirectory() as home:
        os.environ["AMMETER_HOME"] = home
        application = make_application([])
        show_setup(application, options.folder, (width, height))
        with Store() as store:
            window = MainWindow(store, Launcher(), Settings.load())
            window.resize(width, height)
            window.show()
            try:
                take(application, window, options.folder, options.steps, options.seconds)
            finally:
                window.close_without_asking()


if __name__ == "__main__":
    main()
