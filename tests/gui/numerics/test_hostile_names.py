"""Modules and operations of numerics from elsewhere may have any names, which are shown as written."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.protocol.numerics.numerics import Numerics, NumericsResults
from engine.store.saved.study import Study
from gui.numerics.panel import NumericsPanel
from gui.session.studies import StudyView
from tests.hostile import MARKUP, markup_in, names_in, poisoned


def test_no_name_of_numerics_is_rendered(qtbot: QtBot, results: NumericsResults) -> None:
    panel = NumericsPanel()
    qtbot.addWidget(panel)
    panel.resize(1080, 600)
    with qtbot.waitExposed(panel):
        panel.show()
    answer = Numerics(experiment=Experiment(model=f"{MARKUP}net"), results=poisoned(results))
    panel.show_view(StudyView.of(Study(answer=answer, device_name=MARKUP)))
    for name in panel._views:
        panel.tabs.open(name)
        assert names_in(panel) > 0 and markup_in(panel) == set(), name
