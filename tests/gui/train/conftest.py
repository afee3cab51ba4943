"""The live panel, and runs to watch in it."""

from __future__ import annotations

from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.protocol.events import Environment, Epoch, Event, Finished, Samples, Skipped, Started, Summary
from gui.theme.theme import theme
from gui.train.panel import LivePanel, LiveRun

MACHINE = Environment(
    device_name="NVIDIA H200",
    device_memory_mib=143_155.0,
    torch="2.11",
    python="3.12",
    os="Linux",
    ammeter="0.1",
)


class Live:
    """Makes what a worker tells of a run, and runs of it."""

    def started(self, precision: str = "fp32", steps: int = 200, **more: object) -> Started:
        settings = {"precision": precision, "steps": steps, "batch_size": 64, **more}
        return Started(
            experiment=Experiment.model_validate(settings),
            environment=MACHINE,
            total_steps=steps,
            steps_per_epoch=100,
            parameters=25_600_000,
            loss_name="cross-entropy",
            loss_unit="nats",
        )

    def samples(
        self, first: int, count: int, rate: float = 880.0, mib: float = 10_000.0, **columns: tuple[float, ...]
    ) -> Samples:
        steps = tuple(range(first, first + count))
        told: dict[str, Any] = {
            "seconds": tuple(step * 64 / rate for step in steps),
            "loss": tuple(5.0 / step for step in steps),
            "samples_per_second": (rate,) * count,
            "learning_rate": (0.1,) * count,
            **({} if "resident_mib" in columns else {"allocated_mib": (mib,) * count}),
        }
        return Samples(step=steps, **{**told, **columns})

    def epochs(self, *accuracies: float | None) -> list[Epoch]:
        return [
            Epoch(epoch=n, step=50 * n, seconds=5.0 * n, train_loss=1.0, validation_accuracy=accuracy)
            for n, accuracy in enumerate(accuracies, start=1)
        ]

    def run(self, precision: str, *events: Event, **settings: object) -> LiveRun:
        experiment = Experiment.model_validate({"precision": precision, **settings})
        run = LiveRun.queued(f"run-{precision}", experiment)
        run.add_all(events)
        return run

    def pair(self) -> tuple[LiveRun, LiveRun]:
        """FP32, finished, and FP16 AMP in the middle of its run."""
        summary = Summary(
            steps=200,
            samples_per_second=880.0,
            step_ms=72.73,
            peak_allocated_mib=10_400.0,
            final_train_loss=1.53,
            final_validation_accuracy=0.613,
        )
        scale = (65_536.0,) * 26 + (32_768.0,) * 100
        return (
            self.run("fp32", self.started(), self.samples(1, 200), Finished(summary=summary)),
            self.run(
                "fp16",
                self.started("fp16"),
                self.samples(1, 126, 1663.0, 3_174.0, grad_scale=scale),
                Skipped(steps=(4, 12, 26)),
                Epoch(epoch=1, step=100, seconds=4.0, train_loss=2.0, validation_accuracy=0.548),
            ),
        )


@pytest.fixture
def live() -> Live:
    return Live()


@pytest.fixture
def panel(qtbot: QtBot) -> LivePanel:
    theme().set_mode("dark")
    panel = LivePanel()
    qtbot.addWidget(panel)
    panel.resize(1120, 660)
    panel.show()
    return panel
