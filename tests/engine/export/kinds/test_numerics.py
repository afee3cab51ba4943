"""Numerics in words and tables: what matters most comes first, and what is left out is counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from engine.export.document import Section
from engine.export.formats import NUMERICS
from engine.export.kinds.numerics import sections
from engine.protocol.advice import Advices
from engine.protocol.numerics import Numerics, NumericsResults, Part
from engine.protocol.ranges import Exponents, LayerCast
from engine.store.saved.studies import Study
from tests.engine.export.kinds.test_kinds import rows_in


def by_title(saved: Study[Numerics]) -> dict[str, Section]:
    return {section.title: section for section in sections(saved.answer.results)}


def test_every_known_part_has_its_section_what_matters_most_first(saved: Study[Numerics]) -> None:
    assert list(by_title(saved)) == [
        *("First NaN or Inf", "Precision map", "Ranges", "Divergence", "FP32 modules", "Advice")
    ]
    assert sections(NumericsResults()) == ()
    assert [one.title for one in sections(NumericsResults(map=saved.answer.results.map))] == ["Precision map"]
    whole = by_title(saved)["Precision map"]
    assert whole.rows[0] == ("fc", "Linear", "FP16", "–", "1", "1.00", "2.00", "4.00")
    assert "99.5%" in whole.sentences[0]
    assert whole.sentences[0].endswith("Casts by autocast: 1, which moved 1.0 MiB.")
    assert whole.first_rows(1) == (whole.rows[:1], len(whole.rows) - 1)
    first, second = by_title(saved)["Ranges"].rows
    # 2^-40 and three at 2^-38, lifted by 2^14: FP16 rounds to 0 what is below 2^-25
    assert first[:6] == ("fc", "gradient", "2^-40", "2^-38", "–", "25.0% → 0")
    assert second[:2] == ("fc", "weight") and set(second[4:]) == {"–"}


@pytest.mark.parametrize("part", get_args(Part))
def test_nothing_calls_for_a_change_only_where_no_part_found_anything(
    part: Part, saved: Study[Numerics]
) -> None:
    known = getattr(saved.answer.results, part)
    *_, advice = sections(NumericsResults(advice=Advices()).with_part(known))
    if NumericsResults().with_part(known).findings():
        assert advice.sentences[0].startswith("No advice beyond what was found.")
    else:
        assert advice.sentences == ("No result calls for a change.",)


def test_the_scaling_of_fp8_has_a_section_a_file_and_a_key_where_there_is_one(
    saved: Study[Numerics], tmp_path: Path
) -> None:
    cast = LayerCast(
        module="fc",
        operand="weight",
        products=("output", "input gradient"),
        dtype="float8_e4m3fn",
        exponents=Exponents(first=0, counts=(3, 1)),
        scales=1,
        least_scale=256.0,
        most_scale=256.0,
        became_zero=1,
    )
    ranges = saved.answer.results.range
    assert ranges is not None and "FP8 scaling" not in by_title(saved)
    results = saved.answer.results.with_part(ranges.model_copy(update={"casts": (cast,)}))
    fp8 = replace(saved, answer=saved.answer.model_copy(update={"results": results}))
    (row,) = by_title(fp8)["FP8 scaling"].rows
    assert row == ("fc", "weight", "FP8 E4M3", "2^8", "25.0%", "0.0%")
    NUMERICS.export(fp8, tmp_path / "x.csv")
    (line,) = rows_in(tmp_path / "x-scaling.csv")
    assert (line["products"], line["zero_share"], line["total"]) == ("output, input gradient", "0.25", "4")
    (entry,) = json.loads(NUMERICS.export(fp8, tmp_path / "x.json").read_text())["fp8_scaling"]
    assert entry["least_scale"] == 256.0
