"""What the form's experiments will need: at once where a line is known, else as the engine forecasts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal

from engine.experiment.experiment import Experiment
from engine.protocol.events import ForecastMade
from engine.protocol.memory_lines import MemoryLine, needed_mib
from engine.store.forecasts import forecast_key
from gui.session.engine_thread import EngineThread

_TYPING_MS = 600


@dataclass(frozen=True)
class Need:
    """The most that one of the experiments needs, in MiB; None while that is not known yet."""

    needed_mib: float | None


class Forecaster(QObject):
    """`told` carries a `Need`, or None where nothing can be said; `refused` (Experiment, Problem) where a
    setting is why. It asks only while the engine is idle."""

    told = Signal(object)
    refused = Signal(object, object)

    def __init__(self, thread: EngineThread, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._thread = thread
        self._known: dict[str, ForecastMade | None] = {}
        self._wanted: tuple[Experiment, ...] = ()
        self._is_busy = False
        self._timer = QTimer(self, singleShot=True, interval=_TYPING_MS)
        self._timer.timeout.connect(self._ask)
        thread.forecast_made.connect(self._take)
        thread.forecast_refused.connect(self.refused)

    def want(self, experiments: Sequence[Experiment]) -> None:
        """Asks for these in place of those before; none of them is an answer too: nothing is told then."""
        self._wanted = tuple(experiments)
        self._timer.stop()
        if self._missing():
            self._timer.start()
        self._tell()

    def set_busy(self, is_busy: bool) -> None:
        """While something is measured nothing is estimated; afterwards what was measured corrects it all."""
        self._is_busy = is_busy
        if not is_busy and self._wanted:
            # what is shown stays until the corrected answer is there
            keys = {forecast_key(each) for each in self._wanted}
            self._known = {key: made for key, made in self._known.items() if key in keys}
            self._thread.ask_forecasts(self._wanted)
        self._tell()

    def lines(self, experiment: Experiment) -> tuple[MemoryLine, ...]:
        """The known forecast's lines, in MiB that an accelerator's allocator gives out; empty without one."""
        known = self._known.get(forecast_key(experiment))
        return known.lines if known is not None and known.quantity == "allocated" else ()

    def stop(self) -> None:
        """Asks for nothing more."""
        self._wanted = ()
        self._timer.stop()

    def _missing(self) -> tuple[Experiment, ...]:
        return tuple(each for each in self._wanted if forecast_key(each) not in self._known)

    def _ask(self) -> None:
        missing = self._missing()
        if missing:
            self._thread.ask_forecasts(missing)

    def _take(self, experiment: Experiment, made: ForecastMade | None) -> None:
        if made is not None or not self._is_busy:
            self._known[forecast_key(experiment)] = made
        self._tell()

    def _tell(self) -> None:
        known = [self._known.get(forecast_key(each)) for each in self._wanted]
        if not known:
            self.told.emit(None)
        elif self._missing():
            self.told.emit(None if self._is_busy else Need(None))
        elif any(each is None for each in known):
            self.told.emit(None)
        else:
            pairs = zip(known, self._wanted, strict=True)
            needs = [needed_mib(made.lines, one.batch_size) for made, one in pairs if made is not None]
            self.told.emit(Need(max(needs)))
