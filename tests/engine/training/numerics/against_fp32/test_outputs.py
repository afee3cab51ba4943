"""The outputs of a first step, and the time of the step after it, on a device that runs behind the host."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from torch import Tensor

from engine.training.data.batches import Batch
from engine.training.numerics import band
from engine.training.numerics.band import first_step
from engine.training.numerics.bench import Figures, Trainee

WATCHED_SECONDS, STEP_SECONDS = 30.0, 0.25


class Behind:
    """A device's clock: what it was given takes time only when the host waits for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.pending = 0.0
        go_back, train = Trainee.go_back, Trainee.train

        def gone_back(trainee: Trainee, group: Sequence[Batch]) -> Tensor:
            self.pending += WATCHED_SECONDS
            return go_back(trainee, group)

        def trained(trainee: Trainee, group: Sequence[Batch]) -> Figures:
            self.pending += STEP_SECONDS
            figures = train(trainee, group)
            self.wait()
            return figures

        monkeypatch.setattr(Trainee, "go_back", gone_back)
        monkeypatch.setattr(Trainee, "train", trained)
        monkeypatch.setattr(Trainee, "wait", lambda trainee: self.wait())
        monkeypatch.setattr(band, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def wait(self) -> None:
        self.now, self.pending = self.now + self.pending, 0.0


def test_the_time_of_a_step_holds_nothing_of_the_watched_pass_before_it(make_bench, monkeypatch):
    bench = make_bench()
    Behind(monkeypatch)
    found, seconds = first_step(bench, bench.experiment)
    assert found and seconds == STEP_SECONDS
