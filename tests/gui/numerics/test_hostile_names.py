"""Modules and operations of a diagnosis from elsewhere may have any names, which are shown as written."""

from __future__ import annotations

from datetime import UTC, datetime

from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.protocol.numerics.diagnosis import USUAL_PARTS, Diagnosis
from gui.numerics.panel import NumericsPanel
from gui.session.orders.diagnoses import DiagnosisView
from tests.hostile import MARKUP, markup_in, names_in, poisoned


def test_no_name_of_a_diagnosis_is_rendered(qtbot: QtBot, diagnosis: Diagnosis) -> None:
    panel = NumericsPanel()
    qtbot.addWidget(panel)
    panel.resize(1080, 600)
    with qtbot.waitExposed(panel):
        panel.show()
    panel.show_diagnosis(
        DiagnosisView(
            key="abc",
            experiment=Experiment(model=f"{MARKUP}net"),
            parts=USUAL_PARTS,
            created=datetime.now(UTC),
            device_name=MARKUP,
            diagnosis=poisoned(diagnosis),
        )
    )
    for name in panel._views:
        panel.tabs.open(name)
        assert names_in(panel) > 0 and markup_in(panel) == set(), name
