"""The language of experiments: JSON, TOML and texts, both ways, and layers of settings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
import tomli_w
from annotated_types import Ge, Gt, Le, Lt
from hypothesis import given
from hypothesis import strategies as st

from engine.experiment.experiment import (
    FACTS,
    Experiment,
    Precision,
    Scaler,
    Step,
    all_settings,
    experiment_from,
    flattened,
    from_dotted,
    layered,
    named,
    setting_help,
    setting_title,
)
from engine.experiment.presets import parse_toml
from engine.experiment.problem import ProblemError
from engine.experiment.settings import GRAPH_MODES, RECIPE_PARTS, Part, joined
from engine.words.names import applying_settings

names = st.text(min_size=1, max_size=40)
GIVEN: dict[str, st.SearchStrategy[Any]] = {
    "code": st.none(),
    "overrides": st.just(()),
    # a text that means "empty" on a command line cannot be told from it there
    "path": st.none() | names.filter(lambda text: text.strip().lower() not in ("", "none", "null")),
    "device": st.sampled_from(["auto", "cpu", "cuda", "cuda:1", "mps", "xpu:0"]),
    "step.activation_checkpointing": st.sampled_from(("none", "selective", "full", "0.25", "1")),
    "step.recipe": st.sets(st.sampled_from(RECIPE_PARTS)).map(joined),
    "step.fp32_modules": st.lists(st.sampled_from(["fc", "layer4.*", "*.bn1"]), max_size=3).map(tuple),
    "command.line": st.sampled_from(["", "python train.py", "A='1 2' torchrun --nproc-per-node 2 t.py"]),
    "command.require": st.sampled_from(["", "speed >= 1.05", "memory <= 0.8, loss"]),
}
"""Settings whose type does not say what they may be."""


def values_of(kind: Any, extras: Iterable[Any]) -> st.SearchStrategy[Any]:
    """The values that a field's type and bounds allow."""
    bounds = [bound for extra in extras for bound in getattr(extra, "metadata", [extra])]
    if get_origin(kind) is Annotated:
        inner, *more = get_args(kind)
        return values_of(inner, [*bounds, *more])
    if NoneType in get_args(kind):
        return st.none() | values_of(get_args(kind)[0], bounds)
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if kind is bool or issubclass(kind, StrEnum):
        return st.sampled_from([False, True] if kind is bool else list(kind))
    if issubclass(kind, str):
        return names
    known = {type(bound): bound for bound in bounds}
    least = known[Ge].ge if Ge in known else known[Gt].gt if Gt in known else 0
    most = known[Le].le if Le in known else known[Lt].lt if Lt in known else 2**53
    is_over, is_under = Gt in known, Lt in known
    if kind is int:
        return st.integers(least + is_over, most - is_under)
    return st.floats(least, most, exclude_min=is_over, exclude_max=is_under, allow_subnormal=False)


def tables_of(part: type[Part], prefix: str = "") -> st.SearchStrategy[dict[str, Any]]:
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in part.model_fields.items():
        if prefix + name in GIVEN:
            fields[name] = GIVEN[prefix + name]
        elif isinstance(field.annotation, type) and issubclass(field.annotation, Part):
            fields[name] = tables_of(field.annotation, f"{name}.")
        else:
            fields[name] = values_of(field.annotation, field.metadata)
    return st.fixed_dictionaries(fields)


def agreeing(settings: dict[str, Any]) -> Experiment:
    """The experiment, less what contradicts another setting."""
    if settings["optimizer"]["name"] != "sgd":
        settings["optimizer"]["momentum"] = 0.0
    if settings["schedule"]["name"] == "one-cycle":
        settings["schedule"]["warmup_steps"] = 0
    if "compile" not in settings["step"]["recipe"] and settings["step"]["recipe"] != "fast":
        settings["step"]["activation_checkpointing"] = "selective"
    if settings["optimizer"]["name"] in ("adam", "sgd", "muon"):
        settings["optimizer"]["stochastic_rounding"] = False
    if settings["precision"] in (Precision.FP16_UNSCALED, Precision.BF16_PURE):
        settings["scaler"]["mode"] = "auto"
    if settings["step"]["compile_mode"] in GRAPH_MODES:
        settings["step"] |= {"gradient_accumulation": 1, "offload_activations": False}
    if settings["epochs"] is not None:
        settings["steps"] = None
    return Experiment.model_validate(settings)


