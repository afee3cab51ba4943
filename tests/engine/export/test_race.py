"""A race as a file: its text lies within its edges, says what was measured, and plays at the race's pace."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate, combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image, ImageSequence

from engine.cli.app import main
from engine.drawing.bitmap import Painter
from engine.drawing.blocks import UNLIT, BlockGrid
from engine.drawing.shapes import CAPITAL, Drawing, TextLine, ink_color, text_width, wrapped, wrapped_evenly
from engine.experiment.paths import store_path
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.export.content import Content, content_of
from engine.export.formats import COMPARISON
from engine.export.race import (
    FIRST_MS,
    FRAME_MS,
    GIF_SCALE,
    LAST_MS,
    RACE_SUFFIXES,
    RaceFrames,
    gif_colors,
    race_source,
    race_source_if_any,
    race_writer,
    write_card_png,
    write_card_svg,
)
from engine.export.report.pages import page, write_pdf
from engine.protocol.events import Failed
from engine.protocol.pictures import ContactSheet, patterns, sheet_of
from engine.race.card import HEIGHT, WIDTH
from engine.race.words import frame_of
from engine.store.store import Store
from resources.looks import DARK, LIGHT

Trained = Callable[..., str]
SVG = "{http://www.w3.org/2000/svg}"
LONG: dict[str, Any] = {"step": {"recipe": "channels_last+compile+capture"}, "batch_size": 4_096}
TEXT: dict[str, Any] = {"model": "causal-lm-tiny", "dataset": "text", "batch_size": 16}
MEMORY = {"peak_mib": 10_445.0}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "faster": ({"speed": 880.0, **MEMORY}, {"speed": 5_016.0, "peak_mib": 3_277.0}),
    "slower": ({"speed": 5_000.0, **MEMORY}, {"speed": 4_000.0, "peak_mib": 10_400.0}),
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


def edges(words: TextLine) -> tuple[float, float]:
    width = text_width(words.text, words.size, words.weight)
    left = words.x - {"start": 0.0, "middle": width / 2, "end": width}[words.anchor]
    return left, left + width


def test_no_text_runs_over_the_edge_or_into_anything(raced: Content) -> None:
    source = race_source(raced)
    for seconds in (0.0, source.race.seconds / 3, source.race.seconds):
        shapes = source.card.drawing(frame_of(source.race, seconds)).shapes
        words = [shape for shape in shapes if isinstance(shape, TextLine) and shape.text]
        for one in words:
            # the outline of a large digit begins at the edge, and the blank before it beyond the edge
            assert edges(one)[0] >= 0 and edges(one)[1] <= WIDTH
            assert one.y - CAPITAL * one.size > 0 and one.y <= HEIGHT
        for one, other in combinations([one for one in words if len(one.text) > 1], 2):
            left, right = sorted((edges(one), edges(other)))
            is_one_line = abs(one.y - other.y) < 0.5 * min(one.size, other.size)
            assert not is_one_line or left[1] <= right[0] + 1, (one.text, other.text)
        for blocks in (shape for shape in shapes if isinstance(shape, BlockGrid)):
            beside = [one for one in words if edges(one)[0] < blocks.x + blocks.size[0]]
            bottom = blocks.y + blocks.size[1]
            assert not [one for one in beside if blocks.y < one.y and one.y - CAPITAL * one.size < bottom]


def test_the_picture_says_what_was_measured_on_what_and_when(pair: Content, tmp_path: Path) -> None:
    for palette, name in ((DARK, "dark.png"), (LIGHT, "light.png")):
        write_card_png(pair, tmp_path / name, palette=palette)
        with Image.open(tmp_path / name) as shot:
            assert shot.size == (2_560, 1_440)
            assert shot.info["Title"] == "FP16 AMP against FP32"
            assert json.loads(shot.info["Description"])["device_name"] == "a card"
            assert shot.getpixel((3, 3)) == tuple(bytes.fromhex(palette.bg0.removeprefix("#")))
    write_card_svg(pair, tmp_path / "x.svg")
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert "".join(text for text in texts if len(text) == 1) == "2.50\N{MULTIPLICATION SIGN}"
    (what,) = [text for text in texts if text.startswith("small-cnn")]
    assert f"measured {pair.runs[0].created.astimezone():%Y-%m-%d}" in what and "a card" in what
    assert "2.50 times as fast as full precision" in str(root.get("aria-label"))


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
    assert race_source(content).race.lanes[1].run.id == ids[1]
    assert race_source(content, ids[2]).race.lanes[1].run.id == ids[2]
    ids = [trained("fp32"), trained("fp16", speed=2_000.0), trained("bf16", speed=2_500.0)]
    content = content_of(exports_store, ids)
    source = race_source_if_any(content)
    assert source is not None and source.race.lanes[1].run.id == ids[2]


def noise(side: int = 48) -> ContactSheet:
    return sheet_of(np.random.default_rng(0).integers(0, 256, (200, side, side), np.uint8))


def test_a_report_has_the_card_with_the_images_of_the_runs_or_patterns_and_stays_small(
    pair: Content, tmp_path: Path
) -> None:
    sheet = sheet_of(np.full((3, 16, 16), 90, np.uint8))
    shown = race_source(replace(pair, pictures=lambda run_ids: sheet)).tiles.gray
    assert shown.shape == (3, 16, 16) and shown.mean() > 90
    damaged = ContactSheet(b"no image", 16, 3)
    for pictures in (pair.pictures, lambda run_ids: damaged):
        tiles = race_source(replace(pair, pictures=pictures)).tiles.gray
        assert np.array_equal(tiles, patterns(200))
    noisy = replace(pair, pictures=lambda run_ids: noise())
    text = page(noisy)
    assert text.count('<section class="race"') == 1 and len(text) < 1_000_000
    write_pdf(noisy, tmp_path / "x.pdf")
    assert (tmp_path / "x.pdf").stat().st_size < 1_000_000


def test_a_report_of_one_run_has_no_card(exports_store: Store, trained: Trained) -> None:
    assert 'class="race"' not in page(content_of(exports_store, [trained("fp32")]))


@pytest.mark.parametrize("words", ["one", "seven words that would leave one alone", "a " * 60 + "b"])
@pytest.mark.parametrize("room", [60.0, 120.0, 260.0])
def test_lines_are_made_alike_without_becoming_more(words: str, room: float) -> None:
    greedy, even = (wrap(words, room, 14.0, most=9) for wrap in (wrapped, wrapped_evenly))
    assert len(even) == len(greedy) and " ".join(even) == " ".join(greedy)
    assert text_width(even[-1], 14.0) >= text_width(greedy[-1], 14.0)


def test_a_bitmap_has_a_line_as_wide_as_it_was_planned() -> None:
    words = "For this training full precision is the better choice on this card, above all with small models"
    drawing = Drawing(900.0, 40.0, (TextLine(0.0, 28.0, words, "text", 16.0),), "")
    painter = Painter.blank(drawing, "bg0", DARK, 2.0)
    painter.paint(drawing)
    inked = np.nonzero(np.asarray(painter.image.convert("L")).max(axis=0) > 90)[0]
    assert inked.max() / 2 == pytest.approx(text_width(words, 16.0), abs=2.0)


@pytest.fixture
def short(exports_store: Store, trained: Trained) -> Content:
    """A race of three seconds: 50 batches of 64 at 1,067 and at 2,667 a second."""
    steps = {"steps": 135}
    ids = [trained(name, speed=speed, **steps) for name, speed in (("fp32", 1_067.0), ("fp16", 2_667.0))]
    return replace(content_of(exports_store, ids), pictures=lambda run_ids: noise())


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "size"), [(".webp", (1_280, 720)), (".gif", (960, 540))])
def test_the_file_plays_for_ever_at_the_races_pace_with_frames_as_they_were(
    short: Content, tmp_path: Path, suffix: str, size: tuple[int, int]
) -> None:
    path = COMPARISON.export(short, tmp_path / f"race{suffix}")
    source = race_source(short)
    race = source.race
    assert path.stat().st_size < 2_000_000
    is_gif = suffix == ".gif"
    colors = gif_colors(source, DARK) if is_gif else None
    film = RaceFrames(source, DARK, GIF_SCALE if is_gif else 1.0, colors)
    ends, clock = list(accumulate(film.durations)), 0
    with Image.open(path) as shown:
        assert shown.size == size and shown.info["loop"] == 0
        for frame in ImageSequence.Iterator(shown):
            film.seek(next(number for number, end in enumerate(ends) if clock < end))
            assert np.array_equal(np.asarray(film.convert("RGB")), np.asarray(frame.convert("RGB"))), clock
            clock += frame.info["duration"]
    moving = clock - FIRST_MS - LAST_MS
    assert abs(moving - 1_000 * race.seconds / race.playback_rate) <= 2 * FRAME_MS


@pytest.mark.slow
def test_a_frame_shows_the_moment_that_it_is_shown_at(short: Content) -> None:
    source = race_source(short)
    race = source.race
    blocks = [shape for shape in source.card.still.shapes if isinstance(shape, BlockGrid)][1]
    place = tuple(round(edge + 8) for edge in blocks.corner(20))
    unlit = tuple(bytes.fromhex(ink_color(DARK, UNLIT).removeprefix("#")))
    film = RaceFrames(source, DARK, 1.0)
    assert film.getpixel(place) != unlit, "the first frame is the end"
    lit_at = None
    for number in range(1, film.n_frames):
        film.seek(number)
        if lit_at is None and film.getpixel(place) != unlit:
            lit_at = sum(film.durations[1:number]) / 1e3
    assert lit_at is not None
    late = lit_at * race.playback_rate - race.seconds * 21 / 200
    assert -1e-6 <= late <= FRAME_MS / 1e3 * race.playback_rate + 1e-6


def test_each_ending_has_one_form_that_a_path_asks_for() -> None:
    names = {"a.png": "png", "a.webp": "animation", "A.GIF": "gif", "board/": "tensorboard"}
    assert {path: COMPARISON.format_for(path).name for path in names} == names
    assert {one.name for one in COMPARISON.formats if one.is_race} == {"card", "animation", "gif"}


class TestVerb:
    """`ammeter export` with a race."""

    @pytest.fixture
    def exports_store(self, home: Path) -> Store:
        return Store(store_path())

    @pytest.fixture
    def ids(self, exports_store: Store, trained: Trained) -> list[str]:
        made = [trained("fp32", steps=20), trained("fp16", speed=2_500.0, steps=20)]
        exports_store.close()
        return made

    @pytest.mark.slow
    def test_it_writes_a_race(self, ids: list[str], tmp_path: Path) -> None:
        for name, options in (("r.gif", ["--theme", "light"]), ("r.png", ["--plot", "race"])):
            assert main(["export", *ids, "--to", str(tmp_path / name), *options]) == 0
            assert (tmp_path / name).stat().st_size > 10_000

    @pytest.mark.parametrize(
        ("name", "options", "words"),
        [
            ("r.webp", ["--plot", "loss"], "can only show a replay"),
            ("r.png", ["--theme", "drak"], "Did you mean dark?"),
            ("r.csv", ["--theme", "dark"], "apply to images only"),
            ("r.png", ["--plot", "rase"], "Did you mean race?"),
        ],
    )
    def test_what_it_cannot_do_it_says(
        self,
        ids: list[str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        name: str,
        options: list[str],
        words: str,
    ) -> None:
        assert main(["export", *ids, "--to", str(tmp_path / name), *options]) == 2
        assert words in capsys.readouterr().err and not (tmp_path / name).exists()
