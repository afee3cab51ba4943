"""The memory that the form's experiments will need, as the engine forecasts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal

from engine.experiment.experiment import Experiment
from engine.protocol.events import ForecastMade
from engine.protocol.trials import MemoryLine, needed_mib
from engine.store.saved.forecasts import forecast_key
from gui.session.engine_thread import EngineThread

_TYPING_MS = 600


@dataclass(frozen=True)
class Need:
    """The memory that the form's experiments need at most, in MiB. None while it is being forecast."""

    needed_mib: float | None


class Forecaster(QObject):
    """Requests memory forecasts of the form's experiments from the engine, only while it is idle."""

    need_changed = Signal(object)  # `Need`, or None if there is no forecast
    made = Signal()  # there is another forecast

    def __init__(self, thread: EngineThread, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._thread = thread
        self._known: dict[str, ForecastMade | None] = {}
        self._wanted: tuple[Experiment, ...] = ()
        self._is_busy = False
        self._timer = QTimer(self, singleShot=True, interval=_TYPING_MS)
        self._timer.timeout.connect(self._request_missing)
        thread.forecast_made.connect(self._on_forecast)
        self.refused = thread.forecast_refused

    def request(self, experiments: Sequence[Experiment]) -> None:
        """Request forecasts of these experiments, which replace earlier requests. Scripts have none."""
        self._wanted = tuple(experiment for experiment in experiments if not experiment.is_script)
        self._timer.stop()
        if self._missing():
            self._timer.start()
        self._report()

    def forget(self) -> None:
        """Drop all forecasts, because another machine is in use."""
        self._known.clear()
        self.request(())

    def set_busy(self, is_busy: bool) -> None:
        """Make no estimates during a measurement. The measurement then corrects the forecasts."""
        self._is_busy = is_busy
        if not is_busy and self._wanted:
            # what is shown stays until the corrected forecast is there
            keys = {forecast_key(experiment) for experiment in self._wanted}
            self._known = {key: made for key, made in self._known.items() if key in keys}
            self._thread.request_forecasts(self._wanted)
        self._report()

    def lines(self, experiment: Experiment) -> tuple[MemoryLine, ...]:
        """Return the known forecast's lines, in MiB allocated on an accelerator. Empty if there is none."""
        known = self._known.get(forecast_key(experiment))
        return known.lines if known is not None and known.quantity == "allocated" else ()

    def needed_mib(self, experiment: Experiment) -> float | None:
        """Return the memory that an experiment needs. None while it is unknown."""
        made = self._known.get(forecast_key(experiment))
        return None if made is None else needed_mib(made.lines, experiment.batch_size)

    def stop(self) -> None:
        self._wanted = ()
        self._timer.stop()

    def _missing(self) -> tuple[Experiment, ...]:
        return tuple(wanted for wanted in self._wanted if forecast_key(wanted) not in self._known)

    def _request_missing(self) -> None:
        if missing := self._missing():
            self._thread.request_forecasts(missing)

    def _on_forecast(self, experiment: Experiment, made: ForecastMade | None) -> None:
        if made is not None or not self._is_busy:
            self._known[forecast_key(experiment)] = made
        self._report()
        if made is not None:
            self.made.emit()

    def _report(self) -> None:
        pairs = [(self._known.get(forecast_key(wanted)), wanted) for wanted in self._wanted]
        needs = [needed_mib(made.lines, wanted.batch_size) for made, wanted in pairs if made is not None]
        if self._missing():
            self.need_changed.emit(None if self._is_busy else Need(None))
        else:
            # of all of them, or there is none to tell
            is_known = bool(needs) and len(needs) == len(self._wanted)
            self.need_changed.emit(Need(max(needs)) if is_known else None)
