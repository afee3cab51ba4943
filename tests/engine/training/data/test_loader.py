"""Loader processes: the batches they make, what happens to them, and that they end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from torchvision.datasets import FakeData
from torchvision.transforms import PILToTensor

from engine.experiment.built_in import FAKE_TRAIN_SAMPLES
from engine.experiment.problem import ProblemError
from engine.experiment.settings import Data
from engine.training.data.batches import BatchRequest, BatchSource, ordered_requests
from engine.training.data.datasets import load_source
from engine.training.data.image_folder import FolderImages, read_image_folder
from engine.training.data.images import FakeImages
from engine.training.data.loader import Loader
from engine.training.failures import problem_of

from .conftest import picture_run, save_images

CPU = torch.device("cpu")
SIZE = 8
BROKEN = Path("b", "003.png")


def source(**settings: Any) -> BatchSource:
    given = {"dataset": "fakedata", "image_size": SIZE, "batch_size": 64}
    return load_source(picture_run(**(given | settings)), 3, CPU)


def labels_of(batches: Iterator[tuple[torch.Tensor, torch.Tensor]]) -> list[list[int]]:
    return [labels.tolist() for _, labels in batches]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Pictures of two classes, one of which is cut off in its middle."""
    for name in ("a", "b"):
        save_images(tmp_path / name, [(number, 0, 0) for number in range(6)])
    broken = tmp_path / BROKEN
    broken.write_bytes(broken.read_bytes()[:40])
    return tmp_path


def test_fake_pictures_are_torchvisions() -> None:
    theirs = FakeData(FAKE_TRAIN_SAMPLES, (3, SIZE, SIZE), 10, transform=PILToTensor())
    pictures, labels = FakeImages(SIZE, 10).batch(BatchRequest(True, 1, 0, (0, 7)))
    for picture, label, index in zip(pictures, labels, (0, 7), strict=True):
        assert torch.equal(picture, theirs[index][0]) and label == theirs[index][1]


@pytest.mark.usefixtures("forked_loaders")
def test_processes_make_what_the_training_process_makes():
    here = source()
    there = source(data={"workers": 2, "augment": False})
    started = set(multiprocessing.active_children())
    assert len(started) == 2
    examples = there.examples(5)
    assert examples is not None and examples.shape == (5, 3, SIZE, SIZE)
    assert labels_of(here.epoch(1)) == labels_of(there.epoch(1))
    for (inputs, _), (inputs_there, _) in zip(here.epoch(2, 29), there.epoch(2, 29), strict=True):
        assert torch.equal(inputs, inputs_there)
    assert labels_of(here.validation(100)) == labels_of(there.validation(100))
    # an epoch that is left in its middle spoils none after it
    next(iter(there.epoch(3)))
    assert labels_of(here.epoch(1, 30)) == labels_of(there.epoch(1, 30))
    assert set(multiprocessing.active_children()) == started
    there.close()
    there.close()
    assert not multiprocessing.active_children()


@pytest.mark.usefixtures("forked_loaders")
def test_processes_that_are_not_persistent_end_with_their_epoch() -> None:
    pictures = source(data={"workers": 1, "persistent_workers": False})
    assert not multiprocessing.active_children()
    batches = pictures.epoch(1, 30)
    assert len(multiprocessing.active_children()) == 1
    assert len(labels_of(batches)) == 2
    assert not multiprocessing.active_children()
    pictures.close()


@pytest.mark.parametrize("augment", [False, True])
def test_batches_are_the_same_wherever_the_samples_lie(augment: bool) -> None:
    given = {"dataset": "fashion", "image_size": 28, "batch_size": 2_000}
    held, loaded = (source(**given, data={"on_device": place, "augment": augment}) for place in (True, False))
    for (inputs, labels), (inputs_too, labels_too) in zip(held.epoch(1), loaded.epoch(1), strict=True):
        assert torch.equal(inputs, inputs_too) and torch.equal(labels, labels_too)
    plain = source(**given)
    assert torch.equal(next(plain.epoch(1))[0], next(held.epoch(1))[0]) is not augment
    for one in (held, loaded):
        assert torch.equal(next(plain.validation(None))[0], next(one.validation(None))[0])
    # the model draws from the global generator what it would have drawn
    before = torch.get_rng_state()
    next(iter(loaded.epoch(1)))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.slow
@pytest.mark.usefixtures("forked_loaders")
def test_a_process_names_the_picture_that_it_cannot_read_and_is_missed_when_it_is_killed(folder):
    pictures = FolderImages(read_image_folder(str(folder)), SIZE, 0, augment=False)
    loader = Loader(pictures, Data(workers=1), CPU)
    with pytest.raises(ProblemError) as broken:
        list(loader.begin(ordered_requests(pictures.train_samples, 2, is_training=True)))
        list(loader.begin(ordered_requests(pictures.validation_samples, 2, is_training=False)))
    assert str(BROKEN) in broken.value.problem.message

    (process,) = multiprocessing.active_children()
    batches = loader.begin(ordered_requests(pictures.train_samples, 4, is_training=True))
    # PyTorch's handler of ended children raises wherever this process is, even within kill()
    with pytest.raises(RuntimeError) as killed:
        psutil.Process(process.pid).kill()
        process.join()
        list(batches)
    loader.close()
    problem = problem_of(killed.value)
    assert "loader process" in problem.message and "loader workers" in problem.remedy


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a test of signals")
def test_loader_processes_end_with_a_parent_that_is_killed(tmp_path, start_script) -> None:
    # the one that is started as the program starts it, with torch imported anew
    script = tmp_path / "parent.py"
    script.write_text(
        "import multiprocessing, sys, torch\n"
        "from engine.experiment.settings import Data\n"
        "from engine.training.data.images import FakeImages\n"
        "from engine.training.data.loader import Loader\n"
        "if __name__ == '__main__':\n"
        "    loader = Loader(FakeImages(8, 10), Data(workers=1), torch.device('cpu'))\n"
        "    print(*(child.pid for child in multiprocessing.active_children()), flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with start_script(script, dict(os.environ)) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
    gone, _ = psutil.wait_procs([child], timeout=4)
    assert gone
