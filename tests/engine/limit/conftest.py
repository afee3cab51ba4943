"""A store, this machine's catalog, and a driver with real workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.experiment.checks import Catalog
from engine.limit.driver import LimitDriver
from engine.runner import Runner
from engine.store.store import Store
from engine.worker.launcher import Launcher


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "runs.sqlite") as store:
        yield store


@pytest.fixture
def catalog(store: Store, launcher: Launcher) -> Catalog:
    return Runner(store, launcher).catalog()


@pytest.fixture
def driver(store: Store, launcher: Launcher, catalog: Catalog) -> LimitDriver:
    return LimitDriver(store, launcher, catalog)
