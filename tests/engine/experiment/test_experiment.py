"""The language of experiments: JSON, TOML and texts, both ways, and layers of settings."""

from __future__ import annotations

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from engine.experiment.experiment import (
    Checkpoint,
    Data,
    Experiment,
    Measure,
    Optimizer,
    Precision,
    Scaler,
    Schedule,
    Step,
    Validation,
    all_settings,
    experiment_from,
    flattened,
    from_dotted,
    layered,
    parse_toml,
)
from engine.experiment.settings import RECIPE_PARTS, joined

names = st.text(min_size=1, max_size=40)


counts = st.integers(1, 1_000_000_000)


maybe = st.none() | st.booleans()


recipes = st.sets(st.sampled_from(RECIPE_PARTS)).map(joined)


patterns = st.lists(st.sampled_from(["fc", "layer4.*", "*.bn1", "lm_head"]), max_size=3).map(tuple)


# a text that means "empty" on a command line cannot be told from it there
paths = st.none() | names.filter(lambda text: text.strip().lower() not in ("", "none", "null"))


def positive(most: float) -> st.SearchStrategy[float]:
    return st.floats(0, most, exclude_min=True, allow_subnormal=False)


@st.composite
def optimizers(draw: st.DrawFn) -> Optimizer:
    name = draw(st.sampled_from(["adamw", "adam", "sgd"]))
    momentum = draw(st.floats(0, 1, exclude_max=True)) if name == "sgd" else 0.0
    return Optimizer(
        name=name,
        learning_rate=draw(positive(1_000)),
        weight_decay=draw(st.floats(0, 1_000)),
        momentum=momentum,
        fused=draw(maybe),
    )


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    name = draw(st.sampled_from(["constant", "cosine", "one-cycle", "step"]))
    return Schedule(
        name=name,
        warmup_steps=0 if name == "one-cycle" else draw(st.integers(0, 1_000_000_000)),
        final_fraction=draw(st.floats(0, 1)),
        rise_fraction=draw(inside_one()),
        decay_epochs=draw(counts_to(1_000_000)),
        decay_factor=draw(positive(1)),
    )


@st.composite
def steps(draw: st.DrawFn) -> Step:
    return Step(
        recipe=draw(recipes),
        gradient_accumulation=draw(counts_to(1_000_000)),
        clip_norm=draw(st.none() | positive(1e300)),
        fp32_modules=draw(patterns),
        activation_checkpointing=draw(st.booleans()),
        autocast_tf32=draw(st.booleans()),
    )


@st.composite
def data(draw: st.DrawFn) -> Data:
    return Data(
        on_device=draw(maybe),
        workers=draw(st.integers(0, 256)),
        prefetch=draw(counts_to(64)),
        pin_memory=draw(st.booleans()),
        persistent_workers=draw(st.booleans()),
        augment=draw(st.booleans()),
    )


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    length = draw(st.sampled_from(["epochs", "steps"]))
    precision = draw(st.sampled_from(Precision))
    modes = ["auto", "off"] if precision is Precision.FP16_UNSCALED else ["auto", "on", "off"]
    return Experiment(
        model=draw(names),
        dataset=draw(names),
        path=draw(paths),
        image_size=draw(st.none() | st.integers(1, 8_192)),
        num_classes=draw(st.none() | st.integers(2, 1_000_000)),
        samples=draw(counts),
        sequence_length=draw(st.integers(2, 1_000_000)),
        precision=precision,
        batch_size=draw(counts),
        device=draw(st.sampled_from(["auto", "cpu", "cuda", "cuda:1", "mps", "xpu:0"])),
        seed=draw(st.integers(0, 2**63 - 1)),
        memory_cap_gib=draw(st.none() | positive(100_000)),
        label_smoothing=draw(st.floats(0, 1, exclude_max=True)),
        on_nan=draw(st.sampled_from(["continue", "stop", "fail"])),
        measure=Measure(warmup_steps=draw(st.integers(0, 1_000_000)), block_steps=draw(counts_to(1_000_000))),
        optimizer=draw(optimizers()),
        scaler=Scaler(
            mode=draw(st.sampled_from(modes)),
            init_scale=draw(positive(2.0**127)),
            backoff_factor=draw(inside_one()),
        ),
        schedule=draw(schedules()),
        step=draw(steps()),
        data=draw(data()),
        validation=Validation(every=draw(st.integers(0, 1_000_000)), limit=draw(st.none() | counts)),
        checkpoint=Checkpoint(
            best=draw(st.booleans()), last=draw(st.booleans()), every=draw(counts_to(1_000_000))
        ),
        **{length: draw(counts)},
    )


