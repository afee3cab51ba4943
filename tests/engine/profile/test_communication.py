"""What several devices exchanged, in sentences and tables, in exports, verdicts and gains."""

from __future__ import annotations

import pytest

from engine.experiment.experiment import Experiment
from engine.export.kinds.profile import sections
from engine.profile.tables import BY_DEVICE, BY_SIZE, communication_sentences, device_rows
from engine.profile.verdict import verdict_of
from engine.protocol.profile import Profiles, ProfileSide, StepProfile
from tests.profiles import exchange, exchanging


def of(*known: StepProfile) -> Profiles:
    experiment = Experiment(devices=2)
    return Profiles(sides=tuple(ProfileSide(experiment=experiment, profile=each) for each in known))


def test_a_rank_is_slow_from_a_tenth_of_a_step_on() -> None:
    told = [communication_sentences(of(exchanging(exchange(wait, 0.0)))) for wait in (20.0, 2.0)]
    assert [any("wait for Rank 1" in text for text in sentences) for sentences in told] == [True, False]


def test_nothing_follows_from_disturbed_steps_and_unmatched_messages_are_said() -> None:
    (told,) = communication_sentences(of(exchanging(exchange(20.0, 0.0), disturbance="other programs ran")))
    assert "disturbed" in told
    found = exchange(0.0, 0.0)
    unknown = tuple(rank.model_copy(update={"skew_ms": None}) for rank in found.ranks)
    *_, told = communication_sentences(of(exchanging(found.model_copy(update={"ranks": unknown}))))
    assert told.endswith("their waits are unknown.")


def test_every_rank_of_each_side_has_a_row() -> None:
    both = of(exchanging(exchange(0.0, 0.0)), exchanging(exchange(0.0, 0.0)))
    assert len(device_rows(both)) == 4 and len({row[0] for row in device_rows(both)}) >= 2


def test_exports_have_both_tables_and_none_for_one_device(profiles: Profiles) -> None:
    titles = [part.title for part in sections(of(exchanging(exchange(20.0, 0.0))))]
    assert {BY_DEVICE, BY_SIZE} < set(titles)
    assert not {BY_DEVICE, BY_SIZE} & {part.title for part in sections(profiles)}


@pytest.mark.parametrize(
    ("waits", "reduction", "words", "changes"),
    [
        ((20.0, 0.0), "fp32", "The others wait for Rank 1, cuda:1", ()),
        ((25.0, 25.0), "fp32", "Send the gradients in BF16", (("ranks.reduction", "bf16"),)),
        ((25.0, 25.0), "bf16", "Accumulate over 2 batches", (("step.gradient_accumulation", "2"),)),
    ],
)
def test_a_step_that_communicates_most_is_bound_by_it_and_has_a_remedy(
    waits: tuple[float, ...], reduction: str, words: str, changes: tuple[tuple[str, str], ...]
) -> None:
    experiment = Experiment.model_validate({"devices": 2, "ranks": {"reduction": reduction}})
    verdict = verdict_of(exchanging(exchange(*waits)), experiment)
    assert verdict.sentence.startswith("Communication-bound")
    assert verdict.next_step.startswith(words) and verdict.changes == changes
