"""Overrides of a library's model: typed in a line, as a table, or both; and dropped with their model."""

from __future__ import annotations

import pytest

from engine.experiment.experiment import Experiment, experiment_from, layered
from engine.experiment.problem import ProblemError
from engine.words.names import applying_settings


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
