"""The cards whose memory a search may be limited to: those that make sense, and any other size."""

from __future__ import annotations

from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from gui.limit.cards import OtherSize
from gui.limit.panel import LimitPanel


def offered(panel: LimitPanel) -> tuple[str, ...]:
    return tuple(text for _, text in panel.cards.box.choices())


def gib(*sizes: float) -> tuple[str, ...]:
    return tuple(f"{size:g} GiB" for size in sizes)


def test_the_cards_that_are_offered_make_sense_on_the_device(panel: LimitPanel, limits: Any) -> None:
    assert offered(panel) == (*gib(8, 12, 16, 24, 48, 80), "This GPU", "Other…")
    assert panel.cards.value == "24"
    panel.show_card(limits.card(11.6), "")
    assert offered(panel) == (*gib(2, 4, 6, 8), "This GPU", "Other…")
    assert panel.cards.value == ""
    panel.show_card(limits.card(11.6), "10")
    assert offered(panel) == (*gib(2, 4, 6, 8, 10), "This GPU", "Other…")
    assert panel.cards.value == "10"
    panel.show_card(limits.card(9.0, "cpu"), "2.0")
    assert offered(panel) == (*gib(0.5, 1, 2, 4), "Other…") and panel.cards.value == "2"


def test_a_cpu_starts_at_a_limit_that_its_memory_has_room_for(panel: LimitPanel, limits: Any) -> None:
    for gib, usual in ((64.0, "1"), (1.5, "0.5"), (0.8, "0.4")):
        panel.show_card(limits.card(gib, "cpu"), "")
        assert panel.cards.value == usual
    panel.show_card(limits.card(64.0, "cpu"), "nonsense")
    assert panel.cards.value == "1"


def test_any_other_size_can_be_typed(panel: LimitPanel, qtbot: QtBot) -> None:
    panel.cards.box.edited.emit("other")
    assert panel.cards.value == "24"
    (dialog,) = panel.cards.findChildren(OtherSize)
    dialog.edit.setText("3,5")
    with qtbot.waitSignal(panel.card_chosen) as chosen:
        dialog.accept()
    assert chosen.args == ["3.5"]


@pytest.mark.parametrize("typed", ["abc", "", "-5", "0", "nan", "inf", "140", "999999999999", "1e3"])
def test_what_is_no_size_is_refused_in_words_and_stays_to_be_mended(
    panel: LimitPanel, qtbot: QtBot, typed: str
) -> None:
    panel.cards.box.edited.emit("other")
    (dialog,) = panel.cards.findChildren(OtherSize)
    dialog.edit.setText(typed)
    with qtbot.assertNotEmitted(panel.card_chosen):
        dialog.accept()
    assert dialog.isVisible() and dialog.edit.text() == typed
    assert (dialog.field.problem() or "").endswith(" a number from 0.1 to 139.8.")
    dialog.edit.setText("12")
    assert dialog.field.problem() is None
    dialog.reject()


def test_a_card_is_chosen_for_the_form(panel: LimitPanel, qtbot: QtBot) -> None:
    with qtbot.waitSignal(panel.card_chosen) as chosen:
        panel.cards.box.edited.emit("48")
    assert chosen.args == ["48"]
