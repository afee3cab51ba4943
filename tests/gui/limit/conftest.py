"""The page of the limit, and limits to show in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.checks import DeviceEntry, PrecisionEntry
from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.protocol.trials import Bound, Cause, Limit, LimitResult, LimitSide, Trial
from engine.store.saved.studies import Study
from gui.limit.panel import LimitPanel
from gui.session.views import StudyView


def known(view: StudyView[Limit], side: int, **changes: Any) -> StudyView[Limit]:
    """The view, in progress, with these fields of a side changed."""
    changed = view.answer.sides[side].model_copy(update={"trying": None, **changes})
    study = replace(view.study, answer=view.answer.with_side(side, changed))
    return replace(view.with_event(study), is_waiting=False, is_live=True)


class LimitViews:
    """Makes what a search tells, of a model that grows by so much memory a sample."""

    BUDGET_MIB = 24 * 1024.0
    PLANS: ClassVar = {
        Precision.FP32: (64, 256, 320, 290, 289),
        Precision.FP16: (64, 256, 512, 640, 562, 561),
    }
    SPEEDS: ClassVar = {Precision.FP32: (410.0, 40.0), Precision.FP16: (1_240.0, 90.0)}
    LINES: ClassVar = {Precision.FP32: (6_100.0, 63.9), Precision.FP16: (380.0, 43.1)}

    def experiment(self, precision: Precision) -> Experiment:
        return experiment_from({"precision": precision.value, "memory_cap_gib": 24.0, "device": "cuda:0"})

    def trial(self, precision: Precision, batch: int, cause: Cause = "memory") -> Trial:
        fixed, slope = self.LINES[precision]
        needed = fixed + slope * batch
        if needed > self.BUDGET_MIB:
            return Trial(batch_size=batch, fits=False, seconds=1.2, steps=0, cause=cause)
        highest, half = self.SPEEDS[precision]
        speed = highest * batch / (batch + half)
        return Trial(
            batch_size=batch,
            fits=True,
            peak_mib=needed,
            one_step_samples_per_second=speed,
            seconds=2.5,
            steps=3,
        )

    def begun(self, *precisions: Precision) -> StudyView[Limit]:
        sides = [LimitSide(label=one.label, experiment=self.experiment(one)) for one in precisions]
        return StudyView.of(Study(id="abc", answer=Limit(sides=tuple(sides))), is_waiting=True)

    def trying(self, view: StudyView[Limit], side: int, batch: int) -> StudyView[Limit]:
        return known(view, side, trying=batch)

    def searched(self, view: StudyView[Limit], side: int, count: int | None = None) -> StudyView[Limit]:
        """The view after `count` trials of one side; after all of them and the result for None."""
        precision = view.answer.sides[side].precision
        trials = tuple(self.trial(precision, batch) for batch in self.PLANS[precision][:count])
        view = known(view, side, trials=trials, budget_mib=self.BUDGET_MIB)
        return view if count is not None else known(view, side, result=self.result(precision))

    def result(self, precision: Precision, bound: Bound = "memory", note: str | None = None) -> LimitResult:
        trials = tuple(self.trial(precision, batch) for batch in self.PLANS[precision])
        passed = [one.batch_size for one in trials if one.fits]
        return LimitResult(
            precision=precision,
            largest_batch=max(passed),
            verified=bound in ("memory", "data"),
            first_failure=min(one.batch_size for one in trials if not one.fits),
            bound_by=bound,
            trials=trials,
            seconds=13.4,
            note=note,
        )

    def both(self) -> StudyView[Limit]:
        view = self.searched(self.searched(self.begun(Precision.FP32, Precision.FP16), 0), 1)
        return replace(view, is_live=False)

    def card(self, memory_gib: float = 139.8, name: str = "cuda:0") -> DeviceEntry:
        entries = tuple(PrecisionEntry(precision=one, available=True) for one in Precision)
        return DeviceEntry(name=name, title="A device", memory_mib=memory_gib * 1024, precisions=entries)


@pytest.fixture
def limits() -> LimitViews:
    return LimitViews()


@pytest.fixture
def panel(qtbot: QtBot, limits: LimitViews) -> LimitPanel:
    panel = LimitPanel()
    qtbot.addWidget(panel)
    panel.resize(1100, 600)
    panel.show_device(limits.card(), "24")
    with qtbot.waitExposed(panel):
        panel.show()
    return panel
