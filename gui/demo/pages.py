"""The pages of Demo besides the replay: two runs being measured, and the reason for a missing replay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from engine.drawing.blocks import Tiles
from engine.drawing.looks import precision_look
from engine.experiment.experiment import Precision
from engine.protocol.events import PhaseName
from engine.protocol.pictures import patterns
from engine.race.card import BLOCKS, CardFrame, LaneHead, RaceCard
from engine.race.showcase import Showcase
from engine.race.words import NUMBERS
from gui.demo.race_view import DemoButton, RaceView
from gui.demo.transport import FOOT_HEIGHT, FOOT_MARGIN
from gui.session.live_run import LiveRun
from gui.widgets import ElidedLabel, center, label
from gui.widgets.boxes import Stretch, Surface, in_column, in_row, wide

_WIDTH = 760
_RUN_DEMO, _TRY_AGAIN = " Run demo", " Try again"


class RefusedPage(QWidget):
    """The page that explains why there is no replay, with buttons to get one."""

    demo_wanted = Signal()
    results_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._sentence = label("", "showTitle", wraps=True)
        self._remedy = label("", "showText", wraps=True)
        self.run_demo = DemoButton(
            _RUN_DEMO,
            "showPrimary",
            "Measure both precisions now and replay them",
            "play",
            do=self.demo_wanted,
        )
        self.results = DemoButton(
            "Select runs in Results", "show", "Select the runs to replay side by side", do=self.results_wanted
        )
        buttons = in_row(self.run_demo, self.results, Stretch(1), spacing=12)
        inner = QWidget()
        inner.setFixedWidth(_WIDTH)
        in_column(self._sentence, self._remedy, 14, buttons, parent=inner, spacing=14)
        center(self, inner)

    def show_refusal(self, sentence: str, remedy: str, *, was_measured: bool = False) -> None:
        """Show the reason and the remedy. If it `was_measured`, the measurement can be repeated."""
        self.run_demo.set_words(_TRY_AGAIN if was_measured else _RUN_DEMO)
        self._sentence.setText(sentence)
        self._remedy.setText(remedy)
        self._remedy.setVisible(bool(remedy))
        self.setAccessibleName("Nothing to replay")
        self.setAccessibleDescription(self.words())

    def words(self) -> str:
        """Return the whole text."""
        return f"{self._sentence.text()} {self._remedy.text()}".strip()


_NAMES = ("full precision", "mixed precision")
_NOT_BEGUN = "not started yet"
_PHASES = {
    PhaseName.WAITING: "waiting in the queue",
    PhaseName.DOWNLOADING: "getting the images",
    PhaseName.CHECKING: "checking the images",
    PhaseName.BUILDING: "preparing the model",
    PhaseName.COMPILING: "preparing the model",
    PhaseName.CAPTURING: "preparing the model",
    PhaseName.VALIDATING: "testing what it has learned",
    PhaseName.SAVING: "saving",
    PhaseName.PAUSED: "paused",
}


@dataclass(frozen=True, eq=False)
class DemoProgress:
    """The progress of Demo's measurement. `runs` are full and mixed precision, None until they have started.

    With `is_pilot` they train only a few steps. `phase` is shown instead of the phase of the current run,
    unless it is "". `images` are of the dataset, of shape (count, side, side).
    """

    showcase: Showcase | None
    runs: tuple[LiveRun | None, LiveRun | None] = (None, None)
    is_pilot: bool = False
    phase: str = ""
    images: NDArray[np.uint8] | None = None

    @property
    def running(self) -> int:
        """The current run: 0 for full precision, 1 for mixed precision."""
        return int(self.runs[0] is not None and self.runs[0].is_over)


def measuring_card(progress: DemoProgress) -> RaceCard:
    """Return the card of two runs that are being measured."""
    case, images = progress.showcase, progress.images
    first = None if case is None else case.sides[0][1]
    return RaceCard(
        title="The same training, once in each precision",
        sentence="" if case is None else case.why,
        heads=(_head(0, case), _head(1, case)),
        tiles=Tiles(images if images is not None and len(images) else patterns(BLOCKS)),
        absent="not yet",
        facts="" if first is None else f"{first.model}, {first.batch_size:,} images at once",
    )


def measuring_frame(progress: DemoProgress) -> CardFrame:
    """Return the card's moving parts at a moment of the measurement."""
    running = progress.running
    live = progress.runs[running]
    doing = "Testing the speed of" if progress.is_pilot else "Measuring"
    phase = progress.phase or ("starting" if live is None or live.phase is None else "")
    if live is not None and live.phase is not None:
        phase = phase or _PHASES.get(live.phase.name, "")
    counts = [_count(which, progress) for which in (0, 1)]
    return CardFrame(
        lit=(counts[0][0], counts[1][0]),
        samples=(counts[0][1], counts[1][1]),
        words=(counts[0][2], counts[1][2]),
        number=None,
        caption=(f"{doing} {_NAMES[running]}", phase or _left(live)),
        peaks_mib=(_peak(progress.runs[0]), _peak(progress.runs[1])),
    )


