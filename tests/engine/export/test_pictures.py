"""Pictures: SVG is XML with text in it, PNG is twice as fine, and both say what was measured on what."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from engine.drawing.looks import side_looks
from engine.drawing.shapes import Box, Stroke
from engine.export.content import Content, content_of
from engine.export.formats import COMPARISON
from engine.export.report.charts import Charts, picture, write_picture
from engine.export.report.report import report_of
from engine.store.store import Store
from resources.looks import MARK_FILLS

Trained = Callable[..., str]
SVG = "{http://www.w3.org/2000/svg}"


def test_svg_is_xml_with_real_text_and_the_settings(hostile: Content, tmp_path: Path) -> None:
    root = ElementTree.parse(COMPARISON.export(hostile, tmp_path / "x.svg")).getroot()
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert any(text.startswith("Throughput") for text in texts)
    assert any(text.startswith("a card") for text in texts)
    told = json.loads(root.findtext(f"{SVG}metadata") or "")
    assert json.loads(told["Description"])["model"] == "small-cnn"
    assert not list(root.iter(f"{SVG}script"))


@pytest.mark.parametrize("name", ["throughput", "loss", "accuracy", "memory"])
def test_any_chart_can_be_had_alone(pair: Content, tmp_path: Path, name: str) -> None:
    write_picture(pair, tmp_path / "x.svg", charts=(name,))  # type: ignore[arg-type]
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    titles = {"Throughput", "Training loss", "Validation accuracy", "Peak memory"}
    shown = titles & {element.text for element in root.iter(f"{SVG}text")}
    assert len(shown) == 1


def test_png_is_sharp_and_says_what_it_shows(hostile: Content, tmp_path: Path) -> None:
    drawing = picture(hostile, report_of(hostile))
    write_picture(hostile, tmp_path / "x.png")
    with Image.open(tmp_path / "x.png") as shot:
        assert shot.size == (round(2 * drawing.width), round(2 * drawing.height))
        assert shot.info["Title"] == "FP16 AMP against FP32"
        assert json.loads(shot.info["Description"])["device_name"] == "a card"
        # the baseline's blue and the other's orange are there
        colours = {colour for _count, colour in shot.getcolors(1_000_000) or ()}
    assert {(0x00, 0x64, 0xA6), (0xBF, 0x57, 0x00)} <= colours


def test_sides_of_one_precision_are_told_apart_by_their_marks(exports_store: Store, trained: Trained) -> None:
    ids = [trained("fp16", step={"recipe": recipe}) for recipe in ("plain", "fast", "channels_last")]
    sides = content_of(exports_store, ids).comparison.sides
    looks = [side_looks(sides)[side.id] for side in sides]
    assert [look.fill for look in looks] == list(MARK_FILLS)
    assert len({look.mark(0, 0, 8) for look in looks}) == len(looks)
    assert len({(look.ink, look.symbol, look.dash) for look in looks}) == 1


def test_a_whisker_that_dwarfs_the_bars_is_cut(exports_store: Store, trained: Trained) -> None:
    ids = [
        trained(precision, speed=speed, seed=seed)
        for precision, speeds in (("fp32", (300.0, 900.0)), ("fp16", (1_000.0, 1_010.0)))
        for seed, speed in enumerate(speeds)
    ]
    content = content_of(exports_store, ids)
    interval = content.comparison.figures[0].cells[0].interval
    assert interval is not None and interval[1] > 100_000
    chart = Charts(content).chart("throughput")
    assert chart is not None
    drawing = chart.draw(720)
    longest = max(shape.width for shape in drawing.shapes if isinstance(shape, Box))
    assert longest > 200
    across = [x for shape in drawing.shapes if isinstance(shape, Stroke) for x, _ in shape.points]
    assert max(across) <= drawing.width