def experiments() -> st.SearchStrategy[Experiment]:
    return tables_of(Experiment).map(agreeing)


@pytest.mark.slow
@given(experiments())
def test_json_toml_and_texts_give_back_the_same_experiment(experiment: Experiment) -> None:
    assert Experiment.from_json(experiment.to_json()) == experiment
    # a setting that is None is left out, which reads back as None
    text = tomli_w.dumps(experiment.model_dump(mode="json", exclude_none=True))
    assert experiment_from(parse_toml(text, "the TOML text")) == experiment
    given = ((key, value) for key, value in flattened(experiment).items() if value is not None)
    texts = (
        from_dotted(key, ", ".join(value) if isinstance(value, list) else str(value)) for key, value in given
    )
    assert experiment_from(layered(*texts)) == experiment


def test_without_a_length_it_is_one_epoch_of_whole_batches() -> None:
    assert Experiment().epochs == 1
    assert Experiment(steps=5).epochs is None
    assert Experiment(batch_size=16, step=Step(gradient_accumulation=4)).step_samples == 64


def test_the_scaler_is_used_for_fp16_unless_the_mode_says_otherwise() -> None:
    assert Experiment(precision=Precision.FP16).uses_scaler
    assert not Experiment(precision=Precision.BF16).uses_scaler
    assert Experiment(precision=Precision.BF16, scaler=Scaler(mode="on")).uses_scaler
    assert not Experiment(precision=Precision.FP16, scaler=Scaler(mode="off")).uses_scaler
    assert not Experiment(precision=Precision.FP16_UNSCALED).uses_scaler


@pytest.mark.parametrize(
    ("written", "recipe", "parts"),
    [
        ("plain", "plain", ()),
        ("Fast", "fast", RECIPE_PARTS),
        ("capture + channels-last", "channels_last+capture", ("channels_last", "capture")),
        ("fused, compile", "fused+compile", ("fused", "compile")),
        (["compile"], "compile", ("compile",)),
        ("host-counters+channels_last+fused+compile+capture", "fast", RECIPE_PARTS),
        ("channels_last+fused+compile+capture", "channels_last+fused+compile+capture", RECIPE_PARTS[:4]),
        ("", "plain", ()),
        ([], "plain", ()),
    ],
)
def test_a_recipe_is_a_name_or_its_parts_in_any_order(written, recipe, parts):
    step = experiment_from({"step": {"recipe": written}}).step
    assert (step.recipe, step.parts) == (recipe, parts)


def test_names_of_modules_are_a_list_or_apart_by_commas() -> None:
    for written in ("fc, layer4.*", ["fc", "layer4.*"]):
        assert experiment_from({"step": {"fp32_modules": written}}).step.fp32_modules == ("fc", "layer4.*")
    assert experiment_from({"step": {"fp32_modules": ""}}).step.fp32_modules == ()


def test_the_later_layer_holds_also_of_the_two_lengths_and_tables_are_merged() -> None:
    below = {"model": "linear", "optimizer": {"name": "sgd", "learning_rate": 0.1}}
    over = {"optimizer": {"learning_rate": 0.2}, "batch_size": 8}
    assert layered(below, over) == {
        "model": "linear",
        "optimizer": {"name": "sgd", "learning_rate": 0.2},
        "batch_size": 8,
    }
    assert layered({"epochs": 3}, {"steps": 10}) == {"steps": 10}
    assert layered({"steps": 10}, {"epochs": 3}) == {"epochs": 3}
    assert layered({"steps": 10}, {"epochs": "none"})["steps"] == 10
    assert experiment_from(layered({"epochs": 3}, {"epochs": "none", "steps": "5"})).steps == 5


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"overrides": " hidden_size = 256,depths=[2, 2]"}, ("depths=[2, 2]", "hidden_size=256")),
        ({"overrides": ["b=1", "a=2", "b=3"]}, ("a=2", "b=3")),
        ({"overrides": ""}, ()),
        ({"model_config": {"hidden_size": "256"}}, ("hidden_size=256",)),
        (
            {"model_config": {"use_cache": True, "depths": [2], "text_config": {"a": 1}}, "overrides": "b=5"},
            ("b=5", "depths=[2]", "text_config.a=1", "use_cache=true"),
        ),
        ({"model_config": {"a": 1}, "overrides": "a=5"}, ("a=1",)),
    ],
)
def test_overrides_have_one_spelling_however_they_are_given(settings, expected):
    experiment = experiment_from({"model": "hf:llama", **settings})
    assert experiment.overrides == expected
    assert Experiment.from_json(experiment.to_json()) == experiment
    assert applying_settings(experiment)["overrides"] == list(expected)
    assert "overrides" not in applying_settings(Experiment())


