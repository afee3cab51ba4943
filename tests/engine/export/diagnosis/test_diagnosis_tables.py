"""A diagnosis in words and tables: what matters most comes first, and what is left out is counted."""

from __future__ import annotations

from engine.export.diagnosis.tables import sections
from engine.export.sections.section import Section
from engine.protocol.numerics.advice import Advices
from engine.protocol.numerics.diagnosis import Diagnosis, Numerics
from engine.store.saved.study import Study


def by_title(saved: Study[Numerics], most_rows: int | None = None) -> dict[str, Section]:
    return {section.title: section for section in sections(saved.answer.diagnosis, most_rows)}


def test_every_known_part_has_its_section_and_no_other(saved: Study[Numerics]) -> None:
    assert list(by_title(saved)) == [
        *("First NaN or Inf", "Precision map", "Ranges", "Ladder", "FP32 modules", "Advice")
    ]
    assert sections(Diagnosis()) == ()
    assert [one.title for one in sections(Diagnosis(map=saved.answer.diagnosis.map))] == ["Precision map"]


def test_the_map_is_by_module_the_slowest_first(saved: Study[Numerics]) -> None:
    whole = by_title(saved)["Precision map"]
    assert whole.rows[0] == ("fc", "Linear", "FP16", "–", "1", "1.00", "2.00", "4.00")
    assert "99.5 %" in whole.sentences[0]
    assert whole.sentences[0].endswith("Casts by autocast: 1, which moved 1.0 MiB.")
    shortened = by_title(saved, most_rows=1)["Precision map"]
    assert shortened.rows == whole.rows[:1] and shortened.left_out == len(whole.rows) - 1


def test_gradients_are_held_against_formats_at_the_loss_scale(saved: Study[Numerics]) -> None:
    first, second = by_title(saved)["Ranges"].rows
    # 2^-40 and three at 2^-38, lifted by 2^14: FP16 rounds to 0 what is below 2^-25
    assert first[:6] == ("fc", "gradient", "2^-40", "2^-38", "–", "25.0 % → 0")
    assert second[:2] == ("fc", "weight") and set(second[4:]) == {"–"}


def test_no_advice_is_said_in_a_sentence_which_forgets_no_nan(saved: Study[Numerics]) -> None:
    found = Diagnosis(nan=saved.answer.diagnosis.nan, advice=Advices())
    assert sections(found)[-1].sentences == ("Nothing else that was measured calls for a change.",)
    assert sections(Diagnosis(advice=Advices()))[0].sentences[0].startswith("Nothing that was")
