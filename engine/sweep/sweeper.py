"""Continue a sweep turn by turn. Finished turns are saved and never repeated."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from threading import Event as Flag
from typing import Any, ClassVar

from engine.compare.sides import node_of
from engine.compare.split import MOST_OTHERS
from engine.driver import Inspector
from engine.experiment import sweep
from engine.experiment.checks import Catalog, DeviceEntry, whole_path
from engine.experiment.command import refuse
from engine.experiment.experiment import layered
from engine.experiment.problem import Kind, Problem, ProblemError, request_error, request_problem
from engine.experiment.sweep import MOST_EXTRA_REPEATS, Axis, Grid, Plan
from engine.protocol import jobs
from engine.protocol.events import Event, Failed, Finished, Summary
from engine.runner import Runner
from engine.store.record import RunRecord, Work
from engine.store.saved.forecasts import Forecasts
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store
from engine.sweep.estimate import estimate_of, exclusion_reasons
from engine.sweep.order import (
    PilotWatch,
    SweepEvent,
    SweepStarted,
    Turn,
    TurnEnded,
    TurnStarted,
    finished_runs,
    groups_of,
    is_trained,
    pilot_experiment,
    turns,
)
from engine.worker.launcher import Launcher

_SAVED_EVERY_SECONDS = 5.0  # how much of the time spent is lost at most if the program is killed
_OF_ALL_CELLS = (Kind.STORE, Kind.DISK_FULL)  # kinds of problem that the next cell would meet too
_MOST_LOSSES = 2  # so often a block is trained again on another node
_Block = tuple[int, int]
"""A baseline's index and a repeat. In a cluster one node trains the runs of these cells, alternating."""

_Spend = Callable[[], None]
_TurnEvents = Generator[SweepEvent, None, Problem | None]