@pytest.mark.parametrize("text", ["hidden_size", "=3", "a b=3"])
def test_what_is_no_override_is_refused(text: str) -> None:
    with pytest.raises(ProblemError) as caught:
        experiment_from({"overrides": [text]})
    assert caught.value.problem.message == f"Model settings: '{text}' is not KEY=VALUE."
    assert caught.value.problem.key == "overrides"


@pytest.mark.parametrize(("table", "shown"), [(5, "5"), ("", "empty"), ([1], "[1]")])
def test_what_is_no_table_of_overrides_is_refused(table: object, shown: str) -> None:
    with pytest.raises(ProblemError) as caught:
        experiment_from({"model": "hf:llama", "model_config": table})
    assert [problem.message for problem in caught.value.problems] == [
        f"model_config is {shown}, but it must be a table of settings."
    ]


def test_another_model_drops_the_overrides_of_the_last() -> None:
    below = {"model": "hf:llama", "overrides": ["a=1"], "model_config": {"b": 2}}
    assert layered(below, {"model": "hf:gpt2"}) == {"model": "hf:gpt2"}
    assert layered(below, {"model": "hf:llama"}) == below
    assert layered(below, {"model_config": {"c": 3}})["model_config"] == {"b": 2, "c": 3}


LONGEST_TITLE = 28


@pytest.mark.parametrize("key", flattened(Experiment()))
def test_every_setting_has_a_short_title_and_a_line_of_help(key: str) -> None:
    field = all_settings()[key]
    assert field.title and setting_title(key) == field.title
    assert len(field.title) <= LONGEST_TITLE and field.title[0].isupper()
    assert setting_help(key).endswith(".")


def test_no_two_settings_or_facts_have_one_title() -> None:
    titles = [setting_title(key) for key in (*all_settings(), *FACTS)]
    assert len(set(titles)) == len(titles)
    assert named("optimizer.learning_rate") == "learning rate"
    assert named("step.autocast_tf32") == "TF32 within AMP"
    assert (all_settings()["memory_cap_gib"].unit, all_settings()["seed"].unit) == ("GiB", "")


@pytest.mark.parametrize(
    ("raw", "value", "budget"),
    [
        (True, "full", None),
        (False, "none", None),
        ("true", "full", None),
        ("yes", "full", None),
        ("No", "none", None),
        ("", "none", None),
        (None, "none", None),
        ("Selective", "selective", None),
        (0.5, "0.5", 0.5),
        ("0", "0", 0.0),
        (-0.0, "0", 0.0),
        (1, "1", 1.0),
    ],
)
def test_checkpointing_is_a_dial_and_older_settings_are_read(raw, value, budget):
    step = Experiment.from_json(
        json.dumps({"step": {"activation_checkpointing": raw, "recipe": "compile"}})
    ).step
    assert (step.activation_checkpointing, step.activation_budget) == (value, budget)
    assert step.recomputes_blocks == (value in ("selective", "full"))


def test_a_budget_needs_a_compiled_model():
    with pytest.raises(ProblemError, match=r"is a budget of 0\.5, which only compiled models") as caught:
        experiment_from({"step": {"activation_checkpointing": "0.5"}})
    assert caught.value.problem.key == "step.activation_checkpointing"
