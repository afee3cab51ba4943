"""Pictures in a folder, found and counted without torch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from torchvision.datasets.folder import IMG_EXTENSIONS

from engine.experiment.own.folders import ENDINGS, Count, changed_at, count_images
from engine.experiment.problem import ProblemError
from engine.training.data.image_folder import read_image_folder


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")


def count(root: Path) -> Count | None:
    return count_images(str(root), lambda: False)


def test_pictures_are_what_torchvision_takes_for_them() -> None:
    assert ENDINGS == IMG_EXTENSIONS


@pytest.mark.parametrize("has_parts", [False, True])
def test_the_count_is_of_what_a_run_would_read(tmp_path: Path, has_parts: bool) -> None:
    train = "train/" if has_parts else ""
    put(tmp_path, *(f"{train}cats/{number}.jpg" for number in range(5)), f"{train}dogs/deep/0.PNG")
    put(tmp_path, f"{train}dogs/notes.txt", f"{train}dogs/.hidden.png", f"{train}empty/notes.txt")
    if has_parts:
        put(tmp_path, "val/cats/0.webp", "val/dogs/1.webp")
    read = read_image_folder(str(tmp_path))
    assert count(tmp_path) == Count(train=6, validation=2 if has_parts else 0, classes=2)
    assert len(read.classes) == 2 and len(read.train) + len(read.validation) == (8 if has_parts else 6)


def test_a_count_ends_at_the_next_picture_when_given_up_and_needs_a_folder(tmp_path: Path) -> None:
    put(tmp_path, *(f"cats/{number}.jpg" for number in range(10)))
    asked: list[bool] = []

    def is_given_up() -> bool:
        asked.append(True)
        return len(asked) == 3

    assert count_images(str(tmp_path), is_given_up) is None
    assert len(asked) == 3
    with pytest.raises(ProblemError, match="There is no folder"):
        count(tmp_path / "gone")


def test_the_times_tell_that_pictures_came_or_went(tmp_path: Path) -> None:
    put(tmp_path, "cats/0.jpg", "dogs/0.jpg")
    before = changed_at(str(tmp_path))
    assert changed_at(str(tmp_path)) == before
    put(tmp_path, "dogs/1.jpg")
    os.utime(tmp_path / "dogs", (1.0, 2.0))
    assert changed_at(str(tmp_path)) != before
