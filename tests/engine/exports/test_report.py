"""What a report says: verdict first, figures with their ratios, what differs, and what to doubt."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from engine.events import Environment
from engine.exports.content import Content, content_of
from engine.exports.drawing import Words
from engine.exports.html import page
from engine.exports.latex import latex
from engine.exports.markdown import markdown
from engine.exports.pictures import picture
from engine.exports.report import report_of
from engine.records.comparison import compare
from engine.records.evidence import Evidence
from engine.records.store import Store
from engine.records.verdict import plain

Trained = Callable[..., str]


def test_a_pair_is_told_with_ratios_and_no_interval_of_them(pair: Content) -> None:
    report = report_of(pair)
    assert report.title == "FP16 AMP against FP32"
    assert report.subject == "small-cnn · fashion · batch 64 · 100 steps · warm-up excluded"
    assert "2.50 times as fast" in report.answers[0].text
    speed = report.figures[0]
    assert (speed.title, speed.unit) == ("Throughput", "samples/s")
    assert [(cell.value, cell.beside, cell.interval) for cell in speed.cells] == [
        ("1,000", "", ""),
        ("2,500", "2.50×", ""),
    ]
    assert [(line.title, line.values) for line in report.differing] == [("Precision", ("FP32", "FP16 AMP"))]
    assert not report.doubts
    assert any("trained once" in sentence for sentence in report.method)


def test_accuracy_of_one_run_each_claims_no_spread(pair: Content) -> None:
    accuracy = next(line for line in report_of(pair).figures if line.title == "Accuracy")
    assert accuracy.cells[1].interval == "no spread known"


def test_repeats_are_one_side_with_an_interval(exports_store: Store, trained: Trained) -> None:
    ids = [
        trained(precision, speed=speed * (1 + 0.01 * seed), seed=seed)
        for seed in range(3)
        for precision, speed in (("fp32", 1_000.0), ("bf16", 1_800.0))
    ]
    report = report_of(content_of(exports_store, ids))
    assert [side.title for side in report.sides] == ["FP32", "BF16 AMP"]
    assert len(report.runs) == 6 and "3 repeats" in report.subject
    assert " to " in report.figures[0].cells[1].interval
    assert any("Repeats are runs in processes of their own" in sentence for sentence in report.method)


def test_the_baseline_comes_first_in_whatever_order_the_runs_are_given(
    exports_store: Store, trained: Trained
) -> None:
    fp16, first, bf16, second = (
        trained(precision, seed=seed)
        for precision, seed in (("fp16", 0), ("fp32", 0), ("bf16", 0), ("fp32", 1))
    )
    ids = [fp16, first, bf16, second]
    report = report_of(content_of(exports_store, ids))
    assert [side.title for side in report.sides] == ["FP32", "FP16 AMP", "BF16 AMP"]
    assert [line.id for line in report.runs] == [first, second, fp16, bf16]
    assert all(line.cells[0].beside == "" for line in report.figures)
    chosen = report_of(content_of(exports_store, ids, bf16))
    assert [side.title for side in chosen.sides] == ["BF16 AMP", "FP16 AMP", "FP32"]


def test_a_run_alone_is_no_baseline(exports_store: Store, trained: Trained) -> None:
    report = report_of(content_of(exports_store, [trained("fp16")]))
    assert report.answers[0].text.startswith("FP16 AMP trained 1,000 samples a second")
    assert not report.differing and report.shared


def test_each_doubt_is_told_once(hostile: Content) -> None:
    report = report_of(hostile)
    told = [*report.doubts, *(answer.text for answer in report.answers)]
    assert len(set(report.doubts)) == len(report.doubts)
    for words in ("NaN or infinite", "has not run yet", "is still running"):
        assert any(words in sentence for sentence in told)


def test_what_disturbed_a_measurement_comes_before_its_figures_in_every_format(
    exports_store: Store, trained: Trained
) -> None:
    note = "other programs took 69 % of the processor meanwhile"
    ids = [trained("fp32"), trained("fp16", speed=120.0, speed_note=note)]
    content = content_of(exports_store, ids)
    report = report_of(content)
    answer, speed = report.answers[0], report.figures[0].cells[1]
    assert plain(answer.pieces) == "Not a clean measurement." and note in answer.notes[0]
    assert (speed.beside, speed.interval, speed.is_sound) == ("0.12×", "not clean", False)
    assert report.disturbances and not report.doubts
    for told in (page(content), markdown(content), latex(content)):
        text = re.sub(r"[\\$]|<[^>]*>|&nbsp;|~|\s+", " ", told)
        places = [text.index(words) for words in ("Not a clean measurement", "0.12")]
        assert places == sorted(places) and "not clean" in text
    footer = [shape.text for shape in picture(content).shapes if isinstance(shape, Words)]
    assert any(text.startswith("Not a clean measurement.") for text in footer)


def test_a_clean_side_leads_before_a_faster_one_that_was_disturbed(
    exports_store: Store, trained: Trained
) -> None:
    ids = [
        trained("fp32"),
        trained("fp16", speed=9_000.0, speed_note="other programs took 20 %"),
        trained("bf16"),
    ]
    answers = report_of(content_of(exports_store, ids)).answers
    assert [answer.side.precision.value for answer in answers] == ["bf16", "fp16"]


def test_a_side_that_trained_other_work_never_leads(exports_store: Store, trained: Trained) -> None:
    ids = [trained("fp32"), trained("fp32", model="linear", speed=9_000.0), trained("fp16", speed=1_500.0)]
    report = report_of(content_of(exports_store, ids, ids[0]))
    assert [answer.side.precision.value for answer in report.answers] == ["fp16", "fp32"]


def test_a_reason_is_told_once(exports_store: Store, trained: Trained) -> None:
    card = Environment(
        device_name="a card",
        device_memory_mib=1,
        torch="2.11",
        cuda="12.6",
        python="3",
        os="Linux",
        ammeter="0",
    )
    ids = [
        trained(precision, batch_size=63, environment=card, speed=speed)
        for precision, speed in (("fp32", 1_000.0), ("fp16", 900.0))
    ]
    answer = report_of(content_of(exports_store, ids)).answers[0]
    assert answer.text.count("not a multiple of 8") == 1


def test_a_run_alone_without_a_speed_says_what_it_did(exports_store: Store, trained: Trained) -> None:
    run_id = trained("fp32", steps=3)
    run = exports_store.run(run_id)
    assert run.summary is not None
    unmeasured = replace(run, summary=run.summary.model_copy(update={"samples_per_second": None}))
    content = replace(
        content_of(exports_store, [run_id]), comparison=compare([Evidence(unmeasured, np.empty(0), ())])
    )
    answer = report_of(content).answers[0]
    assert answer.text.startswith("FP32 was not measured. “Run 1” (FP32) has no speed. FP32 trained 3 steps")
