"""How far a run came, from its events alone: what can be said of one that had to be stopped by force."""

from __future__ import annotations

from engine.events import Epoch, Event, Heartbeat, Samples, Skipped, Started, Summary


class Progress:
    """Gathers from a run's events; `step` is the last that completed."""

    def __init__(self) -> None:
        self.step = 0
        self._recorded_steps = 0
        self._steps_per_epoch: int | None = None
        self._seconds = 0.0
        self._epoch_ended_at = 0
        self._epoch_losses: list[float] = []
        self._last_epoch_loss: float | None = None
        self._accuracies: list[float] = []
        self._grad_scale: float | None = None
        self._skipped: int | None = None

    def saw(self, event: Event) -> bool:
        """Takes the event in; whether a step was completed since the last one."""
        before = self.step
        match event:
            case Started():
                self._steps_per_epoch = event.steps_per_epoch
                self._skipped = 0 if event.experiment.uses_scaler else None
            case Heartbeat(step=step):
                self.step = max(self.step, step)
            case Samples(step=(*_, step), seconds=(*_, seconds)):
                self.step = max(self.step, int(step))
                self._recorded_steps, self._seconds = int(step), seconds
                # the last steps of an epoch may be told after its end
                told = zip(event.step, event.loss, strict=True)
                self._epoch_losses += [loss for at, loss in told if at > self._epoch_ended_at]
                if event.grad_scale is not None:
                    self._grad_scale = event.grad_scale[-1]
            case Epoch(step=step, train_loss=loss):
                self._epoch_ended_at, self._last_epoch_loss = step, loss
                self._epoch_losses.clear()
                if event.validation_accuracy is not None:
                    self._accuracies.append(event.validation_accuracy)
            case Skipped(steps=steps):
                self._skipped = (self._skipped or 0) + len(steps)
        return self.step > before

    def summary(self, speed_note: str) -> Summary:
        """The figures of a run without an end: no speed and no peak, since nobody measured them whole.

        The train loss is the mean over the part of the last epoch that was trained.
        """
        losses = self._epoch_losses
        return Summary(
            steps=self._recorded_steps,
            epochs=self._recorded_steps / self._steps_per_epoch if self._steps_per_epoch else 0.0,
            seconds=self._seconds,
            final_train_loss=sum(losses) / len(losses) if losses else self._last_epoch_loss,
            best_validation_accuracy=max(self._accuracies, default=None),
            final_validation_accuracy=self._accuracies[-1] if self._accuracies else None,
            final_grad_scale=self._grad_scale,
            skipped_steps=self._skipped,
            speed_note=speed_note,
        )