class Sweeper(Inspector):
    """Trains the cells of saved sweeps in the thread that iterates over `run`.

    Any thread may call `stop`, `skip`, `pause` and `resume`.
    """

    keeps_place: ClassVar[bool] = True

    def __init__(self, store: Store, launcher: Launcher, catalog: Catalog | None = None) -> None:
        super().__init__(store, launcher, catalog)
        self._runner = Runner(store, launcher, keeps_refused=True)
        self._skip_asked = Flag()
        self._block: _Block | None = None
        self._losses = Counter[_Block]()

    def prepare(self, name: str, grid: Grid, plan: Plan) -> str:
        """Save a new sweep of the grid, and return its id.

        Cells that cannot be trained on this machine or will not fit are excluded, with the reason. Raises
        ProblemError if no cell is left, if code is not trusted, and for a seed that is too large.
        """
        experiments = [cell.experiment for cell in grid.cells]
        refuse("sweep", (experiment.command for experiment in experiments))
        for experiment in experiments:
            self._launcher.trusted_code.check(experiment)
        extra = MOST_EXTRA_REPEATS if plan.precision_percent is not None else 0
        sweep.check_seeds([("", experiment) for experiment in experiments], max(plan.repeats, extra))
        catalog = self._catalog or self._runner.catalog()
        left_out = exclusion_reasons(
            grid, catalog, Forecasts(self._store.path.parent, self._launcher.site.name)
        )
        fitting = [experiment for index, experiment in enumerate(experiments) if index not in left_out]
        if not fitting:
            message = f"None of the sweep's {grid.size:,} combinations can be trained here. {left_out[0]}"
            remedy = "Change the settings that all combinations share, or use other values."
            raise request_error(message, remedy, key="sweep")
        device = catalog.device(fitting[0].device)
        assert device is not None  # it can be trained here
        settled = _settled(grid, device, catalog)
        return self._store.sweeps.add(
            name,
            settled,
            plan,
            device_name=device.title,
            left_out=left_out,
            machine=self._launcher.site.name,
        )

    def execute(self, work: Work, should_yield: Callable[[], bool]) -> Iterator[SweepEvent]:
        """Run the sweep of queued work, as `run` does."""
        return self.run(work.key, should_yield)

    def run(
        self, sweep_id: str, should_yield: Callable[[], bool] = lambda: False
    ) -> Generator[SweepEvent, None, None]:
        """Run the remaining turns: SweepStarted, the turns, and Finished or Failed.

        A turn is TurnStarted, its worker's events, and TurnEnded. After a turn the sweep stops early if
        `should_yield()`. Raises ProblemError before any event if there is no such sweep, if another process
        runs it, or if code is not trusted. Also raises it if the store fails or no worker can be started.
        """
        self._stop_asked.clear()
        self._block = None
        record = self._store.sweeps.find(sweep_id)
        for cell in filter(is_trained, record.cells):
            self._launcher.trusted_code.check(record.grid.cells[cell.index].experiment)
        self._store.sweeps.claim(sweep_id)
        try:
            yield from self._turns(record, should_yield)
        finally:
            self._store.sweeps.release(sweep_id)

    def stop(self) -> None:
        """Stop the sweep after the current step. When it is resumed, the current turn is repeated."""
        super().stop()
        self._runner.stop()

    def skip(self) -> None:
        """Stop the current turn after its step. Its cell gets no more turns."""
        self._skip_asked.set()
        if (session := self._session) is not None:
            session.stop()
        self._runner.stop()

    def pause(self) -> None:
        """Pause the current turn after its step."""
        if (session := self._session) is not None:
            session.pause()
        self._runner.pause()

    def resume(self) -> None:
        """Resume the paused turn."""
        if (session := self._session) is not None:
            session.resume()
        self._runner.resume()

    def _turns(self, record: SweepRecord, should_yield: Callable[[], bool]) -> Iterator[SweepEvent]:
        known_runs = self._store.runs(MOST_OTHERS)
        yield SweepStarted(record.id, estimate_of(record, known_runs))
        while (turn := _next_turn(record)) is not None:
            if self._stop_asked.is_set():
                yield Finished(summary=Summary(), stopped=True)
                return
            if self._launcher.site.has_nodes and turn.kind == "run":
                self._begin_block(record, turn)
            turn, problem = yield from self._take(record, turn)
            record = self._store.sweeps.find(record.id)
            yield TurnEnded(turn, problem, estimate_of(record, known_runs))
            if problem is not None and problem.kind in _OF_ALL_CELLS:
                self._store.sweeps.end(record.id, problem)
                yield Failed(problem=problem)
                return
            if should_yield():
                self._stop_asked.set()
        has_held = any(cell.is_paused for cell in record.cells)
        if not has_held:
            self._store.sweeps.end(record.id)
        yield Finished(summary=Summary(), stopped=has_held)

    def _take(
        self, record: SweepRecord, turn: Turn
    ) -> Generator[SweepEvent, None, tuple[Turn, Problem | None]]:
        self._skip_asked.clear()
        with self._spending(record.id) as spend:
            turn, problem = self._begun(record, turn)
            yield TurnStarted(turn)
            if turn.kind == "pilot":
                problem = yield from self._pilot(record, turn.cell, spend)
            elif turn.run_id is not None:
                problem = yield from self._run(record, turn.run_id, spend)
        if problem is None and turn.kind == "run" and self._launcher.site.has_nodes:
            # its job may have ended between two turns, and the next one have begun on another node
            record = self._store.sweeps.find(record.id)
            if len(set(map(node_of, _block_of(record, turn)[1]))) > 1:
                self._trains_elsewhere(record, turn)
        if problem is None or problem.kind in _OF_ALL_CELLS:
            return turn, problem
        # another end of its job leaves the block to its node
        self._block = None
        if problem.kind is not Kind.NODE_LOST or not self._trains_elsewhere(record, turn):
            self._store.sweeps.set_cell_problem(record.id, turn.cell, problem)
        return turn, problem

    def _begin_block(self, record: SweepRecord, turn: Turn) -> None:
        block, done = _block_of(record, turn)
        nodes = {node_of(run) or "" for run in done}
        # the first one begins on the node of the pilots, and one that has begun goes on where it was
        if block != self._block and (self._block or nodes):
            self._launcher.site.begin_block(nodes.pop() if len(nodes) == 1 else "")
        self._block = block

    def _trains_elsewhere(self, record: SweepRecord, turn: Turn) -> bool:
        """Restart the block on another node, so each ratio compares runs of one node.

        Return False after too many restarts.
        """
        block, done = _block_of(record, turn)
        self._losses[block] += 1
        is_tried = self._losses[block] <= _MOST_LOSSES
        if is_tried:
            self._store.remove([run.id for run in done])
            self._launcher.site.begin_block()
        return is_tried

    def _pilot(self, record: SweepRecord, cell: int, spend: _Spend) -> _TurnEvents:
        experiment = pilot_experiment(record.grid.cells[cell].experiment)
        assert experiment is not None  # else the cell takes no such turn
        watch, last = PilotWatch(), None
        for last in self._events(jobs.Train(experiment=experiment)):
            watch.take(last)
            spend()
            yield last
            session = self._session
            if session is not None and not session.is_over and (self._skip_asked.is_set() or watch.is_enough):
                session.stop()
        self._give_back_pause(record, last)
        if self._stop_asked.is_set() or self._skip_asked.is_set() or isinstance(last, Failed):
            return self._problem_of(last)
        pilot = watch.pilot()
        if pilot is None:
            return Problem(
                kind=Kind.INTERNAL,
                message="The pilot completed no step.",
                remedy="Train this combination as a single run.",
            )
        self._store.sweeps.set_pilot(record.id, cell, pilot)
        return None

    def _run(self, record: SweepRecord, run_id: str, spend: _Spend) -> _TurnEvents:
        last: Event | None = None
        for last in self._runner.run(run_id):
            spend()
            yield last
            if self._stop_asked.is_set() or self._skip_asked.is_set():
                # either may have come before there was a session; asking twice does no harm
                self._runner.stop()
        self._give_back_pause(record, last)
        if isinstance(last, Finished):
            return self._problem_of(last) if last.stopped else None
        problem = self._problem_of(last)
        if problem is not None and problem.kind in _OF_ALL_CELLS:
            # it is not the cell that failed, so it is trained again
            self._store.remove([run_id])
        return problem

    def _begun(self, record: SweepRecord, turn: Turn) -> tuple[Turn, Problem | None]:
        if turn.kind == "pilot":
            return turn, None
        try:
            return replace(turn, run_id=self._added(record, turn).id), None
        except ProblemError as error:
            return turn, error.problem

    def _added(self, record: SweepRecord, turn: Turn) -> RunRecord:
        cell, plan = record.grid.cells[turn.cell], record.plan
        seed = cell.experiment.seed + turn.repeat - 1
        experiment = cell.experiment.model_copy(update={"seed": seed})
        label = record.grid.name(cell.places)
        count = max(plan.repeats, turn.repeat, 2 if plan.precision_percent is not None else 1)
        return self._store.add(
            experiment,
            name=sweep.Repetition(label, experiment, turn.repeat, count).name(record.name),
            comparison=record.comparison,
            label=label,
            sweep=record.id,
            cell=turn.cell,
            repeat=turn.repeat,
            machine=self._launcher.site.name,
        )

    def _give_back_pause(self, record: SweepRecord, last: Event | None) -> None:
        # a pause is no time spent
        if isinstance(last, Finished) and last.summary.paused_seconds:
            self._store.sweeps.spend(record.id, -last.summary.paused_seconds)

    def _problem_of(self, last: Event | None) -> Problem | None:
        if isinstance(last, Failed):
            return last.problem
        if self._stop_asked.is_set():
            return None
        return request_problem("This combination was skipped.", "Repeat it to train it.", key="sweep")

    @contextmanager
    def _spending(self, sweep_id: str) -> Iterator[_Spend]:
        since = time.monotonic()

        def spend(least_seconds: float = _SAVED_EVERY_SECONDS) -> None:
            nonlocal since
            seconds = time.monotonic() - since
            if seconds >= least_seconds:
                self._store.sweeps.spend(sweep_id, seconds)
                since += seconds

        try:
            yield spend
        finally:
            spend(0.0)


