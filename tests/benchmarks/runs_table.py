"""How long the runs table takes to show many runs, to filter, to sort and to read them anew.

First with the usual columns, then with more of them, pins and a chosen baseline.

    QT_QPA_PLATFORM=offscreen python tests/benchmarks/runs_table.py [--runs 10000]

Every run has settings of its own, so that nothing is known from another run. "To show" is from the closed
store to the painted table.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt

from engine.experiment.experiment import Experiment, Precision
from engine.protocol.events import Environment, Summary
from engine.store.record import RunRecord, Status
from engine.store.saved.whole_runs import WholeRun
from engine.store.store import Store
from gui.runs.panel import RunsPanel
from gui.runs.table.columns import Column
from gui.session.saved_runs import SavedRuns
from gui.window.app import make_application

_MODELS = ("small-cnn", "resnet18", "resnet50", "vit_b_16")
_TAGS = ("paper", "figure 2", "laptop", "again")
_MORE = (
    Column["optimizer.learning_rate"],
    Column["seed"],
    Column.STEP_RATIO,
    Column.PEAK_RATIO,
    Column.LOSS,
)
_SIZE = (1_120, 640)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    count = parser.parse_args().runs
    make_application([])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ammeter.sqlite"
        with Store(path) as store:
            store.import_runs(WholeRun(record, (), {}) for record in _records(count))
            _mark(store)
        _measure(path)


def _measure(path: Path) -> None:
    began = time.perf_counter()
    with Store(path) as store:
        runs = SavedRuns(store)
        runs.reload()
        read = time.perf_counter()
        panel = RunsPanel()
        panel.set_runs(runs.records())
        panel.resize(*_SIZE)
        panel.grab()
        shown = time.perf_counter()
        count, took = len(panel.model.lines), shown - began
        print(f"{count:,} runs: {_ms(took)} to show, of it {_ms(read - began)} to read")
        _print("filter, a key at a time", _typing(panel, "resnet50 tag:paper"))
        _print("filter emptied", [_timed(panel, lambda: panel.filter.clear())])
        for column in (Column.MODEL, Column.SPEED, Column.RATIO, Column.WHEN):
            order = Qt.SortOrder.DescendingOrder
            _print(f"sorted by {column.name.lower()}", [_timed(panel, _sorting(panel, column, order))])
        panel.table.selectAll()
        sortings = [_sorting(panel, by, Qt.SortOrder.DescendingOrder) for by in (Column.RATIO, Column.SPEED)]
        _print("sorted, all highlighted", [_timed(panel, sorting) for sorting in sortings])
        panel.table.clearSelection()
        _print("read anew, one changed", [_timed(panel, lambda: _change(store, runs, panel))])
        for column in _MORE:
            panel.table.choose(column, True)
        against = next(iter(panel.model.lines))
        _print("a baseline chosen", [_timed(panel, lambda: panel.model.set_baseline(against))])
        for column in _MORE:
            times = [_timed(panel, _sorting(panel, column, order)) for order in Qt.SortOrder]
            print(f"  sorted by {column.name}: {_ms(times[0])}, then {_ms(times[1])}")
        _print("filter of all this, a key at a time", _typing(panel, 'folder:"thesis" seed'))
        panel.filter.clear()
        _print("a run pinned", [_timed(panel, lambda: _pin(runs, panel))])
        panel.deleteLater()


def _typing(panel: RunsPanel, text: str) -> Iterator[float]:
    for end in range(1, len(text) + 1):
        yield _timed(panel, partial(panel.filter.setText, text[:end]))


def _sorting(panel: RunsPanel, column: Column, order: Qt.SortOrder) -> Callable[[], None]:
    return lambda: panel.table.sortByColumn(column, order)


def _change(store: Store, runs: SavedRuns, panel: RunsPanel) -> None:
    store.set_note(runs.records()[0].id, "Changed.")
    runs.reload()
    panel.set_runs(runs.records())


def _pin(runs: SavedRuns, panel: RunsPanel) -> None:
    run_id = panel.model.runs_at(panel.model.rowCount() - 1)[-1].id
    runs.set_pinned((run_id,), True)
    panel.update_run(next(run for run in runs.records() if run.id == run_id))


def _mark(store: Store) -> None:
    """Pins some of the runs."""
    store.set_pinned([run.id for run in store.runs()][5::500], True)


def _timed(panel: RunsPanel, do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    panel.grab()
    return time.perf_counter() - began


def _records(count: int) -> Iterator[RunRecord]:
    dice, moment = random.Random(0), datetime(2026, 1, 1, tzinfo=UTC)
    environment = Environment(
        device_name="A card", device_memory_mib=24_576, torch="2.11", python="3.12", os="Linux", ammeter="0.1"
    )
    for number in range(1, count + 1):
        begun = moment + timedelta(minutes=number)
        yield RunRecord(
            id=f"{number:012x}",
            number=number,
            name=f"Run {number}",
            status=Status.FINISHED,
            created=begun,
            started=begun,
            ended=begun,
            experiment=Experiment(
                model=dice.choice(_MODELS),
                precision=tuple(Precision)[number % 4],
                seed=number // 4,
                batch_size=2 ** dice.randint(3, 9),
            ),
            environment=environment,
            summary=Summary(
                steps=200,
                recipe="plain",
                samples_per_second=dice.uniform(500, 5_000),
                step_ms=dice.uniform(10, 100),
                final_train_loss=dice.random(),
                peak_allocated_mib=dice.uniform(1_000, 20_000),
                final_validation_accuracy=dice.random(),
            ),
            problem=None,
            detail="",
            comparison=None,
            label=None,
            total_steps=200,
            tags=(dice.choice(_TAGS),) if dice.random() < 0.2 else (),
        )


def _print(what: str, seconds: Iterator[float] | list[float]) -> None:
    taken = list(seconds)
    longest = f", {_ms(max(taken))} at most" if len(taken) > 1 else ""
    print(f"  {what}: {_ms(statistics.median(taken))}{longest}")


def _ms(seconds: float) -> str:
    return f"{seconds * 1_000:,.0f} ms"


if __name__ == "__main__":
    main()
