"""How far a run came, from its events alone: what can be said of one that had to be stopped by force."""

from __future__ import annotations

from statistics import fmean

from engine.events import Epoch, Event, Heartbeat, Samples, Skipped, Summary


class Progress:
    """Gathers from a run's events; `step` is the last that completed."""

    def __init__(self) -> None:
        self.step = 0
        self._recorded_steps = 0
        self._seconds = 0.0
        self._epoch_losses: list[float] = []
        self._last_epoch_loss: float | None = None
        self._grad_scale: float | None = None
        self._skipped: int | None = None

    def saw(self, event: Event) -> bool:
        """Takes the event in; whether a step was completed since the last one."""
        before = self.step
        match event:
            case Heartbeat(step=step):
                self.step = max(self.step, step)
            case Samples(step=(*_, step), seconds=(*_, seconds)):
                self.step = max(self.step, int(step))
                self._recorded_steps, self._seconds = int(step), seconds
                self._epoch_losses += event.loss
                if event.grad_scale is not None:
                    self._grad_scale = event.grad_scale[-1]
                    self._skipped = self._skipped or 0
            case Epoch(train_loss=loss):
                self._last_epoch_loss = loss
                self._epoch_losses.clear()
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
            seconds=self._seconds,
            final_train_loss=fmean(losses) if losses else self._last_epoch_loss,
            final_grad_scale=self._grad_scale,
            skipped_steps=self._skipped,
            speed_note=speed_note,
        )
