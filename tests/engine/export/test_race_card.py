"""A race's card: everything on it lies within its edges, says what was measured, and is the comparison's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from engine.drawing.bitmap import Painter
from engine.drawing.blocks import grid_for
from engine.drawing.shapes import Drawing, Words, text_width, wrapped, wrapped_evenly
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.export.content import Content, content_of
from engine.export.formats import COMPARISON
from engine.export.race import (
    RACE_SUFFIXES,
    card_of,
    race_source,
    race_source_if_any,
    race_writer,
    write_card_png,
    write_card_svg,
)
from engine.export.report.pages import page
from engine.export.report.report import report_of
from engine.protocol.events import Failed
from engine.protocol.pictures import ContactSheet, patterns, sheet_of
from engine.race.card import Card, page_card, race_card
from engine.race.parts import MEDIUM, NARROW, WIDE
from engine.store.store import Store
from resources.looks import DARK, LIGHT
from tests.race_cards import assert_clear, texts_of

Trained = Callable[..., str]
SVG = "{http://www.w3.org/2000/svg}"
LONG: dict[str, Any] = {"step": {"recipe": "channels_last+compile+capture"}, "batch_size": 4_096}
TEXT: dict[str, Any] = {"model": "causal-lm-tiny", "dataset": "text", "batch_size": 16}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "faster": ({"speed": 880.0}, {"speed": 5_016.0}),
    "slower": ({"speed": 5_000.0}, {"speed": 4_000.0}),
    "very much faster": ({"speed": 10.0}, {"speed": 12_500.0}),
    "very much slower": ({"speed": 12_500.0}, {"speed": 50.0}),
    "no common figure": ({"speed": 880.0}, {"speed": 516.0, **TEXT}),
    "long names": ({"speed": 880.0, "batch_size": 64}, {"precision": "fp32", "speed": 1_516.0, **LONG}),
    "not clean": ({"speed": 880.0}, {"speed": 900.0, "model": "resnet18"}),
}


@pytest.fixture(params=[*CASES, "failed half-way"])
def raced(request: pytest.FixtureRequest, exports_store: Store, trained: Trained) -> Content:
    if request.param not in CASES:
        failed = trained("fp16", speed=5_000.0, steps=40, ends=False)
        problem = Problem(kind=Kind.OUT_OF_MEMORY, message="Out of memory.", remedy="A smaller batch.")
        exports_store.record(failed, [Failed(problem=problem)])
        return content_of(exports_store, [trained("fp32"), failed])
    full, mixed = CASES[request.param]
    ids = [trained("fp32", **full), trained(**{"precision": "fp16", **mixed})]
    return content_of(exports_store, ids)


def _cards(content: Content) -> list[Card]:
    source = race_source(content)
    pages = [page_card(source.scene, sizes) for sizes in (WIDE, MEDIUM, NARROW)]
    return [card_of(content, report_of(content)), *pages]


def test_no_text_runs_over_the_edge_or_into_anything(raced: Content) -> None:
    for card in _cards(raced):
        for seconds in (0.0, card.scene.seconds / 3, card.scene.seconds):
            assert_clear(card, card.scene.at(seconds))


def test_memory_and_doubts_stand_on_the_card(exports_store: Store, trained: Trained, tmp_path: Path) -> None:
    ids = [trained("fp32", peak_mib=82.4), trained("bf16", peak_mib=61.7)]
    for card in _cards(content_of(exports_store, ids)):
        texts = texts_of(card, card.scene.end)
        assert any("Less than three quarters" in text for text in texts), texts
    ids = [trained("fp32"), trained("fp16", model="resnet18", speed=2_500.0)]
    write_card_svg(content_of(exports_store, ids), tmp_path / "x.svg")
    assert "With caution:" in (tmp_path / "x.svg").read_text()


def test_the_picture_says_what_was_measured_on_what_and_when(pair: Content, tmp_path: Path) -> None:
    for palette, name in ((DARK, "dark.png"), (LIGHT, "light.png")):
        write_card_png(pair, tmp_path / name, palette=palette)
        with Image.open(tmp_path / name) as shot:
            assert shot.size == (2_560, 1_440)
            assert shot.info["Title"] == "FP16 AMP against FP32"
            assert json.loads(shot.info["Description"])["device_name"] == "a card"
            ground = tuple(bytes.fromhex(palette.bg0.removeprefix("#")))
            assert shot.getpixel((3, 3)) == ground
    write_card_svg(pair, tmp_path / "x.svg")
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert "".join(text for text in texts if len(text) == 1) == "2.50\N{MULTIPLICATION SIGN}"
    (what,) = [text for text in texts if text.startswith("small-cnn")]
    assert f"measured {pair.runs[0].created.astimezone():%Y-%m-%d}" in what
    assert any(text.startswith("a card") for text in texts)
    assert "2.50 times as many images" in str(root.get("aria-label"))


@pytest.mark.parametrize("suffix", RACE_SUFFIXES)
def test_runs_without_a_race_are_answered_in_a_sentence(
    exports_store: Store, trained: Trained, tmp_path: Path, suffix: str
) -> None:
    alone = content_of(exports_store, [trained("fp32")])
    path = tmp_path / f"race{suffix}"
    with pytest.raises(ProblemError) as raised:
        COMPARISON.export(alone, path, write=race_writer(suffix))
    assert raised.value.problem.message.endswith(".") and raised.value.problem.remedy
    assert {one.name for one in tmp_path.iterdir()} <= {"exported", "home", "data"}


def test_another_side_can_be_raced_as_the_one_that_leads_a_report(
    exports_store: Store, trained: Trained
) -> None:
    ids = [trained("fp32"), trained("fp16", speed=2_500.0), trained("bf16", speed=2_000.0)]
    content = content_of(exports_store, ids)
    assert race_source(content).race.mixed.run.id == ids[1]
    assert race_source(content, ids[2]).race.mixed.run.id == ids[2]
    ids = [trained("fp32"), trained("fp16", speed=2_000.0), trained("bf16", speed=2_500.0)]
    content = content_of(exports_store, ids)
    source = race_source_if_any(content, report_of(content))
    assert source is not None and source.race.mixed.run.id == ids[2]


def test_pictures_are_those_of_the_runs_or_patterns(pair: Content) -> None:
    sheet = sheet_of(np.full((3, 16, 16), 90, np.uint8))
    shown = race_source(replace(pair, pictures=lambda run_ids: sheet)).tiles
    assert shown.shape == (3, 16, 16) and shown.mean() > 90
    assert np.array_equal(race_source(pair).tiles, patterns(200))
    damaged = ContactSheet(b"no picture", 16, 3)
    tiles = race_source(replace(pair, pictures=lambda run_ids: damaged)).tiles
    assert np.array_equal(tiles, patterns(200))


def test_a_report_has_the_card_and_stays_small(pair: Content) -> None:
    noise = sheet_of(np.random.default_rng(0).integers(0, 256, (200, 48, 48), np.uint8))
    text = page(replace(pair, pictures=lambda run_ids: noise))
    assert text.count('<section class="panel race">') == 1
    assert len(text) < 1_000_000


def test_a_report_of_one_run_has_no_card(exports_store: Store, trained: Trained) -> None:
    assert "panel race" not in page(content_of(exports_store, [trained("fp32")]))


@pytest.mark.parametrize("count", [1, 2, 3, 40, 61, 150, 199, 200])
def test_a_grid_holds_all_its_blocks(count: int) -> None:
    grid = grid_for(count, 906.0, 117.0)
    assert grid.columns * grid.rows >= count > (grid.columns - 1) * grid.rows
    assert grid.width <= 906.1 and grid.height <= 117.1
    if count >= 20:
        # edges of both lanes, of the title and of the counters stand in one line
        assert grid.width == pytest.approx(906.0)


@pytest.mark.parametrize("words", ["one", "seven words that would leave one alone", "a " * 60 + "b"])
@pytest.mark.parametrize("room", [60.0, 120.0, 260.0])
def test_lines_are_made_alike_without_becoming_more(words: str, room: float) -> None:
    greedy, even = (wrap(words, room, 14.0, most=9) for wrap in (wrapped, wrapped_evenly))
    assert len(even) == len(greedy) and " ".join(even) == " ".join(greedy)
    assert text_width(even[-1], 14.0) >= text_width(greedy[-1], 14.0)


def test_a_bitmap_has_a_line_as_wide_as_it_was_planned() -> None:
    words = "For this training full precision is the better choice on this card, above all with small models"
    drawing = Drawing(900.0, 40.0, (Words(0.0, 28.0, words, "text", 16.0),), "")
    painter = Painter.blank(drawing, "bg0", DARK, 2.0)
    painter.paint(drawing)
    inked = np.nonzero(np.asarray(painter.image.convert("L")).max(axis=0) > 90)[0]
    assert inked.max() / 2 == pytest.approx(text_width(words, 16.0), abs=2.0)


def test_a_card_without_details_of_its_lanes_is_described_without_a_gap(
    exports_store: Store, trained: Trained
) -> None:
    ids = [trained("fp32"), trained("fp32", step={"recipe": "fast"})]
    source = race_source(content_of(exports_store, ids))
    described = race_card(source.scene).drawing(source.scene.at(0)).description
    assert ", :" not in described and described.count(": 0 images") == 2
