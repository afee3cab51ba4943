"""Runs of every kind in a store, an archive of them, and another store that they may go to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.export.archive.writer import write_runs
from engine.store.saved.whole_runs import WholeRun
from engine.store.store import Store


@pytest.fixture
def store(tmp_path: Path, fill: Callable[[Store], None]) -> Iterator[Store]:
    """Runs of every kind."""
    with Store(tmp_path / "here" / "ammeter.sqlite") as opened:
        fill(opened)
        yield opened


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, fill: Callable[[Store], None]) -> bytes:
    """An archive of runs of every kind."""
    folder = tmp_path_factory.mktemp("exported")
    with Store(folder / "ammeter.sqlite") as opened:
        fill(opened)
        write_all(opened, folder / "runs.zip")
    return (folder / "runs.zip").read_bytes()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    """An empty store, as on another machine."""
    with Store(tmp_path / "there" / "ammeter.sqlite") as opened:
        yield opened


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes an archive of a store's runs (of all of them, unless ids are given)."""
    return lambda store, *run_ids, name="runs.zip": write_all(store, tmp_path / name, *run_ids)


@pytest.fixture
def archive(store: Store, write: Callable[..., Path]) -> Path:
    """An archive of all runs in `store`."""
    return write(store)


def write_all(store: Store, path: Path, *run_ids: str) -> Path:
    wanted = run_ids or tuple(run.id for run in reversed(store.runs()))
    write_runs(lambda: (whole(store, run_id) for run_id in wanted), path)
    return path


def whole(store: Store, run_id: str) -> WholeRun:
    run = store.run(run_id)
    columns = {name: values.astype(np.float64) for name, values in store.samples(run_id).items()}
    groups = {group.id: group for group in store.comparisons()}
    return WholeRun(
        run, store.events(run_id), columns, groups.get(run.comparison or ""), store.pictures([run.id])
    )
