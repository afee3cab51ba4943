"""The animated race opens, keeps the race's pace, begins and ends with its result, and stays small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

from engine.cli import main
from engine.drawing.blocks import UNLIT
from engine.drawing.shapes import colour
from engine.experiment.paths import store_path
from engine.export.content import Content, content_of
from engine.export.formats import COMPARISON
from engine.export.race import FIRST_MS, FRAME_MS, GIF_SCALE, LAST_MS, Film, card_of, gif_colors, race_source
from engine.export.report.report import report_of
from engine.protocol.pictures import sheet_of
from engine.store.store import Store
from resources.looks import DARK

Trained = Callable[..., str]


@pytest.fixture
def short(exports_store: Store, trained: Trained) -> Content:
    """A race of three seconds: 50 batches of 64 at 1,067 and at 2,667 a second."""
    ids = [trained(name, speed=speed, steps=60) for name, speed in (("fp32", 1_067.0), ("fp16", 2_667.0))]
    noise = sheet_of(np.random.default_rng(0).integers(0, 256, (200, 48, 48), np.uint8))
    return replace(content_of(exports_store, ids), pictures=lambda run_ids: noise)


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "size"), [(".webp", (1_280, 720)), (".gif", (960, 540))])
def test_the_file_plays_for_ever_at_the_races_pace(
    short: Content, tmp_path: Path, suffix: str, size: tuple[int, int]
) -> None:
    path = COMPARISON.export(short, tmp_path / f"race{suffix}")
    race = card_of(short, report_of(short)).scene
    assert path.stat().st_size < 2_000_000
    with Image.open(path) as shown:
        assert shown.size == size and shown.info["loop"] == 0
        # a WebP tells how long a frame is shown once it is read
        images = [(frame.convert("RGB"), frame.info["duration"]) for frame in ImageSequence.Iterator(shown)]
    durations = [duration for _image, duration in images]
    assert durations[0] == FIRST_MS and durations[-1] >= LAST_MS
    moving = sum(durations) - FIRST_MS - LAST_MS
    assert abs(moving - 1_000 * race.seconds / race.playback_rate) <= 2 * FRAME_MS
    # as near as a GIF's colours allow
    first, last = (np.asarray(images[place][0], np.int16) for place in (0, -1))
    assert np.abs(first - last).mean() < 1


def test_a_frame_shows_the_moment_that_it_is_shown_at(short: Content) -> None:
    card = card_of(short, report_of(short))
    corner = card.lanes[1].corner(20)
    place = (round(corner[0] + 8), round(corner[1] + 8))
    unlit = tuple(bytes.fromhex(colour(DARK, UNLIT).removeprefix("#")))
    film = Film(card, DARK, 1.0)
    assert film.getpixel(place) != unlit, "the first frame is the end"
    lit_at = None
    for number in range(1, film.n_frames):
        film.seek(number)
        if lit_at is None and film.getpixel(place) != unlit:
            lit_at = sum(film.durations[1:number]) / 1e3
    race = race_source(short).race
    true = race.mixed.seconds_to(21 * race.block_samples)
    assert lit_at is not None and true is not None
    late = lit_at * race.playback_rate - true
    assert -1e-6 <= late <= FRAME_MS / 1e3 * race.playback_rate + 1e-6


@pytest.mark.parametrize("suffix", [".webp", ".gif"])
def test_what_does_not_change_is_one_frame(
    exports_store: Store, trained: Trained, tmp_path: Path, suffix: str
) -> None:
    # tanks would fill all the time
    one = {"batch_size": 1, "peak_mib": None}
    ids = [trained(name, speed=speed, steps=20, **one) for name, speed in (("fp32", 1.0), ("fp16", 2.0))]
    content = content_of(exports_store, ids)
    film = Film(card_of(content, report_of(content)), DARK, 1.0)
    path = COMPARISON.export(content, tmp_path / f"race{suffix}")
    with Image.open(path) as shown:
        assert shown.n_frames < film.n_frames


@pytest.mark.parametrize("suffix", [".webp", ".gif"])
def test_frames_come_back_as_they_were(short: Content, tmp_path: Path, suffix: str) -> None:
    card = card_of(short, report_of(short))
    is_gif = suffix == ".gif"
    film = Film(card, DARK, GIF_SCALE, gif_colors(card, DARK)) if is_gif else Film(card, DARK, 1.0)
    ends = list(accumulate(film.durations))
    with Image.open(COMPARISON.export(short, tmp_path / f"race{suffix}")) as shown:
        clock = 0
        for frame in ImageSequence.Iterator(shown):
            film.seek(next(number for number, end in enumerate(ends) if clock < end))
            assert np.array_equal(np.asarray(film.convert("RGB")), np.asarray(frame.convert("RGB"))), clock
            clock += frame.info["duration"]


def test_each_ending_has_one_form_that_a_path_asks_for() -> None:
    assert COMPARISON.format_for("a.png").name == "png"
    assert COMPARISON.format_for("a.webp").name == "animation"
    assert COMPARISON.format_for("A.GIF").name == "gif"
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
        for name, options in (
            ("r.webp", []),
            ("r.gif", ["--theme", "light"]),
            ("r.png", ["--plot", "race"]),
            ("r.svg", ["--plot", "race", "--theme", "light"]),
        ):
            assert main(["export", *ids, "--to", str(tmp_path / name), *options]) == 0
            assert (tmp_path / name).stat().st_size > 10_000

    @pytest.mark.parametrize(
        ("name", "options", "words"),
        [
            ("r.webp", ["--plot", "loss"], "can only show a race"),
            ("r.png", ["--theme", "drak"], "Did you mean dark?"),
            ("r.csv", ["--theme", "dark"], "are for pictures"),
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

    def test_one_run_is_no_race(
        self, ids: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["export", ids[0], "--to", str(tmp_path / "r.webp")]) == 2
        assert capsys.readouterr().err and not (tmp_path / "r.webp").exists()
