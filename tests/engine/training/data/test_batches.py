"""Batches: their order and sizes, beginning in the middle of an epoch, preparing and augmenting them."""

from __future__ import annotations

import itertools

import pytest
import torch

from engine.experiment.built_in import Normalization
from engine.experiment.experiment import Experiment
from engine.training.data.batches import (
    DataSplit,
    DeviceSource,
    ReusedBatches,
    cut_batches,
    derive_seed,
    epoch_order,
    generated_samples,
)
from engine.training.data.images import PADDING, PrepareImages, ShiftAndFlip

CPU = torch.device("cpu")
GRAY = Normalization((0.5,), (0.25,))


def numbered(samples: int) -> DataSplit:
    return DataSplit(torch.arange(samples).view(samples, 1), torch.arange(samples))


def resident(seed: int = 0) -> DeviceSource:
    return DeviceSource(numbered(10), numbered(5), Experiment(batch_size=4, seed=seed), CPU)


def turns(drawn: DataSplit, *, batch_size: int, samples: int) -> ReusedBatches:
    return ReusedBatches(cut_batches((drawn.inputs, drawn.targets), batch_size), samples)


def drawn(source: DeviceSource, epoch: int, skip: int = 0) -> list[list[int]]:
    return [targets.tolist() for _, targets in source.epoch(epoch, skip)]


def test_an_epoch_has_each_sample_once_and_ends_with_what_is_left() -> None:
    batches = drawn(resident(), 1)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(itertools.chain(*batches)) == list(range(10))
    source = resident()
    assert drawn(source, 3, skip=2) == drawn(source, 3)[2:]
    assert drawn(source, 3, skip=3) == []


def test_the_order_depends_on_seed_and_epoch_alone_and_validation_keeps_its_own() -> None:
    source = resident()
    assert drawn(source, 2) == drawn(resident(), 2) != drawn(source, 1)
    assert drawn(source, 1) == drawn(source, 1) != drawn(resident(seed=1), 1)
    assert [targets.tolist() for _, targets in source.validation(None)] == [[0, 1, 2, 3], [4]]
    assert [targets.tolist() for _, targets in source.validation(2)] == [[0, 1]]


def test_augmentation_is_told_its_epoch_and_batch_even_after_a_skip() -> None:
    told: list[tuple[int, int]] = []

    def note(inputs: torch.Tensor, epoch: int, number: int) -> torch.Tensor:
        told.append((epoch, number))
        return inputs

    source = DeviceSource(numbered(10), numbered(5), Experiment(batch_size=4), CPU, augment=note)
    list(source.epoch(7, skip=1))
    list(source.validation(None))
    assert told == [(7, 1), (7, 2)]


def test_turns_go_round_and_can_begin_in_the_middle() -> None:
    source = turns(numbered(generated_samples(5)), batch_size=5, samples=22)
    whole = [targets.tolist() for _, targets in source.epoch(1)]
    assert [len(targets) for targets in whole] == [5, 5, 5, 5, 2] and whole[4] == whole[0][:2]
    assert len({tuple(targets) for targets in whole}) == 5
    assert [targets.tolist() for _, targets in source.epoch(2, skip=3)] == whole[3:]
    assert list(source.epoch(1, skip=5)) == [] and list(source.validation(None)) == []


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_turns_lie_in_one_memory_where_any_kernel_can_read_them_fast(memory_format):
    samples = generated_samples(5)
    pictures = torch.randn(samples, 3, 7, 5).contiguous(memory_format=memory_format)
    source = turns(DataSplit(pictures, torch.arange(samples)), batch_size=5, samples=40)
    first, again = (list(itertools.islice(source.epoch(epoch), 4)) for epoch in (1, 2))
    assert [inputs.data_ptr() for inputs, _ in first] == [inputs.data_ptr() for inputs, _ in again]
    for inputs, targets in first:
        assert inputs.is_contiguous(memory_format=memory_format) and torch.equal(inputs, pictures[targets])
        # offsets, since the memory itself lies where the allocator put it
        assert (inputs.data_ptr() - pictures.data_ptr()) % 16 == targets.storage_offset() * 8 % 16 == 0
        assert inputs.untyped_storage().data_ptr() == pictures.untyped_storage().data_ptr()


