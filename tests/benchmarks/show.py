"""Time of a frame of the replay, size of the saved animation, and time from Run demo to the replay's end.

    uv run python tests/benchmarks/show.py [FRAMES] [--not-saved] [--show-me] [--seconds 300]

A frame moves everything to the next sixtieth of a second and paints it, in a panel of 1920x1080. `--show-me`
presses Run demo with a new store, trains the two runs that the program picks for this machine, and plays the
replay. It fails if that takes more than `--seconds`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from PySide6.QtWidgets import QApplication
from side_by_side import print_spreads
from views import add_run, milliseconds

from engine.experiment.problem import Problem
from engine.export.content import Content, content_of
from engine.export.race import write_gif, write_webp
from engine.protocol.pictures import patterns
from engine.race.race import Race, race_of
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from gui.demo.panel import DemoPanel
from gui.theme.theme import set_reduced_motion, theme
from gui.window.app import make_application, run_until
from gui.window.main_window import MainWindow
from gui.window.remembered import Settings

_SPEEDS = {"fp32": 880.0, "fp16": 4_998.0}
_STEPS = 500


def frame_ms(race: Race, frames: int, mode: str) -> list[float]:
    """Return the milliseconds of each frame, from the start to the end."""
    theme().set_mode(mode)
    panel = DemoPanel()
    panel.resize(1920, 1080)
    panel.show()
    panel.show_race(race, patterns(200))
    QApplication.processEvents()
    times = [race.seconds * number / frames for number in range(1, frames + 1)]
    taken = [milliseconds(partial(panel.race.clock.seek, time), QApplication.processEvents) for time in times]
    panel.close()
    panel.deleteLater()
    return taken


def print_saved(made: Content, folder: Path) -> None:
    print("\nsaved          size MB   written in s")
    for write, name in ((write_webp, "race.webp"), (write_gif, "race.gif")):
        begun = time.perf_counter()
        write(made, folder / name)
        taken = time.perf_counter() - begun
        print(f"{name:<12}   {(folder / name).stat().st_size / 1e6:>7.2f}   {taken:>12.1f}")


@dataclass(frozen=True)
class Shown:
    """A replay that was shown, and the seconds from the press to its end."""

    seconds: float
    race: Race
    run_ids: tuple[str, ...]


def show_me(
    store: Store,
    launcher: Launcher,
    folder: Path,
    most_seconds: float,
    look: Callable[[MainWindow, str], None] = lambda window, page: None,
) -> Shown:
    """Press Run demo once a worker is ready, and play the replay to its end.

    Call `look` with the window and a name while the second run is measured and at the end. Raises SystemExit
    if there is no replay, and TimeoutError.
    """
    window = MainWindow(store, launcher, Settings(folder / "window.json"))
    window.resize(1440, 900)
    window.show()
    if launcher.target is Target.PROCESS:
        run_until(lambda: launcher.has_ready_spare, within_seconds=most_seconds)
    pages: Any = window.others
    shows, panel = pages.demo, pages.demo_panel
    refusals: list[Problem] = []
    for source in (shows.measurement, shows.reader):
        source.refused.connect(refusals.append)
    ended: list[bool] = []
    panel.race.clock.ended.connect(lambda: ended.append(True))
    begun, others = time.perf_counter(), len(store.runs())
    panel.demo_wanted.emit()
    run_until(lambda: bool(len(store.runs()) >= others + 2 or refusals), within_seconds=most_seconds)
    look(window, "measuring")
    run_until(lambda: bool(ended or refusals), within_seconds=most_seconds)
    taken = time.perf_counter() - begun
    if refusals:
        raise SystemExit(f"There was no race: {refusals[0].message}")
    look(window, "race")
    raced = shows.reader.raced
    assert raced is not None  # it has just ended
    window.close_without_asking()
    window.deleteLater()
    QApplication.processEvents()
    return Shown(taken, raced.race, tuple(raced.choice.run_ids))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("frames", nargs="?", type=int, default=400)
    parser.add_argument("--not-saved", action="store_true", help="frames alone: an animation is many of them")
    parser.add_argument("--show-me", action="store_true")
    parser.add_argument("--seconds", type=float, default=300.0)
    options = parser.parse_args()
    application = make_application([])
    # what the desktop asks for must not cut the race short
    set_reduced_motion(False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Store(folder / "ammeter.sqlite") as store:
            settings = {"steps": _STEPS, "batch_size": 64}
            ids = [add_run(store, {**settings, "precision": name}, speed) for name, speed in _SPEEDS.items()]
            made = content_of(store, ids)
            race = race_of(made.comparison, made.samples)
            frames = {mode: frame_ms(race, options.frames, mode) for mode in ("dark", "light")}
            print_spreads("a frame of the replay: ms", frames)
            if not options.not_saved:
                print_saved(made, folder)
        if options.show_me:
            with Launcher() as launcher, Store(folder / "runs.sqlite") as store:
                taken = show_me(store, launcher, folder, options.seconds).seconds
            print(f"\nfrom “Run demo” to the end of the race: {taken:.0f} s")
    application.processEvents()


if __name__ == "__main__":
    main()
