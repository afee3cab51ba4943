"""What a run teaches about memory: its peak corrects the forecast, which answers an out-of-memory."""

from __future__ import annotations

from engine.events import Event, Failed, Finished, Started
from engine.experiment import Experiment
from engine.oom_remedies import fitting_batch, with_remedy
from engine.problem import Kind
from engine.records.forecasts import Forecasts

_MIB_PER_GIB = 1024.0


class MemoryAdvice:
    """Goes along with one run, outside of its worker, which may have died of what is answered here."""

    def __init__(self, experiment: Experiment, forecasts: Forecasts) -> None:
        self._experiment = experiment
        self._forecasts = forecasts
        self._device_mib: float | None = None

    def given(self, event: Event) -> Event:
        """The event, with a remedy that names a batch which fits where that is known."""
        if isinstance(event, Started):
            self._experiment = event.experiment
            self._device_mib = event.environment.device_memory_mib
        elif isinstance(event, Finished):
            self._forecasts.learn_run(self._experiment, event.summary)
        elif isinstance(event, Failed) and event.problem.kind is Kind.OUT_OF_MEMORY:
            return self._answered(event)
        return event

    def _answered(self, failed: Failed) -> Failed:
        forecast, budget_mib = self._forecasts.find(self._experiment), self._budget_mib()
        if forecast is None or budget_mib is None:
            return failed
        fits = fitting_batch(forecast.lines, budget_mib, self._experiment.batch_size)
        if fits is None:
            return failed
        return failed.model_copy(update={"problem": with_remedy(failed.problem, self._experiment, fits)})

    def _budget_mib(self) -> float | None:
        cap = self._experiment.memory_cap_gib
        return self._device_mib if cap is None else cap * _MIB_PER_GIB
