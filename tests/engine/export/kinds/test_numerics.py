"""Numerics in words and tables: what matters most comes first, and what is left out is counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from engine.experiment.catalog import Precision
from engine.export.document import CellText, Conclusion, Section
from engine.export.formats import NUMERICS
from engine.export.kinds.numerics import TITLES, document, error_text, sections
from engine.protocol.advice import Advices
from engine.protocol.numerics import (
    DivergenceTest,
    ModuleError,
    NonfiniteSearch,
    Numerics,
    NumericsResults,
    Part,
    PrecisionRun,
)
from engine.protocol.ranges import LOSS, Exponents, LayerCast
from engine.store.saved.studies import Study
from tests.engine.export.kinds.test_kinds import rows_in


def by_title(saved: Study[Numerics]) -> dict[str, Section]:
    return {section.title: section for section in sections(saved.answer.results)}


def titles_of(results: NumericsResults) -> list[str]:
    return [section.title for section in sections(results)]


def answer_of(saved: Study[Numerics], **results: object) -> Conclusion:
    numerics = saved.answer.model_copy(update={"results": NumericsResults().model_copy(update=results)})
    (answer,) = document(replace(saved, answer=numerics)).answers
    return answer


def test_every_known_part_has_its_section_what_matters_most_first(saved: Study[Numerics]) -> None:
    (advice,) = saved.answer.results.advice.items if saved.answer.results.advice else ()
    assert titles_of(saved.answer.results) == [
        *("What to do", "First NaN or Inf", "Precision map", "Ranges", "Divergence"),
        *("FP32 modules", "Trials", advice.message.removesuffix(".")),
    ]
    assert {section.tab for section in sections(saved.answer.results)} == {*TITLES.values()} - {"FP8 scaling"}
    assert sections(NumericsResults()) == ()
    assert titles_of(NumericsResults(map=saved.answer.results.map)) == ["Precision map"]
    whole = by_title(saved)["Precision map"]
    assert whole.rows[0] == ("fc", "Linear", "FP16", "–", "1", "1.00", "2.00", "4.00")
    assert "99.5%" in whole.sentences[0]
    assert whole.sentences[0].endswith("Casts by autocast: 1, which moved 1.0 MiB.")
    assert whole.first_rows(1) == (whole.rows[:1], len(whole.rows) - 1)
    first, second = by_title(saved)["Ranges"].rows
    # 2^-40 and three at 2^-38, lifted by 2^14: FP16 rounds to 0 what is below 2^-25
    assert first[:6] == ("fc", "gradient", "2⁻⁴⁰", "2⁻³⁸", "–", "25.0% → 0")
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
    assert row == ("fc", "weight", "FP8 E4M3", "1", "2⁸", "25.0%", "0.0%")
    NUMERICS.export(fp8, tmp_path / "x.csv")
    (line,) = rows_in(tmp_path / "x-scaling.csv")
    assert (line["products"], line["zero_share"], line["total"]) == ("output, input gradient", "0.25", "4")
    (entry,) = json.loads(NUMERICS.export(fp8, tmp_path / "x.json").read_text())["fp8_scaling"]
    assert entry["least_scale"] == 256.0


def test_the_answer_is_the_most_serious_finding_in_the_colors_of_its_precisions(
    saved: Study[Numerics],
) -> None:
    known = saved.answer.results
    assert known.nan is not None and known.ladder is not None and known.islands is not None
    whole = answer_of(saved, **dict(known))
    assert whole.text.startswith("The first ") and len(whole.notes) == 2
    precision = saved.answer.experiment.precision
    assert [piece.precision for piece in whole.pieces if piece.role != "plain"] == [precision]
    run = known.ladder.runs[0].model_copy(
        update={"precision": precision, "label": precision.label, "diverges_at": 21, "first_module": "fc"}
    )
    good = run.model_copy(update={"diverges_at": None, "first_module": None, "losses": (1.0,) * 60})
    named = precision.label
    for results, words in (
        ({"islands": known.islands.model_copy(update={"modules": ("fc",)})}, f"fc needs FP32 in {named}."),
        (
            {"islands": known.islands.model_copy(update={"modules": tuple("abcd")})},
            f"4 modules need FP32 in {named}.",
        ),
        (
            {"ladder": known.ladder.model_copy(update={"runs": (run,)})},
            f"{named} diverges from FP32 at step 21, first in fc.",
        ),
        (
            {"ladder": known.ladder.model_copy(update={"runs": (good,)})},
            f"{named} matches FP32 for 60 steps, except for rounding.",
        ),
        ({"map": known.map}, f"{named} spends 100% of the operations' time in FP16."),
        (
            {"nan": NonfiniteSearch(steps=3, sentence="No NaN or Inf in 3 steps.")},
            "No NaN or Inf in 3 steps.",
        ),
    ):
        assert answer_of(saved, **results).text == words
    calm = NonfiniteSearch(steps=3, sentence="No NaN or Inf in 3 steps.")
    ladder = known.ladder.model_copy(update={"runs": (run,)})
    assert answer_of(saved, nan=calm, ladder=ladder).notes == ("No NaN or Inf in 3 steps",), "problems first"
    assert document(replace(saved, answer=saved.answer.afresh())).answers == ()


def test_a_finding_that_is_the_answer_is_not_said_again(saved: Study[Numerics]) -> None:
    search = NonfiniteSearch(steps=200, sentence="No NaN or Inf in 200 steps.")
    results = NumericsResults(nan=search)
    (section,) = (
        part
        for part in document(
            replace(saved, answer=saved.answer.model_copy(update={"results": results}))
        ).sections
        if part.part == "answer"
    )
    assert len(section.sentences) == 1 and "without harm" in section.sentences[0]
    again = search.model_copy(update={"trouble_step": 12, "reproduced": 1})
    (section,) = sections(NumericsResults(nan=again))
    assert "did not recur" in section.sentences[1] and ("The run went wrong", "in step 12") in section.pairs


def test_buttons_come_only_with_something_to_use_or_to_show(saved: Study[Numerics]) -> None:
    search, modules = saved.answer.results.nan, saved.answer.results.islands
    assert search is not None and search.first is not None and modules is not None

    def names(results: NumericsResults) -> list[str]:
        return [action.name for section in sections(results) for action in section.actions]

    for module, changes, expected in (
        ("fc", (("precision", "bf16"),), ["use", "module"]),
        ("fc", (), ["module"]),
        (LOSS, (), []),
    ):
        first = search.first.model_copy(update={"module": module, "changes": changes})
        assert names(NumericsResults(nan=search.model_copy(update={"first": first}))) == expected
    for kept, changes, words in (
        (("fc",), (("step.fp32_modules", "fc"),), "Modules kept in FP32: fc"),
        ((), (("step.fp32_modules", ""),), "Modules kept in FP32: none"),
        (None, (), None),
    ):
        found = modules.model_copy(update={"modules": kept, "changes": changes})
        assert names(NumericsResults(islands=found)) == ["use"] * bool(changes)
        assert dict(sections(NumericsResults(islands=found))[0].pairs).get("Change") == words


def test_the_errors_of_modules_stand_side_by_side_with_what_rounding_explains(
    saved: Study[Numerics],
) -> None:
    assert saved.answer.results.ladder is not None
    broken = PrecisionRun(
        label="FP16 AMP",
        precision=Precision.FP16,
        first_module="",
        errors=(
            ModuleError(module="", relative_error=float("inf")),
            ModuleError(module="head", relative_error=0.0, explained_error=1e-3),
        ),
    )
    other = PrecisionRun(
        label="BF16 AMP",
        precision=Precision.BF16,
        errors=(ModuleError(module="head", relative_error=3e-3, explained_error=2e-3),),
    )
    ladder = DivergenceTest(steps=3, runs=(broken, other))
    errors = sections(NumericsResults(ladder=ladder))[-1]
    assert errors.rows == (("the model", "∞", "–"), ("head", "0% (0.1%)", "0.3% (0.2%)"))
    first, *others = (cell for row in errors.rows for cell in row[1:] if isinstance(cell, CellText))
    assert first.is_strong and not any(cell.is_strong for cell in others)
    assert [error_text(error) for error in (0.0, 1e-7, 0.0004, 0.12, 3.0, float("nan"))] == [
        *("0%", "1e-5%", "0.04%", "12%", "300%", "NaN")
    ]
