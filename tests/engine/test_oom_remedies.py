"""What can be tried after an out-of-memory: a smaller batch, or accumulation."""

from __future__ import annotations

from engine.experiment.experiment import experiment_from
from engine.experiment.problem import Kind, Problem
from engine.protocol.trials import MemoryLine
from engine.runner import fitting_batch, with_accumulation, with_remedy

LINES = [MemoryLine(fixed_mib=500, per_sample_mib=10)]
EXPERIMENT = experiment_from({"batch_size": 96, "step": {"gradient_accumulation": 2}})
PROBLEM = Problem(kind=Kind.OUT_OF_MEMORY, message="The device ran out of memory.", remedy="Lower it.")


def test_the_batch_that_fits_leaves_room_in_the_budget():
    fits = fitting_batch(LINES, 1_000, failed_batch=96)
    assert fits is not None and LINES[0].at(fits) <= 950 < LINES[0].at(fits + 1)


def test_a_forecast_that_promised_the_failed_batch_is_not_believed():
    fits = fitting_batch(LINES, 100_000, failed_batch=96)
    assert fits is not None and fits < 96


def test_nothing_is_promised_where_not_one_sample_fits():
    assert fitting_batch(LINES, 500, failed_batch=96) is None
    assert fitting_batch(LINES, 5_000, failed_batch=1) is None


def test_accumulation_keeps_the_samples_of_a_step():
    accumulated = with_accumulation(EXPERIMENT, 40)
    assert accumulated is not None
    assert (accumulated.batch_size, accumulated.step.gradient_accumulation) == (32, 6)
    assert accumulated.step_samples == EXPERIMENT.step_samples


def test_a_prime_number_of_samples_cannot_be_accumulated_evenly():
    assert with_accumulation(experiment_from({"batch_size": 97}), 60) is None


def test_the_remedy_names_both_ways():
    told = with_remedy(PROBLEM, EXPERIMENT, 40)
    assert told.kind is Kind.OUT_OF_MEMORY and told.message == PROBLEM.message
    assert "a batch of 40 fits" in told.remedy and "gradient accumulation 6" in told.remedy
    assert told.allowed == "at most 40"