def _head(which: int, case: Showcase | None) -> LaneHead:
    precision = (Precision.FP32, Precision.BF16)[which] if case is None else case.sides[which][1].precision
    detail = "" if case is None else NUMBERS[precision]
    name = _NAMES[which].capitalize()
    return LaneHead(name, detail, precision_look(precision), (name.split()[0],))


def _count(which: int, progress: DemoProgress) -> tuple[float, str, str]:
    live = progress.runs[which]
    if live is None or progress.is_pilot:
        return 0.0, "0", _NOT_BEGUN
    lit = BLOCKS * min(live.step / live.experiment.steps, 1.0) if live.experiment.steps else 0.0
    words = "images, measured" if live.is_over else "images so far" if live.step else _NOT_BEGUN
    return lit, f"{live.step * live.experiment.step_samples:,}", words


def _peak(live: LiveRun | None) -> float | None:
    if live is None:
        return None
    for name in ("allocated_mib", "resident_mib"):
        values = live.column(name)[live.rows_until(live.warmup_steps) :]
        if len(values) and np.isfinite(values).any():
            return float(np.nanmax(values))
    return None


def _left(live: LiveRun | None) -> str:
    seconds = None if live is None else live.seconds_left()
    if seconds is None:
        return "just started"
    return f"{round(seconds):,} s left" if round(seconds) else "almost done"


class MeasuringPage(QWidget):
    """The page that shows the two runs while they are measured."""

    stop_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.view = RaceView()
        self._shown: tuple[object, ...] = ()
        self._announced = ""
        foot = Surface("foot")
        foot.setFixedHeight(FOOT_HEIGHT)
        self.stop = DemoButton(
            " Stop", "showPrimary", "Stop measuring. A finished run is kept.", "stop", do=self.stop_wanted
        )
        self.stop.setFixedWidth(106)
        why = "The runs train one after the other, so neither slows the other down. Then both are replayed."
        in_row(
            self.stop,
            wide(ElidedLabel(why, "showFoot")),
            parent=foot,
            margins=(FOOT_MARGIN, 0, FOOT_MARGIN, 0),
            spacing=18,
        )
        in_column(wide(self.view), foot, parent=self, spacing=0)

    def show_progress(self, progress: DemoProgress) -> None:
        """Show the progress of the measurement."""
        frame, shown = measuring_frame(progress), (progress.showcase, id(progress.images))
        if shown == self._shown:
            self.view.show_frame(frame)
        else:
            self._shown = shown
            self.view.show_card(measuring_card(progress), frame)
        if frame.caption[0] != self._announced:
            # not at each count: a screen reader would never finish
            self._announced = frame.caption[0]
            self.view.announce()
            self.setAccessibleName("Measuring")
            self.setAccessibleDescription(self.words())

    def words(self) -> str:
        """Return the whole text."""
        return self.view.words()