def test_each_place_has_a_seed_of_its_own() -> None:
    places = [(0, 1), (1, 0), (0, 1, 1), (0, 1, 2), (2**63 - 1, 5)]
    assert len({derive_seed(*place) for place in places}) == len(places)
    assert torch.equal(epoch_order(50, 3, 4), epoch_order(50, 3, 4))


def test_preparing_normalises_each_channel_by_its_own_and_keeps_black_black() -> None:
    prepare = PrepareImages(GRAY, image_size=16, channels=1, device=CPU)
    assert torch.equal(prepare(torch.zeros(1, 1, 8, 8, dtype=torch.uint8)), torch.full((1, 1, 16, 16), -2.0))
    normalization = Normalization((0.0, 0.5, 1.0), (1.0, 0.5, 0.25))
    white = torch.full((2, 3, 4, 4), 255, dtype=torch.uint8)
    prepared = PrepareImages(normalization, image_size=4, channels=3, device=CPU)(white)
    torch.testing.assert_close(prepared[0, :, 0, 0], torch.tensor([1.0, 1.0, 0.0]))


@pytest.mark.parametrize("image_size", [8, 12])
def test_grey_pictures_get_three_channels_in_the_layout_that_is_asked_for(image_size: int) -> None:
    prepare = PrepareImages(
        GRAY, image_size=image_size, channels=3, device=CPU, memory_format=torch.channels_last
    )
    pictures = torch.randint(256, (2, 1, 8, 8), dtype=torch.uint8)
    before = pictures.clone()
    prepared = prepare(pictures)
    assert prepared.shape == (2, 3, image_size, image_size)
    assert prepared.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(prepared[:, 0], prepared[:, 2]) and torch.equal(pictures, before)


def pictures(batch: int = 64, size: int = 12) -> torch.Tensor:
    """Each pixel of a picture has a value of its own, and none is black."""
    one = torch.arange(1, size * size + 1, dtype=torch.uint8).view(1, 1, size, size)
    return one.repeat(batch, 3, 1, 1)


def candidates(original: torch.Tensor) -> list[torch.Tensor]:
    """Every picture that may come of one, (channels, height, width)."""
    _, height, width = original.shape
    padded = [torch.nn.functional.pad(one, (PADDING,) * 4) for one in (original, original.flip(2))]
    places = range(2 * PADDING + 1)
    return [
        one[:, row : row + height, column : column + width]
        for one in padded
        for row in places
        for column in places
    ]


def test_each_picture_is_shifted_and_mirrored_as_a_whole() -> None:
    original = pictures(batch=8)
    possible = candidates(original[0])
    changed = ShiftAndFlip(0, CPU)(original, 1, 0)
    assert changed.dtype == torch.uint8 and changed.shape == original.shape
    assert all(any(torch.equal(picture, one) for one in possible) for picture in changed)
    changed = ShiftAndFlip(0, CPU)(pictures(), 1, 0)
    assert len({bytes(picture.numpy().tobytes()) for picture in changed}) > 30


def test_about_half_are_mirrored_and_shifts_are_centred() -> None:
    marked = torch.zeros(4_000, 1, 20, 20, dtype=torch.uint8)
    marked[:, 0, 10, 8] = 1
    changed = ShiftAndFlip(0, CPU)(marked, 1, 0)
    rows = changed[:, 0].sum(2).argmax(1).float()
    assert set(rows.tolist()) == set(range(6, 15)) and abs(rows.mean().item() - 10) < 0.2
    columns = changed[:, 0].sum(1).argmax(1)
    # mirrored, the mark is at 11, so that columns beyond 12 and below 7 tell the two apart
    beyond, below = (columns > 12).sum().item(), (columns < 7).sum().item()
    assert abs(beyond - below) < 200


def test_what_is_drawn_depends_on_seed_epoch_and_batch_alone() -> None:
    before = torch.get_rng_state()
    first = ShiftAndFlip(3, CPU)
    once = first(pictures(), 2, 5)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first(pictures().float(), 2, 5), once.float())
    assert torch.equal(first(pictures(), 2, 5), once)
    assert torch.equal(ShiftAndFlip(3, CPU)(pictures(), 2, 5), once)
    for other in ((4, 2, 5), (3, 3, 5), (3, 2, 6)):
        assert not torch.equal(ShiftAndFlip(other[0], CPU)(pictures(), *other[1:]), once)
