"""What the race in Show costs: how long a frame takes and how large its saved animation is.

    uv run python tests/benchmarks/show.py [FRAMES] [--not-saved] [--show-me] [--seconds 300]

A frame moves everything (blocks, counters, number,
gauges, slider) to the next sixtieth of a second and paints what changed, of a panel of 1920 x 1080 with lanes
of 500 blocks that are never lit at the same pace. With `--show-me` it also prints how many seconds pass from
a press on "Run demo" in a new store to the end of the race, which trains two runs on this machine; the models
and precisions are those that the program picks. It ends with an error where that takes over `--seconds`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from PySide6.QtWidgets import QApplication

from engine.experiment.experiment import experiment_from
from engine.experiment.problem import Problem
from engine.export.content import Content, content_of
from engine.export.race import write_gif, write_webp
from engine.protocol.events import Environment, Finished, Samples, Started, Summary
from engine.protocol.pictures import patterns
from engine.race.race import Race, race_of
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from gui.demo.panel import DemoPanel
from gui.theme.theme import set_reduced_motion, theme
from gui.window.app import make_application, run_until
from gui.window.main_window import MainWindow
from gui.window.remembered import Settings

_BLOCKS = 500
_BATCH = 64
_SPEEDS = {"fp32": 880.0, "fp16": 4_998.0}
_STEPS = 500
_CARD = Environment(
    device_name="a card", device_memory_mib=81_920, torch="2.15", python="3.13", os="Linux", ammeter="0.1"
)


def add_run(store: Store, precision: str, samples_per_second: float) -> str:
    """A run as a worker would have told it."""
    experiment = experiment_from(
        {"precision": precision, "device": "cuda:0", "steps": _STEPS, "batch_size": _BATCH}
    )
    run_id = store.add(experiment).id
    store.begin(run_id)
    rng = np.random.default_rng(0)
    steps = np.arange(1, _STEPS + 1)
    seconds = steps * _BATCH / samples_per_second
    speeds = samples_per_second * (1 + 0.02 * rng.normal(size=_STEPS))
    begun = Started(
        experiment=experiment, environment=_CARD, total_steps=_STEPS, steps_per_epoch=100,
        parameters=11, loss_name="cross-entropy", loss_unit="nats",
    )  # fmt: skip
    told = Samples(
        step=tuple(steps.tolist()), seconds=tuple(seconds.tolist()), loss=(1.0,) * _STEPS,
        samples_per_second=tuple(speeds.tolist()), learning_rate=(0.1,) * _STEPS,
    )  # fmt: skip
    end = Finished(
        summary=Summary(
            steps=_STEPS, samples_per_second=samples_per_second, seconds=float(seconds[-1]),
            step_ms=1e3 * _BATCH / samples_per_second, final_train_loss=1.0,
            peak_allocated_mib=10_445.0 if precision == "fp32" else 3_277.0,
        )
    )  # fmt: skip
    store.record(run_id, [begun, told, end])
    return run_id


def long_race(made: Content) -> Race:
    """Its race, in lanes of more blocks than the program itself would make."""
    race = race_of(made.comparison, made.samples)
    return replace(race, blocks=_BLOCKS, block_samples=max(race.samples // _BLOCKS, 1))


def frame_ms(race: Race, frames: int, mode: str) -> np.ndarray:
    """Milliseconds of each frame, from the start to the end."""
    theme().set_mode(mode)
    panel = DemoPanel()
    panel.resize(1920, 1080)
    panel.show()
    panel.show_race(race, patterns(200))
    QApplication.processEvents()
    taken = []
    for number in range(1, frames + 1):
        begun = time.perf_counter()
        panel.race.clock.seek(race.seconds * number / frames)
        QApplication.processEvents()
        taken.append((time.perf_counter() - begun) * 1e3)
    panel.close()
    panel.deleteLater()
    return np.array(taken)


def print_frames(race: Race, frames: int) -> None:
    print("theme   frames   median ms   95th percentile ms   longest ms")
    for mode in ("dark", "light"):
        taken = frame_ms(race, frames, mode)
        middle, high, longest = np.percentile(taken, (50, 95, 100))
        print(f"{mode:<5}   {frames:>6}   {middle:>9.2f}   {high:>18.2f}   {longest:>10.2f}")


def print_saved(made: Content, folder: Path) -> None:
    print("\nsaved          size MB   written in s")
    for write, name in ((write_webp, "race.webp"), (write_gif, "race.gif")):
        begun = time.perf_counter()
        write(made, folder / name)
        taken = time.perf_counter() - begun
        print(f"{name:<12}   {(folder / name).stat().st_size / 1e6:>7.2f}   {taken:>12.1f}")


@dataclass(frozen=True)
class Shown:
    """A race that was shown, and the seconds from the press to its end."""

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
    """Presses "Run demo", with a worker that stands ready, as a moment after the start; plays the race.

    `look` is called with the window and the name of the page while the second run is measured and at the
    race's end. Raises SystemExit where there is no race, and TimeoutError.
    """
    window = MainWindow(store, launcher, Settings(folder / "window.json"))
    window.resize(1440, 900)
    window.show()
    if launcher.target is Target.PROCESS:
        run_until(lambda: launcher.has_ready_spare, within_seconds=most_seconds)
    shows, panel = window.others.demo, window.others.demo_panel
    refusals: list[Problem] = []
    for source in (shows.show_me, shows.reader):
        source.refused.connect(refusals.append)
    ended: list[bool] = []
    panel.race.clock.ended.connect(lambda: ended.append(True))
    begun, others = time.perf_counter(), len(store.runs())
    panel.show_me_wanted.emit()
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
            made = content_of(store, [add_run(store, *one) for one in _SPEEDS.items()])
            print_frames(long_race(made), options.frames)
            if not options.not_saved:
                print_saved(made, folder)
        if options.show_me:
            with Launcher() as launcher, Store(folder / "runs.sqlite") as store:
                taken = show_me(store, launcher, folder, options.seconds).seconds
            print(f"\nfrom “Run demo” to the end of the race: {taken:.0f} s")
    application.processEvents()


if __name__ == "__main__":
    main()