def _block_of(record: SweepRecord, turn: Turn) -> tuple[_Block, list[RunRecord]]:
    """Return the block of a turn, and the block's finished runs."""
    groups = [group for group in groups_of(record) if any(cell.index == turn.cell for cell in group.cells)]
    # none if its cell takes no more turns
    cells = [cell for group in groups for cell in group.cells]
    runs = [run for cell in cells for run in finished_runs(cell) if run.repeat == turn.repeat]
    return (groups[0].baseline if groups else turn.cell, turn.repeat), runs


def _next_turn(record: SweepRecord) -> Turn | None:
    limit = record.plan.time_limit_seconds
    is_used_up = limit is not None and record.spent_seconds >= limit
    return None if is_used_up else next(turns(record), None)


def _settled(grid: Grid, device: DeviceEntry, catalog: Catalog) -> Grid:
    settled = {"device": device.name if grid.base.get("device", "auto") == "auto" else grid.base["device"]}
    base = _with_whole_path(layered(grid.base, settled), catalog)
    return Grid(base=base, axes=tuple(_settled_axis(axis, catalog) for axis in grid.axes))


def _settled_axis(axis: Axis, catalog: Catalog) -> Axis:
    layers = [axis.settings(place) for place in range(len(axis.values))]
    if not any(layer.get("path") for layer in layers):
        return axis
    return axis.model_copy(update={"overrides": tuple(_with_whole_path(layer, catalog) for layer in layers)})


def _with_whole_path(settings: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    path = settings.get("path")
    whole = {"path": whole_path(path, catalog)} if path else {}
    return {**settings, **whole}
