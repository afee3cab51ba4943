"""What a report says: verdict first, figures with their ratios, what differs, and what to doubt."""

from __future__ import annotations

import base64
import io
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from fontTools.ttLib import TTFont

from engine.compare.comparison import compare
from engine.compare.evidence import Evidence
from engine.compare.verdict import join_pieces
from engine.drawing.shapes import TextLine
from engine.experiment.experiment import experiment_from
from engine.experiment.problem import ProblemError
from engine.export.content import Content, content_of
from engine.export.document import Document, MetricText, Section
from engine.export.formats import COMPARISON
from engine.export.race import race_source_if_any
from engine.export.report.charts import picture
from engine.export.report.pages import page
from engine.export.report.report import report_of
from engine.export.writers.text import latex, markdown
from engine.protocol.events import Finished, Summary
from engine.store.store import Store
from tests.records import started_of

Trained = Callable[..., str]


def section(report: Document, title: str) -> Section:
    return next(known for known in report.sections if known.title.startswith(title))


def cell(report: Document, figure: str) -> MetricText:
    """The figure of the second side."""
    found = next(row[2] for row in section(report, "Metrics").rows if row[0] == figure)
    assert isinstance(found, MetricText)
    return found


def test_sides_stand_in_the_order_of_the_runs_and_the_chosen_one_leads(
    exports_store: Store, trained: Trained
) -> None:
    fp16, first, bf16, second = (
        trained(precision, seed=seed, speed=speed)
        for precision, seed, speed in (("fp16", 0, 900), ("fp32", 0, 500), ("bf16", 0, 800), ("fp32", 1, 500))
    )
    ids = [fp16, first, bf16, second]
    report = report_of(content_of(exports_store, ids))
    assert [str(row[1]) for row in section(report, "Ranking").rows] == ["FP16 AMP", "BF16 AMP", "FP32"]
    assert report.title == "FP16 AMP against FP32"
    assert [row[-1] for row in section(report, "Runs").rows] == [fp16, first, second, bf16]
    content = content_of(exports_store, ids, first, bf16)
    led = report_of(content)
    assert led.title == "BF16 AMP against FP32" and not led.is_named
    assert [answer.side.title for answer in led.answers] == ["BF16 AMP"]
    source = race_source_if_any(content)
    assert source is not None and source.race.lanes[1].side.title == "BF16 AMP"
    other = report_of(content_of(exports_store, ids, bf16, fp16))
    assert other.title == "FP16 AMP against BF16 AMP"
    with pytest.raises(ProblemError, match="not among those to export"):
        content_of(exports_store, [fp16, first], None, bf16)


def test_the_memory_of_scripts_includes_their_warm_up(exports_store: Store, trained: Trained) -> None:
    def method(*ids: str) -> str:
        return " ".join(section(report_of(content_of(exports_store, ids)), "How it was measured").sentences)

    script = experiment_from({"command": {"line": "python train.py"}, "steps": 30})
    ran = exports_store.add(script).id
    exports_store.begin(ran)
    exports_store.record(ran, [started_of(script), Finished(summary=Summary(steps=30))])
    of_model, of_script = "Memory is the peak of training without warm-up.", "including the warm-up."
    assert of_script in method(ran) and of_model not in method(ran)
    model = trained("fp32")
    assert of_model in method(model) and of_script not in method(model)


def test_a_title_stands_over_every_form(exports_store: Store, trained: Trained) -> None:
    content = content_of(exports_store, [trained("fp32"), trained("fp16")], title=" Our new GPU <1> ")
    report = report_of(content)
    assert report.title == "Our new GPU <1>" and report.is_named
    assert '<p class="name"><bdi>Our new GPU &lt;1&gt;</bdi></p>' in page(content)
    assert markdown(report).startswith("## Our new GPU \\<1\\>\n")
    shown = [shape.text for shape in picture(content, report).shapes if isinstance(shape, TextLine)]
    assert "Our new GPU <1>" in shown


def test_the_page_brings_its_own_fonts(pair: Content) -> None:
    text = page(pair)
    packed = re.findall(r'font-weight: (\d+); src: url\("data:font/woff;base64,([^"]+)"', text)
    assert [weight for weight, _ in packed] == ["400", "500", "600"]
    with TTFont(io.BytesIO(base64.b64decode(packed[0][1]))) as font:
        assert (
            font["name"].getDebugName(1) == "Inter" and ord("\N{MULTIPLICATION SIGN}") in font.getBestCmap()
        )
    assert "font-src data:;" in text


def test_a_run_alone_is_no_baseline(exports_store: Store, trained: Trained) -> None:
    report = report_of(content_of(exports_store, [trained("fp16")]))
    assert report.answers[0].text.startswith("FP16 AMP trained at 1,000 samples/s")
    titles = [known.title for known in report.sections]
    assert "What differs" not in titles and "Settings" in titles


def test_each_doubt_is_told_once(hostile: Content) -> None:
    report = report_of(hostile)
    told = [*report.warnings, *(answer.text for answer in report.answers)]
    assert len(set(report.warnings)) == len(report.warnings)
    for words in ("NaN or infinite", "has not run yet", "is still running"):
        assert any(words in sentence for sentence in told)


def test_what_disturbed_a_measurement_comes_before_its_figures_in_every_format(
    exports_store: Store, trained: Trained
) -> None:
    note = "other programs used 69% of the CPU"
    ids = [trained("fp32"), trained("fp16", speed=120.0, speed_note=note)]
    content = content_of(exports_store, ids)
    report = report_of(content)
    answer, speed = report.answers[0], cell(report, "Throughput, img/s")
    assert join_pieces(answer.pieces) == "Unreliable measurement." and note in answer.notes[0]
    assert (speed.relation, speed.interval, speed.is_sound) == ("0.12×", "unreliable", False)
    assert report.foot[0].startswith("Unreliable") and not report.warnings
    for told in (page(content), markdown(report), latex(report)):
        text = re.sub(r"[\\$]|<[^>]*>|&nbsp;|~|\s+", " ", told)
        places = [text.index(words) for words in ("Unreliable measurement", "0.12")]
        assert places == sorted(places) and "unreliable" in text
    footer = [shape.text for shape in picture(content, report).shapes if isinstance(shape, TextLine)]
    assert any(text.startswith("Unreliable measurement.") for text in footer)


def test_a_run_alone_without_a_speed_says_what_it_did(exports_store: Store, trained: Trained) -> None:
    run_id = trained("fp32", steps=3)
    run = exports_store.run(run_id)
    assert run.summary is not None
    unmeasured = replace(run, summary=run.summary.model_copy(update={"samples_per_second": None}))
    content = replace(
        content_of(exports_store, [run_id]), comparison=compare([Evidence(unmeasured, np.empty(0), ())])
    )
    answer = report_of(content).answers[0]
    assert answer.text.startswith(
        "FP32 was not measured. FP32 has no measured throughput. FP32 trained 3 steps"
    )


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".html", ".pdf", ".png", ".svg"])
def test_a_file_computes_its_report_once(pair: Content, tmp_path: Path, suffix: str) -> None:
    made = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code is report_of.__code__:
            made.append(frame.f_locals["content"])

    sys.setprofile(note)
    try:
        COMPARISON.export(pair, tmp_path / f"x{suffix}")
    finally:
        sys.setprofile(None)
    assert made == [pair]
