"""Broken pictures of a folder are found before the run, or passed over and named where that is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, ProblemError
from engine.protocol.events import Event, Finished, Phase, PhaseName
from engine.protocol.jobs import Control
from engine.training.data.datasets import facts_of, load_source
from engine.training.data.image_folder import check_images, read_image_folder, used_images
from engine.training.runs.loop import train
from tests.engine.training.conftest import refusal, trained

from .conftest import picture_run, save_images

CPU = torch.device("cpu")
LONG_SECONDS = 600.0


def files_of(root: Path) -> list[tuple[Path, int]]:
    return [(Path(file), label) for file, label in read_image_folder(str(root)).train]


@pytest.fixture(params=[".jpg", ".png"])
def pets(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Twenty cats and twenty dogs; the second picture that is trained on breaks off in the middle."""
    root = tmp_path / "pets"
    for name in ("cats", "dogs"):
        (root / name).mkdir(parents=True)
        for number in range(20):
            Image.effect_noise((48, 40), 50).save(root / name / f"{number:02}{request.param}")
    broken = files_of(root)[1][0]
    broken.write_bytes(broken.read_bytes()[:-600])
    return root


@pytest.fixture
def colours(tmp_path: Path) -> Path:
    """Ten black pictures of the first class and ten red ones of the second."""
    for name, color in (("a", (0, 0, 0)), ("b", (250, 0, 0))):
        save_images(tmp_path / name, [color] * 10)
    return tmp_path


def experiment(path: Path, **settings: Any) -> Experiment:
    length = None if "steps" in settings else 1
    return picture_run("image-folder", **{"path": str(path), "image_size": 16, "epochs": length, **settings})


def test_a_picture_that_breaks_off_in_the_middle_is_found_before_the_first_step(pets: Path) -> None:
    problem = refusal(trained, experiment(pets, steps=9))
    assert problem.kind is Kind.REQUEST and problem.key == "path"
    assert str(files_of(pets)[1][0].relative_to(pets)) in problem.message
    assert "skip broken images" in problem.remedy


def test_a_run_goes_on_without_it_where_asked_and_names_it_once(pets, capfd):
    run = trained(experiment(pets, epochs=2, data={"skip_broken": True}))
    assert not run.finished.stopped and run.summary.steps == 2 * 9
    said = capfd.readouterr().err
    assert said.count("cannot be read. The next image is used instead.") == 1
    assert files_of(pets)[1][0].name in said
    assert not any(phase.name is PhaseName.CHECKING for phase in run.of(Phase))


def test_the_next_picture_stands_in_with_its_own_class_if_there_is_one(colours: Path) -> None:
    for file, label in files_of(colours):
        if label == 0:
            file.write_bytes(b"nothing")
    wanted = experiment(colours, data={"skip_broken": True})
    assert facts_of(wanted).train_samples == 18
    for pictures, labels in load_source(wanted, 3, CPU).epoch(1):
        assert labels.eq(1).all() and (pictures[:, 0] > 0).all()
    for file, _ in files_of(colours):
        file.write_bytes(b"nothing")
    source = load_source(experiment(colours, data={"skip_broken": True}), 3, CPU)
    with pytest.raises(ProblemError, match="cannot be read"):
        next(iter(source.epoch(1)))


def test_all_that_the_run_uses_is_opened_and_nothing_else(pets: Path) -> None:
    folder = read_image_folder(str(pets))
    everything = used_images(folder, experiment(pets), None)
    assert sorted(everything) == sorted(file for file, _ in (*folder.train, *folder.validation))
    two_steps = used_images(folder, experiment(pets, validation={"every": 0}), 2)
    assert len(set(two_steps)) == 8 and set(two_steps) <= {file for file, _ in folder.train}
    assert len(used_images(folder, experiment(pets, validation={"limit": 3}), 2)) == 8 + 3
    *_, last = check_images(everything, lambda: False, 0, LONG_SECONDS)
    assert last.count == last.of == 40 and last.broken == (str(files_of(pets)[1][0]),)


def test_the_pictures_of_a_short_run_are_those_that_its_source_draws(colours: Path) -> None:
    for file, _ in files_of(colours):
        if str(file) not in used_images(read_image_folder(str(colours)), experiment(colours), 2):
            file.write_bytes(b"nothing")
    source = iter(load_source(experiment(colours), 3, CPU).epoch(1))
    assert all(len(labels) == 4 for _, labels in (next(source), next(source)))


def test_a_large_folder_is_looked_at_in_part_and_a_stop_ends_it(pets: Path) -> None:
    everything = used_images(read_image_folder(str(pets)), experiment(pets), None)
    without_time = list(check_images(everything, lambda: False, 0, 0.0))
    assert [(looked.count, looked.of) for looked in without_time] == [(32, 40)]
    stopped = list(check_images(everything, lambda: True, 0, LONG_SECONDS))
    assert [looked.count for looked in stopped] == [32]
    control = Control()
    events: list[Event] = []
    for event in train(experiment(pets), control):
        events.append(event)
        if isinstance(event, Phase) and event.name is PhaseName.CHECKING:
            control.stop_requested.set()
    assert isinstance(events[-1], Finished) and events[-1].stopped
