"""The metrics of a run that ended early, computed from its events and samples."""

from __future__ import annotations

from engine.curves import Columns
from engine.lazy_imports import np
from engine.protocol.events import Epoch, Event, Samples, Skipped, Started, Summary


class EarlyEnd:
    """Computes the metrics of a run that ended early, from the events and samples that it sent."""

    def __init__(self) -> None:
        self._started: Started | None = None
        self._epochs: list[Epoch] = []
        self._skipped = self._losses = 0
        self._loss_sum = 0.0
        self._first_nan_step: int | None = None
        self._last: dict[str, float] = {}

    def add_event(self, event: Event) -> None:
        """Add the next event. Samples may also be added by `add_samples`."""
        match event:
            case Started():
                self._started = event
            case Samples():
                values = event.columns().items()
                self.add_samples({name: np.asarray(column, dtype=np.float64) for name, column in values})
            case Epoch():
                self._epochs.append(event)
                self._loss_sum, self._losses = 0.0, 0
            case Skipped(steps=steps):
                self._skipped += len(steps)

    def add_samples(self, columns: Columns) -> None:
        """Add the samples of the next steps."""
        if not len(columns.get("step", ())):
            return
        self._last |= {name: float(values[-1]) for name, values in columns.items()}
        is_nan = np.isnan(columns["loss"])
        if self._first_nan_step is None and is_nan.any():
            self._first_nan_step = int(columns["step"][is_nan.argmax()])
        # an epoch's last steps may arrive after its end
        counted = columns["loss"][columns["step"] > (self._epochs[-1].step if self._epochs else 0)]
        # the sum of a diverged run may overflow
        with np.errstate(over="ignore", invalid="ignore"):
            self._loss_sum += float(counted.sum())
        self._losses += len(counted)

    def summary(self, speed_note: str) -> Summary:
        """Return the metrics, without a speed and a peak, which need the full run."""
        started, losses = self._started, self._losses
        pairs = ((epoch.validation_accuracy, epoch.epoch) for epoch in self._epochs)
        validated = [(accuracy, epoch) for accuracy, epoch in pairs if accuracy is not None]
        # of equal accuracies the first counts as the best
        best = max(validated, key=lambda pair: (pair[0], -pair[1]), default=(None, None))
        steps = int(self._last.get("step", 0))
        last_loss = self._epochs[-1].train_loss if self._epochs else None
        is_scaled = started is not None and started.experiment.uses_scaler
        return Summary(
            steps=steps,
            epochs=steps / started.steps_per_epoch if started is not None else 0.0,
            speed_note=speed_note,
            seconds=self._last.get("seconds", 0.0),
            final_train_loss=self._loss_sum / losses if losses else last_loss,
            final_grad_scale=self._last.get("grad_scale"),
            best_validation_accuracy=best[0],
            best_epoch=best[1],
            final_validation_accuracy=validated[-1][0] if validated else None,
            first_nan_step=self._first_nan_step,
            skipped_steps=self._skipped if is_scaled or self._skipped else None,
        )
