"""The words of the page *Largest batch* in each of its states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from engine.experiment.problem import Kind, Problem
from engine.export.kinds.limit import THROUGHPUT
from engine.protocol.events import Phase, PhaseName
from gui.limit.panel import LimitPanel
from gui.session.views import StudyView
from tests.golden import Golden, words_of
from tests.gui.answers import wait_for_sections
from tests.gui.limit.conftest import known

HALF = Precision.FP16
PROBLEM = Problem(kind=Kind.REQUEST, message="The model cannot be built.", remedy="Change it.")
STATES = (
    "empty",
    "waiting",
    "searching",
    "compiling",
    "one-side",
    "both",
    "throughput",
    "data",
    "failed",
    "stopped",
)


def view_in(state: str, limits: Any) -> StudyView[Any] | None:
    begun = limits.begun(Precision.FP32, Precision.FP16)
    first = limits.searched(begun, 0)
    match state:
        case "empty":
            return None
        case "waiting":
            return limits.begun(Precision.FP32)
        case "searching":
            return limits.trying(limits.searched(begun, 0, 3), 0, 320)
        case "compiling":
            return limits.trying(begun, 0, 64).with_event(Phase(name=PhaseName.COMPILING))
        case "one-side":
            return first
        case "data":
            bound = limits.result(Precision.FP16, "data", "The dataset has only 561 samples.")
            return known(limits.searched(first, 1, 5), 1, result=bound)
        case "stopped":
            result = limits.result(HALF, "stopped", "Stopped early. The largest batch is at least 512.")
            return replace(known(limits.searched(first, 1, 3), 1, result=result), is_live=False)
        case "failed":
            return replace(known(begun, 0, problem=PROBLEM), is_live=False)
    return limits.both()


@pytest.mark.parametrize("state", STATES)
def test_the_words_of_the_page(
    panel: LimitPanel, qtbot: QtBot, limits: Any, golden: Golden, state: str
) -> None:
    panel.show_view(view_in(state, limits))
    if state == "throughput":
        panel.tabs.open(THROUGHPUT)
    wait_for_sections(qtbot, panel)
    golden(words_of(panel), state)
