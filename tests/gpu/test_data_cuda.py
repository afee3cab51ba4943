"""Batches copied to a CUDA device: the same as on the CPU, without synchronizations."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from multiprocessing import resource_tracker
from typing import Any

import pytest
import torch

from engine.experiment.built_in import Normalization
from engine.experiment.checks import resolve
from engine.experiment.experiment import Experiment
from engine.training.data.batches import BatchSource
from engine.training.data.datasets import load_source
from engine.training.data.images import PrepareImages, ShiftAndFlip
from engine.training.data.own import seeded
from engine.training.doctor import read_catalog

CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")


@pytest.fixture(scope="module", autouse=True)
def tracker() -> None:
    """Python's own helper of spawned processes lives as long as the tests do: it is nobody's to end."""
    if hasattr(resource_tracker, "ensure_running") and sys.platform != "win32":
        resource_tracker.ensure_running()


@contextlib.contextmanager
def never_waiting() -> Iterator[None]:
    """Raises where the host waits for the device."""
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        # the mode is a prototype, which it says once
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def source(device: torch.device, memory_format: torch.memory_format, **settings: Any) -> BatchSource:
    given = {"dataset": "fakedata", "image_size": 16, "batch_size": 64, "device": "cpu", **settings}
    experiment = resolve(Experiment.model_validate(given), read_catalog())
    return load_source(experiment, 3, device, memory_format)


@pytest.mark.parametrize("pin_memory", [True, False])
@pytest.mark.parametrize("workers", [0, 2])
def test_loaded_batches_are_the_cpus_while_the_device_is_busy(workers: int, pin_memory: bool) -> None:
    here = source(CPU, torch.contiguous_format)
    there = source(CUDA, torch.channels_last, data={"workers": workers, "pin_memory": pin_memory})
    busy = torch.randn(2_048, 2_048, device=CUDA)
    arrived = []
    for inputs, targets in there.epoch(1):
        for _ in range(5):
            busy = busy @ busy / 2_048
        assert inputs.is_contiguous(memory_format=torch.channels_last)
        arrived.append((inputs * 1, targets * 1))
        del inputs, targets  # their memory is free for the next copies, which must not come too early
    there.close()
    for (inputs, targets), (inputs_there, targets_there) in zip(here.epoch(1), arrived, strict=True):
        torch.testing.assert_close(inputs_there.cpu(), inputs, rtol=0, atol=1e-6)
        assert torch.equal(targets_there.cpu(), targets)


@pytest.mark.parametrize("on_device", [True, False])
def test_the_host_waits_for_no_batch(on_device: bool) -> None:
    pictures = source(CUDA, torch.channels_last, data={"on_device": on_device, "augment": True})
    batches = pictures.epoch(1)
    next(batches)
    with never_waiting():
        for _ in range(5):
            next(batches)
    pictures.close()


def test_augmentation_never_waits_and_can_be_drawn_again() -> None:
    augment = ShiftAndFlip(0, CUDA)
    pictures = torch.randint(256, (32, 3, 32, 32), dtype=torch.uint8, device=CUDA)
    with never_waiting():
        first, again, other = augment(pictures, 1, 2), augment(pictures, 1, 2), augment(pictures, 1, 3)
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_pictures_are_prepared_as_on_the_cpu() -> None:
    normalization = Normalization((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    pictures = torch.randint(256, (4, 3, 20, 20), dtype=torch.uint8)
    prepared = [
        PrepareImages(normalization, image_size=20, channels=3, device=device)(pictures.to(device)).cpu()
        for device in (CPU, CUDA)
    ]
    torch.testing.assert_close(*prepared, rtol=0, atol=1e-6)


def test_synthetic_batches_come_in_the_models_layout() -> None:
    drawn = source(CUDA, torch.channels_last, dataset="synthetic", samples=100)
    assert all(inputs.is_contiguous(memory_format=torch.channels_last) for inputs, _ in drawn.epoch(1))


def test_a_batch_of_the_users_own_leaves_the_cards_generator_alone() -> None:
    torch.manual_seed(3)
    state = torch.cuda.get_rng_state()
    with seeded(5):
        torch.rand(4)
    assert torch.equal(torch.cuda.get_rng_state(), state)
