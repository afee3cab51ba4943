"""What a search or a tuning says before it has a result, and of a result that is not certain."""

from __future__ import annotations

import pytest

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.export.kinds import limit, tune
from engine.export.writers.page import page
from engine.protocol.trials import Limit, LimitResult, LimitSide, Trial
from engine.store.saved.studies import Study
from tests.engine.tune.test_result import TUNING, WINNER

TOO_LARGE = Trial(batch_size=8, fits=False, cause="memory")
NOTHING_FITS = LimitResult(precision=Precision.FP32, largest_batch=0, verified=False, bound_by="memory")


@pytest.mark.parametrize(
    ("trials", "result", "shown"),
    [
        ((TOO_LARGE,), None, "–"),
        ((TOO_LARGE,), NOTHING_FITS, "0"),
        ((Trial(batch_size=4, fits=True), TOO_LARGE), None, "≥ 4"),
    ],
)
def test_the_largest_batch_of_a_side_for_which_nothing_fits_yet(
    trials: tuple[Trial, ...], result: LimitResult | None, shown: str
) -> None:
    experiment = Experiment(precision=Precision.FP32, batch_size=8)
    side = LimitSide(label="FP32", experiment=experiment, budget_mib=10.0, trials=trials, result=result)
    (table, *_) = limit.document(Study(answer=Limit(sides=(side,)))).sections
    assert table.rows[0][1] == shown


@pytest.mark.parametrize("alike", [True, None])
def test_a_tuning_says_whether_its_losses_are_known_to_match(alike: bool | None) -> None:
    assert TUNING.proof is not None
    proof = TUNING.proof.model_copy(update={"is_loss_alike": alike, "speedup_ci": (1.8, 2.0)})
    verified = TUNING.model_copy(update={"proof": proof, "winner": WINNER})
    (answer,) = tune.document(Study(answer=verified)).answers
    assert ("Losses stay within" in answer.text) is (alike is True)
    assert ("could not be determined" in answer.text) is (alike is None)


def test_a_page_has_no_heading_without_anything_below_it() -> None:
    known = {"proof": None, "proofs": (), "winner": WINNER, "winner_changes": {}, "trials": (), "gains": ()}
    document = tune.document(Study(answer=TUNING.model_copy(update=known)))
    (result,) = (section for section in document.sections if section.title == tune.RESULT)
    assert result.actions and result.is_empty
    text = page(document)
    assert "<h2>Result</h2>" not in text and f"<h2>{tune.AGAIN}</h2>" in text


def test_a_tuning_that_has_just_begun_says_so_once() -> None:
    unknown = {"proof": None, "proofs": (), "winner": None, "winner_changes": {}, "trials": (), "gains": ()}
    document = tune.document(Study(answer=TUNING.model_copy(update=unknown)))
    assert document.answers[0].text.startswith("None of ")
    assert all(section.title != tune.RESULT for section in document.sections)
