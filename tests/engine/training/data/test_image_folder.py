"""A folder of pictures: its classes, its parts, what its pictures become, and what can be wrong with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed, to_line
from engine.training.data.batches import BatchRequest, BatchSource
from engine.training.data.datasets import DatasetFacts, facts_of, load_source
from engine.training.data.image_folder import FolderImages, read_image_folder
from engine.training.doctor import read_catalog
from engine.training.runs.plan import RunPlan
from tests.engine.training.conftest import refusal

from .conftest import picture_run, save_images

CPU = torch.device("cpu")
SIZE = 16


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Ten cats in shades of red and ten dogs in shades of blue."""
    root = tmp_path / "pets"
    save_images(root / "cats", [(100 + 10 * shade, 0, 0) for shade in range(1, 11)])
    save_images(root / "dogs", [(0, 0, 100 + 10 * shade) for shade in range(1, 11)])
    return root


def experiment(path: Path, **settings: Any) -> Experiment:
    return picture_run("image-folder", path=str(path), **{"image_size": SIZE, **settings})


def source(path: Path, **settings: Any) -> BatchSource:
    return load_source(experiment(path, **settings), 3, CPU)


def problem_of(path: Path, **settings: Any) -> Problem:
    return refusal(facts_of, Experiment(dataset="image-folder", path=str(path), **settings))


def test_the_last_tenth_validates_where_nothing_else_does(pets: Path) -> None:
    (pets / "cats" / "notes.txt").write_text("no picture")
    (pets / ".hidden").mkdir()
    (pets / "empty").mkdir()
    assert facts_of(experiment(pets)) == DatasetFacts(18, 2, num_classes=2, image_size=SIZE, channels=3)
    folder = read_image_folder(str(pets))
    assert folder.classes == ("cats", "dogs") and not set(folder.train) & set(folder.validation)
    assert folder == read_image_folder(str(pets))


def test_train_and_val_are_taken_as_they_are_and_a_class_that_only_validates_is_refused(tmp_path):
    for part, count in (("train", 3), ("val", 2)):
        for name in ("a", "b"):
            save_images(tmp_path / part / name, [(count, 0, 0)] * count)
    facts = facts_of(experiment(tmp_path))
    assert (facts.train_samples, facts.validation_samples, facts.num_classes) == (6, 4, 2)
    save_images(tmp_path / "val" / "c", [(0, 0, 0)])
    assert "has the class 'c'" in problem_of(tmp_path).message


def test_batches_are_normalised_and_have_their_labels(pets: Path) -> None:
    pictures = source(pets)
    batches = list(pictures.epoch(1))
    pictures.close()
    assert [len(labels) for _, labels in batches] == [4, 4, 4, 4, 2]
    for inputs, labels in batches:
        assert inputs.shape[1:] == (3, SIZE, SIZE) and inputs.dtype == torch.float32
        is_red = inputs[:, 0].mean((1, 2)) > inputs[:, 2].mean((1, 2))
        assert torch.equal(is_red, labels == 0)


def test_a_run_that_goes_on_sees_the_same_pictures(pets: Path) -> None:
    pictures = source(pets, data={"augment": True})
    whole = list(pictures.epoch(2))
    rest = list(pictures.epoch(2, skip=3))
    assert len(rest) == 2
    for (inputs, labels), (inputs_again, labels_again) in zip(whole[3:], rest, strict=True):
        assert torch.equal(inputs, inputs_again) and torch.equal(labels, labels_again)


def striped(folder: Path) -> Path:
    """Two classes of pictures that show where they were cut."""
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        for number in range(4):
            picture = Image.new("L", (40, 30))
            picture.putdata([column * 6 for _ in range(30) for column in range(40)])
            picture.save(folder / name / f"{number}.png")
    return folder


def test_augmented_pictures_are_cut_at_random_and_validation_never_is(tmp_path: Path) -> None:
    folder = read_image_folder(str(striped(tmp_path / "stripes")))
    pictures = FolderImages(folder, SIZE, seed=0, augment=True)
    pictures.open()
    before = torch.get_rng_state()
    (first, _), (second, _) = (pictures.batch(BatchRequest(True, epoch, 0, (0,))) for epoch in (1, 2))
    assert first.shape == (1, 3, SIZE, SIZE) and first.dtype == torch.uint8
    assert not torch.equal(first, second)
    assert torch.equal(first, pictures.batch(BatchRequest(True, 1, 0, (0,)))[0])
    held = pictures.batch(BatchRequest(False, 1, 0, (0,)))[0]
    assert torch.equal(held, held.flip(2)) and not torch.equal(held, held.flip(3))
    assert torch.equal(torch.get_rng_state(), before)


def test_kept_on_the_device_the_pictures_are_the_same_and_all_have_three_colours(pets: Path) -> None:
    loaded, held = source(pets), source(pets, data={"on_device": True})
    assert loaded.train_samples == held.train_samples == 18
    for (inputs, labels), (kept_inputs, kept_labels) in zip(loaded.epoch(1), held.epoch(1), strict=True):
        assert torch.equal(inputs, kept_inputs) and torch.equal(labels, kept_labels)
    assert [len(labels) for _, labels in held.validation(None)] == [2]
    Image.new("L", (30, 20), 128).save(pets / "cats" / "grey.jpg")
    Image.new("RGBA", (30, 20), (1, 2, 3, 4)).save(pets / "cats" / "clear.png")
    inputs = torch.cat([inputs for inputs, _ in source(pets).epoch(1)])
    assert inputs.shape == (20, 3, SIZE, SIZE)  # of 22 pictures, 2 validate


