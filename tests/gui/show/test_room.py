"""Show fits its panel, from the smallest window to the largest screen, in both themes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QAbstractButton

from engine.race.race import Race
from engine.store.record import RunRecord
from gui.show.scale import SMALLEST_TEXT, Scale, scale_for
from gui.theme.theme import theme
from tests.race_cards import assert_clear, texts_of

Trained = Callable[..., RunRecord]
Raced = Callable[..., Race]

BUSY = "other programs took 34 % of the processor meanwhile"
LONG_MODEL = "some_model_with_a_name_that_is_longer_than_anybody_would_think_of_patch14_reg4"


class TestRoom:
    def test_everything_fits_without_scrolling(self, room: Any, usual: Race) -> None:
        room.panel.show_race(usual, None)
        for at in (0.0, usual.seconds / 2, usual.seconds):
            room.clock.seek(at)
            room.assert_fits()

    def test_long_names_and_many_doubts_fit(self, room: Any, trained: Trained, raced: Raced) -> None:
        settings = {"model": LONG_MODEL, "batch_size": 1_024}
        recipe = {"step": {"recipe": "channels_last+fused+compile+capture"}}
        figures = {"speed_note": BUSY, "other_programs_mib": 9_000.0, "peak_allocated_mib": 1_045.0}
        race = raced(
            trained("fp32", 1_000.0, settings=settings, name="n" * 90, **figures),
            trained("fp32", 1_100.0, settings=settings | recipe, **figures),
        )
        room.panel.show_race(race, None)
        room.clock.seek(race.seconds)
        room.assert_fits()

    @pytest.mark.parametrize("rest", ["in the same 1,234.5 seconds", "in the same time, over the whole runs"])
    @pytest.mark.parametrize("number", ["0.80", "1,250"])
    def test_no_line_beside_the_number_is_cut_off(
        self, room: Any, usual: Race, rest: str, number: str
    ) -> None:
        room.panel.show_race(usual, None)
        scene = room.view.scene
        end = replace(scene.end, number=number, caption=("as many images", rest))
        room.view.show_scene(replace(scene, at=lambda seconds: end), end, "How sure is that?")
        for size in room.SIZES:
            room.resize(*size)
            assert_clear(room.view.card, end)
            text = " ".join(texts_of(room.view.card, end))
            assert f"as many images {rest}" in text and "…" not in text, size

    def test_the_parts_do_not_cover_one_another(self, room: Any, usual: Race) -> None:
        room.panel.show_race(usual, None)
        for size in room.SIZES:
            room.resize(*size)
            areas = [part.area for part in room.view.card.parts]
            assert all(area.width > 20 and area.height > 15 for area in areas)
            # a part may begin on the line on which another ends
            inner = [replace(area, bottom=area.bottom - 1) for area in areas]
            assert not any(one.meets(other) for one, other in combinations(inner, 2)), size

    def test_a_window_made_large_can_be_made_small_again(self, room: Any, usual: Race) -> None:
        room.panel.show_race(usual, None)
        room.resize(3840, 2160)
        room.resize(1024, 548)
        assert room.window.size() == QSize(1024, 548)

    def test_text_grows_with_the_panel_and_never_shrinks_beyond_reading(self) -> None:
        small, large = scale_for(QSize(960, 548)), scale_for(QSize(3840, 2160))
        assert large.text(208) > 2 * Scale().text(208) > 2 * small.text(208)
        assert small.text(17) == SMALLEST_TEXT and small.text(13) == 13
        assert scale_for(QSize(0, 0)).px(48) > 0

    @pytest.mark.parametrize("mode", ["dark", "light"])
    def test_its_theme_can_change_while_it_plays(self, room: Any, usual: Race, mode: str) -> None:
        room.panel.show_race(usual, None)
        room.panel.play()
        theme().set_mode(mode)
        palette = theme().palette
        image = room.panel.grab().toImage()
        assert image.pixelColor(3, 3).name().upper() == palette.bg0

    def test_every_control_has_a_name_and_a_tooltip(self, room: Any, usual: Race) -> None:
        room.panel.show_race(usual, None)
        buttons = [one for one in room.panel.findChildren(QAbstractButton) if one.isVisible()]
        assert len(buttons) >= 8
        assert [one for one in buttons if not one.accessibleName() or not one.toolTip()] == []
