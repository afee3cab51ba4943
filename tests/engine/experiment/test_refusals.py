"""The answer to settings that cannot be: which one, what it is, and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment, experiment_from, from_dotted, setting_title
from engine.experiment.presets import read_toml
from engine.experiment.problem import Kind, ProblemError
from engine.experiment.settings import RECIPE_PARTS

WRONG = [
    ("precision", "fp4", "fp32, tf32, default, fp16, bf16, fp16-unscaled, fp8 or bf16-pure"),
    ("batch_size", "0", "1 or more"),
    ("batch_size", "2.5", "a whole number"),
    ("batch_size", 10_000_000_000, "at most 1,000,000,000"),
    ("samples", "none", "a whole number"),
    ("num_classes", "1", "2 or more"),
    ("seed", "-1", "0 or more"),
    ("memory_cap_gib", "0", "more than 0"),
    ("memory_cap_gib", "inf", "a finite number"),
    ("device", "gpu", "auto, cpu, cuda:0 or another device of `ammeter catalog`"),
    ("model", "", "at least 1 characters"),
    ("on_nan", "panic", "continue, stop or fail"),
    ("label_smoothing", "1", "less than 1"),
    ("optimizer.name", "lion", "adamw, adam, sgd, muon, adamw-8bit, adamw-4bit or adamw-fp8"),
    ("optimizer.fused", "perhaps", "true or false"),
    ("optimizer.learning_rate", "nan", "a finite number"),
    ("optimizer.learning_rate", "fast", "a number"),
    ("optimizer", "adamw", "a table of settings"),
    ("scaler.growth_factor", "1", "more than 1"),
    ("schedule.final_fraction", "1.5", "at most 1"),
    *(
        ("step.recipe", value, f"plain, fast, or any of {', '.join(RECIPE_PARTS)}")
        for value in ("turbo", "fused+turbo")
    ),
    ("step.fp32_modules", 5, "a list"),
    *(
        ("step.activation_checkpointing", value, "none, selective, full, or a budget from 0 to 1")
        for value in ("half", "1.5", "nan")
    ),
    ("data.workers", "257", "at most 256"),
]


@pytest.mark.parametrize(("key", "value", "allowed"), WRONG)
def test_a_wrong_value_is_answered_with_key_value_and_what_is_allowed(key, value, allowed):
    with pytest.raises(ProblemError) as caught:
        experiment_from(from_dotted(key, value))
    problem = caught.value.problem
    assert problem.kind is Kind.REQUEST and problem.key == key
    assert (problem.value, problem.allowed) == (str(value), allowed)
    assert all(part in problem.message for part in (setting_title(key), str(value), allowed))
    assert problem.message.endswith(".") and problem.remedy.endswith(".")


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("batchsize", "Did you mean batch_size?"),
        ("momentum", "Did you mean optimizer.momentum?"),
        ("learnig_rate", "Did you mean optimizer.learning_rate?"),
        ("optim.weight_decay", "Did you mean optimizer.weight_decay?"),
        ("every", "Did you mean checkpoint.every or validation.every?"),
        ("lr", "Did you mean optimizer.learning_rate?"),
        ("wd", "Did you mean optimizer.weight_decay?"),
        ("wings", "Remove it."),
        ("a.b.c", "Remove it."),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest_ones(key: str, remedy: str) -> None:
    with pytest.raises(ProblemError) as caught:
        experiment_from(from_dotted(key, 4))
    assert caught.value.problem.message == f"There is no setting named '{key}'."
    assert caught.value.problem.remedy == f"{remedy} `ammeter settings` lists all settings."


def test_several_wrong_values_are_all_named() -> None:
    with pytest.raises(ProblemError) as caught:
        experiment_from({"batch_size": 0, "precision": "fp4"})
    assert {problem.key for problem in caught.value.problems} == {"batch_size", "precision"}


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        ({"epochs": 1, "steps": 2}, "steps", "Steps and epochs are both set"),
        ({"optimizer": {"name": "adamw", "momentum": 0.9}}, "optimizer.momentum", "Momentum is for sgd"),
        ({"optimizer": {"name": "adam", "momentum": 0.9}}, "optimizer.momentum", "Momentum is for sgd"),
        (
            {"schedule": {"name": "one-cycle", "warmup_steps": 5}},
            "schedule.warmup_steps",
            "one-cycle warms up by itself",
        ),
        (
            {"step": {"recipe": "compile", "compile_mode": "max-autotune", "gradient_accumulation": 2}},
            "step.compile_mode",
            "CUDA graphs overwrite accumulated gradients",
        ),
        (
            {"precision": "fp16-unscaled", "scaler": {"mode": "on"}},
            "scaler.mode",
            "trains without a loss scaler",
        ),
    ],
)
def test_settings_that_contradict_one_another_are_answered(settings, key, words):
    with pytest.raises(ProblemError) as caught:
        experiment_from(settings)
    assert caught.value.problem.key == key
    assert words in caught.value.problem.message


@pytest.mark.parametrize("text", ["not json", "[]", '{"batch_size": }', "3"])
def test_json_that_is_no_experiment_is_answered(text: str) -> None:
    with pytest.raises(ProblemError):
        Experiment.from_json(text)


def test_a_toml_file_that_cannot_be_read_is_answered_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("batch_size = = 3\n", encoding="utf-8")
    with pytest.raises(ProblemError) as caught:
        read_toml(path)
    assert str(path) in caught.value.problem.message
    assert "line 1" in caught.value.problem.message
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for name in ("absent.toml", "binary.toml"):
        with pytest.raises(ProblemError) as caught:
            read_toml(tmp_path / name)
        assert name in caught.value.problem.message
