"""A recording to construct."""

from __future__ import annotations

import pytest

from tests.engine.training.profile.recorded import Recorded


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()