def test_what_is_no_folder_of_two_classes_is_told(tmp_path: Path) -> None:
    assert "image-folder needs a folder" in refusal(facts_of, Experiment(dataset="image-folder")).message
    gone, file, alone = (tmp_path / name for name in ("nowhere", "file", "alone"))
    file.write_text("")
    save_images(alone, [(0, 0, 0)])
    for path, said in (
        (gone, "There is no folder"),
        (file, "is not a folder"),
        (alone, "no subfolders with"),
    ):
        problem = problem_of(path)
        assert problem.kind is Kind.REQUEST and problem.key == "path" and said in problem.message
    save_images(alone / "cats", [(1, 2, 3)] * 4)
    assert "only one class, 'cats'" in problem_of(alone).message


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is closed to root")
def test_a_folder_that_is_closed_is_told(pets: Path) -> None:
    (pets / "cats").chmod(0)
    problem = problem_of(pets)
    (pets / "cats").chmod(0o700)
    assert "cannot be opened" in problem.message and "permissions" in problem.remedy


def test_unreadable_pictures_are_counted_and_the_first_is_named(pets: Path) -> None:
    broken = [pets / "dogs" / name for name in ("a.jpg", "b.jpg")]
    for file in broken:
        file.write_bytes(b"no picture at all")
    problem = problem_of(pets)
    assert problem.kind is Kind.REQUEST and problem.key == "path"
    assert problem.message.startswith("2 of 22 images in")
    assert any(str(Path("dogs", file.name)) in problem.message for file in broken)
    for file in broken:
        file.unlink()
    whole = pets / "cats" / "000.png"
    picture = Image.effect_noise((64, 64), 50)
    picture.save(whole)
    whole.write_bytes(whole.read_bytes()[:-800])
    facts_of(experiment(pets))  # its head is sound
    pictures = source(pets)
    problem = refusal(lambda: [*pictures.epoch(1), *pictures.validation(None)])
    assert str(Path("cats", "000.png")) in problem.message


def test_settings_that_do_not_fit_the_folder_are_refused(pets: Path) -> None:
    problem = problem_of(pets, batch_size=19)
    assert problem.key == "batch_size" and problem.allowed == "1 to 18"
    # a saved run has its number of classes
    assert facts_of(experiment(pets, num_classes=2)).num_classes == 2
    problem = problem_of(pets, num_classes=3, batch_size=4)
    assert problem.key == "num_classes" and problem.allowed == "2"
    accumulated = experiment(pets, step={"gradient_accumulation": 6})
    assert refusal(RunPlan, accumulated, read_catalog()).key == "step.gradient_accumulation"


def test_pictures_that_do_not_fit_the_device_are_refused_before_anything_is_read(pets: Path) -> None:
    problem = problem_of(
        pets, image_size=8_192, device="cpu", data={"on_device": True}, memory_cap_gib=1, batch_size=1
    )
    assert problem.key == "data.on_device" and "20 samples take 3.75 GiB" in problem.message


def test_folders_within_a_class_are_its_own_but_hidden_ones_and_links_back(pets: Path) -> None:
    save_images(pets / "cats" / "kittens", [(255, 0, 0)])
    save_images(pets / "cats" / ".ipynb_checkpoints", [(0, 0, 0)] * 3)
    (pets / "cats" / "again").symlink_to(pets / "cats", target_is_directory=True)
    (pets / "cats" / "up").symlink_to(pets, target_is_directory=True)
    found = read_image_folder(str(pets))
    files = [file for file, _ in (*found.train, *found.validation)]
    assert len([file for file in files if "ipynb" in file]) == 0
    assert (str(pets / "cats" / "kittens" / "000.png"), 0) in (*found.train, *found.validation)
    assert len([file for file in files if Path(file).parent == pets / "cats"]) == 10


def test_pictures_of_16_bits_keep_their_shades(tmp_path: Path) -> None:
    for name in ("cats", "dogs"):
        save_images(tmp_path / name, [100 * 256] * 2, size=(SIZE, SIZE), mode="I;16")
    pictures = FolderImages(read_image_folder(str(tmp_path)), SIZE, 0, augment=False)
    pictures.open()
    made, _ = pictures.batch(BatchRequest(True, 1, 0, (0,)))
    assert made.unique().tolist() == [100]


def test_a_name_that_is_not_utf_8_can_still_be_told(pets: Path) -> None:
    folder = pets / os.fsdecode(b"caf\xe9")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    (folder / "broken.png").write_text("no picture")
    problem = problem_of(pets)
    assert "broken.png" in problem.message
    assert b"broken.png" in to_line(Failed(problem=problem, detail=str(folder)))


def test_an_empty_val_folder_leaves_nothing_to_validate_on(pets: Path, tmp_path: Path) -> None:
    parted = tmp_path / "parted"
    parted.mkdir()
    pets.rename(parted / "train")
    (parted / "val").mkdir()
    for on_device in (True, False):
        made = source(parted, data={"on_device": on_device})
        assert not made.has_validation
        made.close()
