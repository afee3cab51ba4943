"""Shifted and flipped pictures: what they show, and that they can be drawn again."""

from __future__ import annotations

import torch

from engine.training.data.pictures import PADDING, ShiftAndFlip

CPU = torch.device("cpu")


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


def test_pictures_of_a_batch_differ_from_one_another() -> None:
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
    first = ShiftAndFlip(3, CPU)
    once = first(pictures(), 2, 5)
    first(pictures(), 1, 1)
    assert torch.equal(first(pictures(), 2, 5), once)
    assert torch.equal(ShiftAndFlip(3, CPU)(pictures(), 2, 5), once)
    for other in ((4, 2, 5), (3, 3, 5), (3, 2, 6)):
        assert not torch.equal(ShiftAndFlip(other[0], CPU)(pictures(), *other[1:]), once)


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    ShiftAndFlip(0, CPU)(pictures(), 1, 0)
    assert torch.equal(torch.get_rng_state(), before)


def test_floating_point_pictures_are_taken_too() -> None:
    changed = ShiftAndFlip(0, CPU)(pictures().float(), 1, 0)
    assert torch.equal(changed, ShiftAndFlip(0, CPU)(pictures(), 1, 0).float())
