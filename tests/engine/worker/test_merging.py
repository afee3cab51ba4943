"""The events of one run, made of those of its ranks."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.experiment.experiment import experiment_from
from engine.protocol.events import Epoch, Event, Failed, Finished, Log, Phase, PhaseName, Samples, Skipped
from engine.protocol.summary import Energy, RankMemory, RankMetrics, Slowdown, Summary
from engine.worker.merging import Merger, merged

TWO = experiment_from({"model": "linear", "dataset": "synthetic-regression", "device": "cpu", "devices": 2})


def merger(**changes: Any) -> Merger:
    return Merger(TWO.model_copy(update=changes), TWO, ["cpu", "cpu"])


def samples(first: int, *losses: float, rate: float = 10.0, peak: float = 1.0) -> Samples:
    count = len(losses)
    return Samples(
        step=tuple(range(first, first + count)),
        seconds=tuple(map(float, range(first, first + count))),
        loss=losses,
        samples_per_second=(rate,) * count,
        learning_rate=(0.1,) * count,
        resident_mib=(peak,) * count,
    )


def ranks(*waits: float, step: float = 40.0) -> list[Summary]:
    return [
        Summary(
            samples_per_second=1_000 / step,
            samples_per_second_ci=(20.0, 30.0),
            step_ms=step,
            ranks=(RankMetrics(device=f"cuda:{rank}", step_ms=step, exposed_ms=wait),),
        )
        for rank, wait in enumerate(waits)
    ]


def ended(summaries: list[Summary], **changes: Any) -> list[Event]:
    together = merger(**changes)
    for rank, summary in enumerate(summaries):
        assert not list(together.add(rank, Finished(summary=summary)))
    return list(together.ending())


def test_a_step_is_told_once_every_rank_has_made_it():
    together = merger()
    assert not list(together.add(0, samples(1, 1.0, 2.0, 3.0, rate=12.0, peak=5.0)))
    first, memory = together.add(1, samples(1, 3.0, 4.0, rate=10.0, peak=7.0))
    assert isinstance(first, Samples) and first.step == (1, 2) and first.loss == (2.0, 3.0)
    # of both together, at the pace of the slower; the larger memory
    assert first.samples_per_second == (20.0, 20.0) and first.resident_mib == (7.0, 7.0)
    assert memory == RankMemory(mib=(5.0, 7.0))
    assert together.step == 2
    second, _memory = together.add(1, samples(3, 5.0))
    assert isinstance(second, Samples) and second.step == (3,) and second.loss == (4.0,)


def test_a_nan_of_any_rank_ends_a_run_that_ends_by_it():
    for on_nan, must_end in (("continue", False), ("stop", True), ("fail", True)):
        together = merger(on_nan=on_nan)
        assert not list(together.add(0, samples(1, 1.0)))
        both, _memory = together.add(1, samples(1, math.nan))
        assert isinstance(both, Samples) and math.isnan(both.loss[0]) and together.must_end is must_end
    nan = [Summary(), Summary(first_nan_step=3)]
    failed, finished = ended(nan, on_nan="fail")[-1], ended(nan, on_nan="stop")[-1]
    assert isinstance(failed, Failed) and "from step 3" in failed.problem.message
    assert isinstance(finished, Finished) and finished.summary.first_nan_step == 3


def test_an_epoch_has_the_mean_loss_and_the_time_of_the_last():
    together = merger()
    assert not list(together.add(1, Epoch(epoch=1, step=5, seconds=2.0, train_loss=1.0)))
    (both,) = together.add(0, Epoch(epoch=1, step=5, seconds=3.0, train_loss=2.0, validation_accuracy=0.5))
    assert isinstance(both, Epoch) and (both.train_loss, both.seconds) == (1.5, 3.0)


def test_the_first_rank_speaks_for_all_and_remarks_on_steps_name_theirs():
    together = merger()
    assert list(together.add(0, Phase(name=PhaseName.MEASURING))) == [Phase(name=PhaseName.MEASURING)]
    assert not list(together.add(1, Phase(name=PhaseName.MEASURING)))
    assert not list(together.add(1, Log(message="capture is not applied.")))
    (named,) = together.add(1, Log(level="warning", message="NaN.", step=4))
    assert isinstance(named, Log) and named.message == "Rank 1: NaN."


@pytest.mark.parametrize(("others", "are_same"), [((3, 7), True), ((3,), False)])
def test_ranks_that_skip_different_steps_are_a_problem(others: tuple[int, ...], are_same: bool):
    together = merger()
    assert list(together.add(0, Skipped(steps=(3, 7)))) == [Skipped(steps=(3, 7))]
    assert not list(together.add(1, Skipped(steps=others)))
    for rank in (0, 1):
        assert not list(together.add(rank, Finished(summary=Summary())))
    told = [event.message for event in together.ending() if isinstance(event, Log)]
    assert (not told) is are_same
    assert are_same or "skipped different steps" in told[0]


def test_a_rank_whose_gradients_alone_overflow_is_named_once():
    together = merger()
    assert list(together.add(0, Skipped(steps=(3, 4, 9)))) == [Skipped(steps=(3, 4, 9))]
    (told,) = together.add(1, Skipped(steps=(3, 4), own=(3, 4)))
    assert isinstance(told, Log) and told.step == 3
    assert told.message == "Rank 1 of 2: all ranks skipped step 3, but only this rank's gradients overflowed."
    assert not list(together.add(1, Skipped(steps=(9,), own=(9,))))
    # where all overflow none of them is the cause
    assert list(together.add(0, Skipped(steps=(12,), own=(12,)))) == [Skipped(steps=(12,))]
    assert not list(together.add(1, Skipped(steps=(12,), own=(12,))))


def test_the_speed_is_that_of_all_at_the_pace_of_the_slowest():
    fast, slow = ranks(1.0)[0], ranks(1.0, step=50.0)[0]
    together = merged([fast, slow])
    assert together.samples_per_second == pytest.approx(2 * 20.0) and together.step_ms == 50.0
    assert together.samples_per_second_ci == (40.0, 60.0) and len(together.ranks) == 2
    assert merged([fast, Summary(speed_note="It was too short.")]).speed_note == "It was too short."
    assert merged([fast, Summary()]).samples_per_second is None


def test_a_straggler_is_named_with_what_the_others_wait():
    (told,) = [event for event in ended(ranks(31.0, 1.0)) if isinstance(event, Log)]
    words = "slower than the others, which wait 30.0 ms of each step (40.0 ms) for it."
    assert told.message == f"Rank 1 of 2: {words}"
    assert not [event for event in ended(ranks(3.0, 1.0)) if isinstance(event, Log)]
    # a wait that one of them does not know says nothing
    assert not [event for event in ended([ranks(31.0)[0], Summary()]) if isinstance(event, Log)]


def test_cards_add_their_energy_and_ranks_on_one_processor_do_not():
    def spent(source: str) -> Summary:
        energy = {
            "source": source,
            "joules": 5.0,
            "seconds": 2.0,
            "steps": 4,
            "samples": 8,
            "idle_watts": 1.0,
        }
        return Summary(energy=Energy.model_validate(energy))

    cards, processor = (merged([spent(source)] * 2).energy for source in ("nvml", "rapl"))
    assert cards is not None and (cards.joules, cards.samples, cards.idle_watts) == (10.0, 16, 2.0)
    assert processor is not None and (processor.joules, processor.samples) == (5.0, 16)
    assert merged([spent("nvml"), Summary()]).energy is None


def test_what_slows_any_of_the_cards_slows_the_run():
    together, heat, limit = merger(), float(Slowdown.HEAT), float(Slowdown.POWER_LIMIT)
    for rank, bits in enumerate(((0.0, heat, limit), (heat, heat, heat))):
        told = list(together.add(rank, samples(1, 1.0, 1.0, 1.0).model_copy(update={"slowdown": bits})))
    assert told[0].slowdown == (heat, heat, heat + limit)
