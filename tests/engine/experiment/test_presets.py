"""Presets: those that come with the program, and the user's own."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.presets import (
    BUILT_IN,
    Preset,
    Variant,
    all_presets,
    broken_presets,
    delete_own,
    own_presets_folder,
    preset,
    rename_own,
    restore_own,
    save_own,
)
from engine.experiment.problem import ProblemError


def write_own(name: str, text: str) -> None:
    own_presets_folder().mkdir(parents=True, exist_ok=True)
    (own_presets_folder() / f"{name}.toml").write_text(text, encoding="utf-8")


def test_the_built_in_presets_are_there_and_whole() -> None:
    assert tuple(found.name for found in all_presets()) == BUILT_IN
    for found in all_presets():
        assert found.title and found.about and not found.is_own
        assert found.experiments(has_gpu=True) and found.experiments(has_gpu=False)
    folder = files("resources") / "presets"
    assert {f"{name}.toml" for name in BUILT_IN} == {entry.name for entry in folder.iterdir()}
    assert BUILT_IN[0] == "fashion"


def test_a_preset_that_is_smaller_without_a_gpu_says_so() -> None:
    for found in all_presets():
        told = found.about_for(has_gpu=False)
        assert found.about_for(has_gpu=True) == found.about
        is_other = found.base(has_gpu=True) != found.base(has_gpu=False)
        assert ("Without a GPU, it " in told) == is_other, found.name


@pytest.mark.parametrize("name", BUILT_IN)
def test_without_a_gpu_fp16_is_left_to_what_shows_its_parts(name: str) -> None:
    used = {experiment.precision for _, experiment in preset(name).experiments(has_gpu=False)}
    shows_scaling = name in ("hello-amp", "debug-divergence")
    assert (Precision.FP16 in used) == shows_scaling


@pytest.mark.parametrize(("has_gpu", "amp"), [(True, Precision.FP16), (False, Precision.BF16)])
def test_fashion_compares_fp32_with_the_amp_of_the_machine(has_gpu: bool, amp: Precision) -> None:
    found = preset("fashion")
    assert found.kind == "compare"
    compared = found.experiments(has_gpu)
    assert [label for label, _ in compared] == ["FP32", amp.label]
    assert [experiment.precision for _, experiment in compared] == [Precision.FP32, amp]
    assert len({experiment.model_copy(update={"precision": amp}) for _, experiment in compared}) == 1


def test_an_unknown_preset_is_answered_with_the_nearest() -> None:
    with pytest.raises(ProblemError) as caught:
        preset("fashon")
    assert caught.value.problem.remedy == "Did you mean fashion?"


def test_a_saved_preset_is_found_again() -> None:
    experiment = Experiment(model="resnet18", batch_size=32, image_size=32)
    variants = (Variant("FP32", {"precision": "fp32"}), Variant("twice", {"batch_size": 64}))
    saved = save_own("Mein Versuch: ü!", experiment, variants, about="Why.")
    found = preset("mein-versuch-u")
    assert found == saved and found.is_own and found.origin.is_file()
    assert (found.title, found.about, found.kind) == ("Mein Versuch: ü!", "Why.", "compare")
    assert found.experiments(has_gpu=True)[0] == ("FP32", experiment)
    assert found.experiments(has_gpu=True)[1][1].batch_size == 64


def test_a_preset_is_replaced_only_when_asked() -> None:
    save_own("Mine", Experiment(seed=1))
    with pytest.raises(ProblemError, match="already a preset named 'mine'"):
        save_own("mine", Experiment(seed=2))
    save_own("mine", Experiment(seed=2), replace=True)
    assert preset("mine").experiments(has_gpu=False)[0][1].seed == 2
    assert [path.name for path in own_presets_folder().iterdir()] == ["mine.toml"]


@pytest.mark.parametrize("title", ["fashion", "Hello AMP", "", "???"])
def test_a_title_that_cannot_name_a_preset_is_refused(title: str) -> None:
    with pytest.raises(ProblemError) as caught:
        save_own(title, Experiment(), replace=True)
    assert caught.value.problem.key == "title"


def test_where_nothing_can_be_written_it_says_so(home: Path) -> None:
    home.mkdir()
    (home / "presets").write_text("a file in the folder's place", encoding="utf-8")
    with pytest.raises(ProblemError, match="could not be saved"):
        save_own("mine", Experiment())


BROKEN: list[tuple[str, str]] = [
    ("title = ", "not valid TOML"),
    ("about = 'no title'", "title is missing"),
    ("title = 'x'\nkind = 'race'\n[experiment]", "run, compare, limit or numerics"),
    ("title = 'x'\ncolour = 'red'\n[experiment]", "no setting named 'colour'"),
    ("title = 'x'\n[experiment]\nbatch_size = 0", "Batch size is 0"),
    ("title = 'x'\n[experiment]\n[[variants]]\nprecision = 'fp32'", "label is missing"),
    ("title = 'x'\n[experiment]\n[[variants]]\nlabel = 'a'\nprecision = 'fp4'", "Precision is 'fp4'"),
    ("title = 'x'\n[experiment]\n[[variants]]\nlabel = 'a'\n[[variants]]\nlabel = 'a'", "labeled 'a'"),
    ("title = 'x'\nvariants = 3\n[experiment]", "variants is 3, but it must be a list"),
    ("title = 'x'\nparts = 'nan'\n[experiment]", "parts is 'nan', but it must be a list"),
    ("title = 'x'\n[experiment]\n[without_gpu]\nvariants = 3", "must be a list of tables"),
    ("title = 'x'\n[experiment]\n[sweep]\nbatch_size = [32, -1]", "batch size -1 cannot be trained"),
    ("title = 'x'\n[experiment]\n[without_gpu]\nepochs = 0", "Epochs is 0"),
    ("title = 'x'\n[experiment]\n[without_gpu]\nabout = 3", "about is 3, but it must be text"),
]


@pytest.mark.parametrize(("text", "words"), BROKEN)
def test_a_broken_file_of_the_user_is_reported_and_the_others_stay(text: str, words: str) -> None:
    write_own("wrong", text)
    save_own("right", Experiment())
    assert {found.name for found in all_presets()} >= {"fashion", "hello-amp", "right"}
    (problem,) = broken_presets()
    assert problem.message.startswith("Preset 'wrong': ") and words in problem.message


def test_a_file_that_takes_the_name_of_a_built_in_preset_does_not_hide_it() -> None:
    write_own("fashion", "title = 'mine'\n[experiment]\nmodel = 'linear'")
    assert preset("fashion").title != "mine"
    assert len(broken_presets()) == 1


def test_the_overrides_without_a_gpu_do_not_reach_one_that_has() -> None:
    table: dict[str, Any] = {"batch_size": 256, "optimizer": {"name": "sgd", "learning_rate": 0.1}}
    small = {"batch_size": 8, "optimizer": {"learning_rate": 0.01}}
    found = Preset("x", "x", "", "run", table, (), small, Path("x.toml"), True)
    assert found.base(has_gpu=True) == table
    assert found.base(has_gpu=False) == {"batch_size": 8, "optimizer": {"name": "sgd", "learning_rate": 0.01}}
    assert found.about_for(has_gpu=True) == ""
    assert found.about_for(has_gpu=False) == "Without a GPU, it uses other settings."


def test_an_own_preset_is_renamed_with_all_that_is_in_it() -> None:
    first = save_own("Mine", Experiment(batch_size=8), about="For the old card.")
    second = rename_own(first, "Yours")
    assert (second.name, second.title, second.about) == ("yours", "Yours", "For the old card.")
    assert preset("yours").experiments(False)[0][1].batch_size == 8
    assert [found.name for found in all_presets() if found.is_own] == ["yours"]
    assert rename_own(second, "YOURS").title == "YOURS"


@pytest.mark.parametrize("title", ["Fashion", "Taken", "???"])
def test_an_own_preset_takes_no_title_that_is_taken_or_makes_no_name(title: str) -> None:
    save_own("Taken", Experiment(batch_size=16))
    mine = save_own("Mine", Experiment(batch_size=8))
    with pytest.raises(ProblemError) as refused:
        rename_own(mine, title)
    assert refused.value.problem.key == "title"
    assert preset("mine") == mine and preset("taken").base(False)["batch_size"] == 16


def test_a_deleted_preset_comes_back_as_it_was_unless_its_name_is_taken() -> None:
    mine = save_own("Mine", Experiment(batch_size=8))
    text = delete_own(mine)
    assert not [found for found in all_presets() if found.is_own]
    restore_own(mine, text)
    assert preset("mine") == mine
    with pytest.raises(ProblemError, match="already a preset named 'mine'"):
        restore_own(mine, text)
    mine.origin.unlink()
    with pytest.raises(ProblemError, match="could not be deleted"):
        delete_own(mine)


def test_a_preset_of_the_program_is_never_changed() -> None:
    built_in = preset("fashion")
    for change in (lambda: delete_own(built_in), lambda: rename_own(built_in, "Mine")):
        with pytest.raises(ProblemError, match="comes with the program"):
            change()
    assert built_in.origin.exists()