def inside_one() -> st.SearchStrategy[float]:
    return st.floats(0, 1, exclude_min=True, exclude_max=True, allow_subnormal=False)


def counts_to(most: int) -> st.SearchStrategy[int]:
    return st.integers(1, most)


@given(experiments())
def test_json_gives_back_the_same_experiment(experiment: Experiment) -> None:
    assert Experiment.from_json(experiment.to_json()) == experiment


@given(experiments())
def test_toml_gives_back_the_same_experiment(experiment):
    # a setting that is None is left out, which reads back as None
    text = tomli_w.dumps(experiment.model_dump(mode="json", exclude_none=True))
    assert experiment_from(parse_toml(text, "the TOML text")) == experiment


def as_text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return "none" if value is None else str(value)


@given(experiments())
def test_a_command_line_of_texts_gives_back_the_same_experiment(experiment: Experiment) -> None:
    settings = layered(
        *(
            from_dotted(key, as_text(value))
            for key, value in flattened(experiment).items()
            if value is not None
        )
    )
    assert experiment_from(settings) == experiment


def test_every_setting_has_a_dotted_name() -> None:
    assert set(all_settings()) == set(flattened(Experiment()))
    assert "optimizer.learning_rate" in all_settings()


def test_without_a_length_it_is_one_epoch() -> None:
    assert Experiment().epochs == 1
    assert Experiment(steps=5).epochs is None


def test_the_scaler_is_used_for_fp16_unless_the_mode_says_otherwise() -> None:
    assert Experiment(precision=Precision.FP16).uses_scaler
    assert not Experiment(precision=Precision.BF16).uses_scaler
    assert Experiment(precision=Precision.BF16, scaler=Scaler(mode="on")).uses_scaler
    assert not Experiment(precision=Precision.FP16, scaler=Scaler(mode="off")).uses_scaler
    assert not Experiment(precision=Precision.FP16_UNSCALED).uses_scaler


def test_a_step_trains_on_as_many_samples_as_its_batches_hold() -> None:
    assert Experiment(batch_size=16, step=Step(gradient_accumulation=4)).step_samples == 64


@pytest.mark.parametrize(
    ("written", "recipe", "parts"),
    [
        ("plain", "plain", ()),
        ("Fast", "fast", RECIPE_PARTS),
        ("capture + channels-last", "channels_last+capture", ("channels_last", "capture")),
        ("fused, compile", "fused+compile", ("fused", "compile")),
        (["compile"], "compile", ("compile",)),
        ("channels_last+fused+compile+capture", "fast", RECIPE_PARTS),
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


def test_the_later_layer_holds_and_tables_are_merged() -> None:
    below = {"model": "linear", "optimizer": {"name": "sgd", "learning_rate": 0.1}}
    over = {"optimizer": {"learning_rate": 0.2}, "batch_size": 8}
    assert layered(below, over) == {
        "model": "linear",
        "optimizer": {"name": "sgd", "learning_rate": 0.2},
        "batch_size": 8,
    }


def test_of_epochs_and_steps_the_one_in_the_later_layer_holds() -> None:
    assert layered({"epochs": 3}, {"steps": 10}) == {"steps": 10}
    assert layered({"steps": 10}, {"epochs": 3}) == {"epochs": 3}


def test_a_length_that_is_emptied_in_words_leaves_the_other_one() -> None:
    assert layered({"steps": 10}, {"epochs": "none"})["steps"] == 10
    assert experiment_from(layered({"epochs": 3}, {"epochs": "none", "steps": "5"})).steps == 5
