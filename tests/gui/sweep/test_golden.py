"""The words of the pages *Sweep* and *Tune*."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from engine.protocol.tune import Tuning
from engine.store.store import Store
from gui.window.main_window import MainWindow
from tests.golden import Golden, words_of
from tests.gui.answers import wait_for_sections
from tests.gui.sweep.test_tune import put, tuned
from tests.gui.sweep.test_views import shown_panel
from tests.sweeps import small_results

__all__ = ["tuned"]


@pytest.mark.parametrize("place", range(4))
def test_the_words_of_a_sweeps_tabs(qtbot: QtBot, golden: Golden, place: int) -> None:
    page = shown_panel(qtbot, small_results())
    assert page.tabs.count() == 4
    page.tabs.setCurrentIndex(place)
    page.choose((place,))
    wait_for_sections(qtbot, page)
    golden(words_of(page), f"sweep-{place}")


def test_the_words_of_a_tuning(
    start: Callable[[], MainWindow], store: Store, tuned: Tuning, golden: Golden
) -> None:
    window = start()
    window.show_page("tune")
    before = words_of(window.others.tune_panel)
    put(store, tuned)
    window = start()
    window.show_page("tune")
    golden(f"{before}\n\n---\n\n{words_of(window.others.tune_panel)}", "tune")
