"""Published figures: what the table holds, and which of them stand beside a comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import Evidence
from engine.experiment.experiment import Experiment
from engine.experiment.presets import preset
from engine.export.report.published import (
    WARNING,
    PublishedRow,
    as_json,
    published_beside,
    published_section,
    sources,
)
from engine.store.record import RunRecord

Record = Callable[..., RunRecord]


@pytest.fixture
def compared(record: Record) -> Callable[..., Comparison]:
    def make(*sides: tuple[dict[str, Any], float]) -> Comparison:
        runs = [
            record(number, Experiment.model_validate(settings), samples_per_second=speed)
            for number, (settings, speed) in enumerate(sides)
        ]
        return compare([Evidence(run, np.ones(9), ()) for run in runs])

    return make


RESNET = {"model": "resnet50", "dataset": "synthetic", "batch_size": 256}


def of(rows: tuple[PublishedRow, ...], hardware: str, precision: str) -> PublishedRow:
    return next(
        row
        for row in rows
        if row.figure.samples_per_second
        and (row.figure.hardware, row.figure.precision.value) == (hardware, precision)
    )


def test_every_source_has_an_address_and_every_figure_a_value() -> None:
    figures = [figure for source in sources() for figure in source.figures]
    assert 15 <= len(figures) <= 40
    assert all(source.address.startswith("https://") and source.year >= 2020 for source in sources())
    for figure in figures:
        assert (figure.samples_per_second is None) != (figure.accuracy_percent is None)
    assert len(set(figures)) == len(figures)


def test_a_published_speed_stands_beside_the_side_that_is_nearest(
    compared: Callable[..., Comparison],
) -> None:
    tf32, fp16 = {**RESNET, "precision": "tf32"}, {**RESNET, "precision": "fp16"}
    rows = published_beside(compared((tf32, 1_876.0), (fp16, 4_940.0)))
    assert of(rows, "A100 80 GB", "tf32").ratio == pytest.approx(2.0)
    assert of(rows, "A100 80 GB", "fp16").ratio == pytest.approx(2.0)
    assert of(rows, "V100 16 GB", "fp32").side is None
    small, large = ({**RESNET, "precision": "bf16", "batch_size": batch} for batch in (32, 224))
    row = of(published_beside(compared((small, 100.0), (large, 1_235.0))), "A100 80 GB", "fp16")
    assert row.side is not None and row.side.runs[0].experiment.batch_size == 224
    assert row.ratio == pytest.approx(0.5)
    for other in ({"image_size": 64}, {"dataset": "fashion"}):
        rows = published_beside(compared(({**RESNET, "precision": "fp16", **other}, 4_940.0)))
        assert rows and all(row.ratio is None for row in rows)


def test_timms_form_of_a_model_is_the_same_and_a_changed_or_another_model_is_not(
    compared: Callable[..., Comparison],
) -> None:
    def count(**settings: Any) -> int:
        return len(published_beside(compared((settings, 1.0))))

    assert count(model="timm:vit_base_patch16_224.augreg_in1k") == count(model="vit_b_16") > 0
    assert count(model="timm:resnet50", overrides="num_classes=10") == count(model="small-cnn") == 0


def test_a_reader_is_warned_and_a_program_reads_the_source(compared: Callable[..., Comparison]) -> None:
    rows = published_beside(compared(({**RESNET, "precision": "fp16"}, 2_470.0)))
    section = published_section(rows)
    assert section.sentences[0] == WARNING and "Model" not in section.headings
    row = next(row for row in section.rows if row[0] == "A100 80 GB" and row[1] == "FP16 AMP")
    assert row[2:5] == ("256", "2,470", "1.00×")
    value = as_json(of(rows, "A100 80 GB", "fp16"))
    assert value["ratio"] == 1 and value["ids"] and value["source"]["year"] == 2021


@pytest.mark.parametrize(
    ("name", "model"), [("published-resnet50", "resnet50"), ("published-vit-b16", "vit_b_16")]
)
def test_a_preset_repeats_published_settings_and_names_their_source(name: str, model: str) -> None:
    repeated = preset(name)
    assert "Source: github.com/" in repeated.about
    experiments = [experiment for _, experiment in repeated.experiments(has_gpu=True)]
    assert {experiment.model for experiment in experiments} == {model}
    published = {
        (figure.precision, figure.batch_size)
        for source in sources()
        for figure in source.figures
        if figure.matches(experiments[0])
    }
    assert (experiments[-1].precision, experiments[-1].batch_size) in published
