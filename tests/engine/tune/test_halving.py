"""The search finds the best of known speeds in few trials, whatever the noise."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from math import prod

import pytest

from engine.experiment.experiment import Experiment
from engine.protocol.tune import CHANGE_KINDS, TuningTrial
from engine.tune.candidates import BASELINE, Option, Places, Space, value_of
from engine.tune.halving import TrialRequest, TrialResult, kept, ranking, search

Speed = Callable[[Places], float]
FACTORS = (
    (1.0, 1.6, 1.1),
    (1.0, 1.5, 1.1, 1.3),
    (1.0, 0.9, 1.2),
    (1.0, 0.7),
    (1.0, 1.2, 1.3, 1.1),
    (1.0, 1.04),
    (1.0, 1.05, 0.9),
    *((1.0,),) * (len(CHANGE_KINDS) - 7),
)
BEST: Places = (1, 1, 2, 0, 2, 1, 1, *(0,) * (len(CHANGE_KINDS) - 7))


def space(**of_kind: int) -> Space:
    options = {
        kind: tuple(
            Option(f"{kind} {place}", {kind: place} if kind != "batch" else {"batch_size": 64 * 2**place})
            if place
            else Option("as given", {})
            for place in range(of_kind.get(kind, len(factors)))
        )
        for kind, factors in zip(CHANGE_KINDS, FACTORS, strict=True)
    }
    return Space(Experiment(batch_size=64), options)


def product(places: Places) -> float:
    return 100 * prod(factors[place] for factors, place in zip(FACTORS, places, strict=True))


def asked_for(of: Space, outcome: Callable[[TrialRequest], TrialResult]) -> list[TrialRequest]:
    """The trials that a search asks for until it ends."""
    asked, steps = list[TrialRequest](), search(of)
    ask = next(steps)
    while True:
        asked.append(ask)
        try:
            ask = steps.send(outcome(ask))
        except StopIteration:
            return asked


def searched(of: Space, speed: Speed, noise: float = 0.0, seed: int = 0) -> tuple[Places, list[TrialRequest]]:
    """The winner by the ranking of all trials, and what was asked."""
    draws, trials = random.Random(seed), list[TuningTrial]()

    def outcome(ask: TrialRequest) -> TrialResult:
        value = speed(ask.places) * (1 + draws.gauss(0, noise))
        known = {"round": ask.round, "changes": of.changes(ask.places), "samples_per_second": value}
        trials.append(TuningTrial(**known, steps=1, seconds=1))
        return TrialResult(value)

    asked = asked_for(of, outcome)
    return of.places_for(ranking(trials)[0].changes), asked


def test_the_best_is_found_in_a_fraction_of_the_grid():
    of = space()
    best, asked = searched(of, product)
    assert best == BEST
    assert asked[0] == TrialRequest(BASELINE, 1, 0.0)
    # the grid with 5 repeats
    assert len(asked) < 5 * of.size / 10


@pytest.mark.parametrize("seed", range(8))
def test_noise_costs_hardly_anything(seed):
    of = space()
    best, _ = searched(of, product, 0.02, seed)
    assert product(best) > 0.95 * product(BEST)


def test_a_precision_that_gains_only_with_the_full_recipe_is_found():
    def speed(places: Places) -> float:
        return 100 * {(0, 0): 1.0, (1, 0): 0.8, (0, 1): 1.2, (1, 1): 2.0}.get(places[:2], 0.9)

    best, _ = searched(space(batch=1, loader=1, checkpointing=1, attention=1), speed)
    assert best[:2] == (1, 1)


def test_kernels_are_tried_only_for_a_model_with_attention():
    for has_attention in (True, False):
        result = TrialResult(100.0, has_attention=has_attention)
        asked = asked_for(space(), lambda ask, result=result: result)
        assert any(value_of(ask.places, "attention") for ask in asked) is has_attention


def test_what_fails_is_asked_for_only_once_and_memory_brings_checkpointing():
    batch, recomputes = (
        lambda ask, kind=kind: value_of(ask.places, kind) for kind in ("batch", "checkpointing")
    )

    def outcome(ask: TrialRequest) -> TrialResult:
        fits = not batch(ask) or recomputes(ask)
        return TrialResult(product(ask.places)) if fits else TrialResult(None, None, True)

    asked = asked_for(space(), outcome)
    too_large = [ask.places for ask in asked if batch(ask) and not recomputes(ask)]
    assert len(too_large) == len(set(too_large)) == 1
    assert any(map(recomputes, asked))


def test_a_change_that_needs_an_optimization_is_tried_only_with_it():
    def outcome(ask: TrialRequest) -> TrialResult:
        fits = ask.places[3] == 0 or ask.places[2] == 2
        return (
            TrialResult(product((*ask.places[:2], 0, *ask.places[3:])))
            if fits
            else TrialResult(None, None, True)
        )

    of = space(checkpointing=3, exchange=1, loader=1)
    recipes = [Option("compile", {"step.recipe": "compile"}), Option("fused", {"step.recipe": "fused"})]
    none, full, _ = of.options["checkpointing"]
    budget = Option("budget", {"step.activation_checkpointing": "0.5"}, frozenset({"compile"}))
    options = {"recipe": (Option("as given", {}), *recipes), "checkpointing": (none, full, budget)}
    asked = asked_for(replace(of, options={**of.options, **options}), outcome)
    assert {ask.places[1] for ask in asked if ask.places[2] == 2} == {1}


def test_a_part_of_the_recipe_that_turns_out_to_be_impossible_is_asked_for_once():
    recipes = ("", "fused+compile", "fused", "compile")
    options = tuple(Option(name, {"step.recipe": name} if name else {}) for name in recipes)
    of = space(batch=1, loader=1, checkpointing=1, attention=1)
    of = replace(of, options={**of.options, "recipe": options})
    impossible = TrialResult(None, left_out=frozenset({"compile"}))
    asked = asked_for(
        of, lambda ask: impossible if "compile" in recipes[ask.places[1]] else TrialResult(100.0)
    )
    tried = [recipes[ask.places[1]] for ask in asked]
    assert sum("compile" in recipe for recipe in tried) == 1 and "fused" in tried


MODES = ("", "max-autotune", "max-autotune-no-cudagraphs")


@pytest.mark.parametrize(
    ("fastest", "tried"),
    [("", set()), ("compile", {*MODES[1:]}), ("fused+compile+capture", {MODES[2]})],
)
def test_a_compile_mode_is_tried_only_where_it_has_an_effect(fastest: str, tried: set[str]) -> None:
    recipes = ("", "compile", "fused+compile+capture")
    of = space(batch=1, loader=1, checkpointing=1, exchange=1, precision=1)
    options = {
        "recipe": tuple(Option(name, {"step.recipe": name} if name else {}) for name in recipes),
        "compile": tuple(
            Option(name, {"step.compile_mode": name}, frozenset({"compile"})) if name else Option("", {})
            for name in MODES
        ),
    }
    of = replace(of, options={**of.options, **options})
    asked = asked_for(of, lambda ask: TrialResult(200.0 if recipes[ask.places[1]] == fastest else 100.0))
    found = [of.changes(ask.places) for ask in asked]
    with_mode = [changes for changes in found if "step.compile_mode" in changes]
    assert {changes["step.recipe"] for changes in with_mode} <= {fastest}
    assert {changes["step.compile_mode"] for changes in with_mode} == tried


def test_where_the_baseline_fails_nothing_else_is_tried():
    assert len(asked_for(space(), lambda ask: TrialResult(None))) == 1


def test_a_candidate_within_the_noise_of_the_last_kept_is_kept_too():
    speeds = {(0,): (100.0,), (1,): (99.0,), (2,): (70.0,)}
    assert kept(speeds, 1) == ((0,), (1,))
    sure = {(0,): (100.0, 100.1) * 4, (1,): (95.0, 95.1) * 4, (2,): (70.0, 70.1) * 4}
    assert kept(sure, 1) == ((0,),)


def test_fp8_that_does_nothing_for_the_model_is_asked_for_once():
    scalings = [{"precision": "fp8", "step.fp8_recipe": name} for name in ("tensorwise", "rowwise")]
    options = (Option("as given", {}), *(Option("FP8", changes) for changes in scalings))
    of = space(batch=1, loader=1, checkpointing=1, attention=1, exchange=1)
    of = replace(of, options={**of.options, "precision": options})
    idle = TrialResult(None, left_out=frozenset({"fp8"}))
    asked = asked_for(of, lambda ask: idle if ask.places[0] else TrialResult(100.0))
    assert sum(ask.places[0] > 0 for ask in asked) == 1
