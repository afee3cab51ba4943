"""The words of the runs table, of its menus, and of the queue."""

from __future__ import annotations

from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from gui.runs.panel import RunsPanel
from gui.runs.queue_panel import QueuePanel
from tests.golden import Golden, words_of
from tests.gui.runs.conftest import RUNS
from tests.gui.runs.test_queue import LAST, PAUSED, RUNNING, SWEEP, UNKNOWN, planned


def test_the_words_of_the_table(panel: RunsPanel, golden: Golden) -> None:
    panel.set_checked([RUNS[0].id, RUNS[1].id])
    # the bar above it, with the menu of columns, is in the golden file of the page Results
    golden(f"{words_of(panel.table)}\n{words_of(panel.foot)}", "table")


@pytest.mark.parametrize(
    ("paused", "items"),
    [(False, (RUNNING, SWEEP, UNKNOWN, PAUSED, LAST)), (True, (RUNNING, LAST)), (False, ())],
    ids=["jobs", "paused", "empty"],
)
def test_the_words_of_the_queue(
    qtbot: QtBot, request: pytest.FixtureRequest, golden: Golden, paused: bool, items: tuple[Any, ...]
) -> None:
    queue = QueuePanel()
    qtbot.addWidget(queue)
    queue.resize(1_100, 240)
    with qtbot.waitExposed(queue):
        queue.show()
    queue.show_schedule(planned(*items, is_paused=paused))
    golden(words_of(queue), f"queue-{request.node.callspec.id}")
