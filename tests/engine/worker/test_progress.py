"""What is known of a run that had to be stopped by force."""

from __future__ import annotations

from engine.experiment.experiment import Experiment, Precision
from engine.protocol.events import Environment, Epoch, Heartbeat, Samples, Skipped, Started
from engine.worker.supervision import Progress

ENVIRONMENT = Environment(
    device_name="a card", device_memory_mib=1.0, torch="2.11", python="3.13", os="Linux", ammeter="0.1"
)


def started(precision: Precision) -> Started:
    return Started(
        experiment=Experiment(precision=precision),
        environment=ENVIRONMENT,
        total_steps=8,
        steps_per_epoch=4,
        parameters=1,
        loss_name="cross-entropy",
        loss_unit="nats",
    )


def sampled(steps: range, loss: float) -> Samples:
    column = tuple(float(step) for step in steps)
    return Samples(
        step=tuple(steps),
        seconds=column,
        loss=tuple(loss for _ in steps),
        samples_per_second=column,
        learning_rate=column,
    )


def test_it_says_how_far_a_run_came() -> None:
    progress = Progress()
    progress.note_event(started(Precision.FP16))
    progress.note_event(sampled(range(1, 5), 4.0))
    progress.note_event(Epoch(epoch=1, step=4, seconds=4.0, train_loss=4.0, validation_accuracy=0.5))
    progress.note_event(sampled(range(5, 7), 2.0))
    summary = progress.summary("stopped")
    assert (summary.steps, summary.epochs, summary.seconds) == (6, 1.5, 6.0)
    assert (summary.final_train_loss, summary.skipped_steps) == (2.0, 0)
    assert summary.best_validation_accuracy == summary.final_validation_accuracy == 0.5
    assert summary.samples_per_second is None and summary.speed_note == "stopped"


def test_steps_that_are_told_after_their_epoch_ended_do_not_count_for_the_next() -> None:
    progress = Progress()
    progress.note_event(started(Precision.FP32))
    progress.note_event(Epoch(epoch=1, step=4, seconds=4.0, train_loss=4.0))
    progress.note_event(sampled(range(1, 5), 4.0))
    assert progress.summary("stopped").final_train_loss == 4.0
    progress.note_event(sampled(range(5, 6), 1.0))
    assert progress.summary("stopped").final_train_loss == 1.0
    assert progress.summary("stopped").skipped_steps is None


def test_only_a_completed_step_is_progress() -> None:
    progress = Progress()
    assert progress.note_event(Heartbeat(step=3)) and not progress.note_event(Heartbeat(step=3))
    assert not progress.note_event(Skipped(steps=(1,)))
    assert progress.note_event(sampled(range(4, 5), 1.0)) and progress.step == 4
