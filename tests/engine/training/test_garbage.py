"""No collection of cycles while a graph is captured."""

from __future__ import annotations

import gc
import weakref

import pytest

from engine.training.steps.captured import no_collection


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_what_is_garbage_goes_before_and_nothing_while_it_lasts() -> None:
    before = weakref.ref(Cycle())
    with no_collection():
        assert before() is None and not gc.isenabled()
        inside = weakref.ref(Cycle())
        junk = [[] for _ in range(100_000)]  # far past the threshold of a collection
        assert inside() is not None and len(junk) == 100_000
    assert gc.isenabled()


def test_it_is_as_before_after_an_error_too() -> None:
    with pytest.raises(ValueError, match="broken"), no_collection():
        raise ValueError("broken")
    assert gc.isenabled()
    gc.disable()
    try:
        with no_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
