"""Grey pictures in a colour's shades: what is dark is brought up, and the ends are the colours themselves."""

from __future__ import annotations

import numpy as np

from engine.protocol.pictures import brightened, shades


def test_dark_pictures_are_brought_up_and_bright_ones_down() -> None:
    dark, bright = np.full((2, 8, 8), 20, np.uint8), np.full((2, 8, 8), 235, np.uint8)
    assert brightened(dark).mean() > 60
    assert 200 < brightened(bright).mean() < 235


def test_what_is_all_black_and_what_is_not_there_stay_as_they_are() -> None:
    black, none = np.zeros((2, 8, 8), np.uint8), np.zeros((0, 8, 8), np.uint8)
    assert np.array_equal(brightened(black), black)
    assert brightened(none).shape == none.shape


def test_greys_go_evenly_from_one_colour_to_the_other() -> None:
    table = shades("#102030", "#F0A050")
    assert (table.shape, table.dtype) == ((256, 3), np.uint8)
    assert table[0].tolist() == [0x10, 0x20, 0x30] and table[255].tolist() == [0xF0, 0xA0, 0x50]
    assert table[127].tolist() == [128, 96, 64]
