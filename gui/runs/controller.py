"""Edit and delete saved runs, and offer actions in the window's notice.

The offers are to resume the queue of an earlier window, undo a deletion, delete unreadable runs, and retry a
run that ran out of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QObject, Signal

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind
from engine.experiment.value import MIB_PER_GIB, shortened
from engine.runner import fitting_batch, with_accumulation
from engine.store.record import RunRecord, UnreadableRun
from engine.store.saved.forecasts import Forecasts
from gui.runs.panel import RunsPanel
from gui.session.experiments import Experiments
from gui.session.request import Request
from gui.widgets.notice import Do, Notice, NoticeMessage, open_path


@dataclass(frozen=True)
class Retry:
    """A button that trains failed experiments again: its text, and the labeled experiments.

    Each one is trained `repeats` times.
    """

    words: str
    sides: tuple[tuple[str, Experiment], ...]
    repeats: int = 1


def retries(runs: Sequence[RunRecord], forecasts: Forecasts, device_mib: float | None) -> tuple[Retry, ...]:
    """Return the ways to retry a comparison after one of its `runs` ran out of memory.

    A batch is offered where a forecast knows one that fits all sides.
    """
    failed = {run.side for run in runs if run.problem is not None and run.problem.kind is Kind.OUT_OF_MEMORY}
    if not failed:
        return ()
    sides: dict[str, Experiment] = {}
    for run in sorted(runs, key=lambda run: run.number):
        sides.setdefault(run.side, run.experiment)
    repeats = -(-len(runs) // len(sides))
    offers = []

    def offer(words: str, made: Sequence[Experiment | None]) -> None:
        known = [experiment for experiment in made if experiment is not None]
        if len(known) == len(sides):
            offers.append(Retry(words, tuple(zip(sides, known, strict=True)), repeats))

    is_known = all(forecasts.find(sides[side]) is not None for side in failed)
    size = _fitting(tuple(sides.values()), forecasts, device_mib) if is_known else None
    if size is not None:
        fitting = {side: min(one.batch_size, size) for side, one in sides.items()}
        offer(
            f"Try batch {size:,}",
            [one.model_copy(update={"batch_size": fitting[side]}) for side, one in sides.items()],
        )
        accumulated = [with_accumulation(one, fitting[side]) for side, one in sides.items()]
        # of sides with different batches, one may fit as it is
        most = max(filter(None, accumulated), key=lambda one: one.step.gradient_accumulation, default=None)
        if most is not None:
            offer(f"Accumulate {most.step.gradient_accumulation:,} × {most.batch_size:,}", accumulated)
    if any(one.memory_cap_gib is not None for one in sides.values()):
        uncapped = [one.model_copy(update={"memory_cap_gib": None}) for one in sides.values()]
        offer("Remove the memory cap", uncapped)
    return tuple(offers)


def _fitting(experiments: Sequence[Experiment], forecasts: Forecasts, device_mib: float | None) -> int | None:
    """Return the largest batch that fits for all of these, as far as forecasts know."""
    failed, sizes = max(one.batch_size for one in experiments), []
    for one in experiments:
        cap, forecast = one.memory_cap_gib, forecasts.find(one)
        budget_mib = device_mib if cap is None else cap * MIB_PER_GIB
        if forecast is not None and budget_mib is not None:
            sizes.append(fitting_batch(forecast.lines, budget_mib, failed))
    return None if not sizes or None in sizes else min(size for size in sizes if size is not None)


@dataclass(frozen=True)
class _Deletion:
    run_ids: tuple[str, ...]
    ticked: tuple[str, ...]


_MOST_NAMED = 3


class RunsController(QObject):
    """Carries out the actions of the results table, such as delete, and offers follow-ups such as Undo.

    Offers are shown in the window's notice. A deletion needs no confirmation, because it can be undone until
    the window closes. `wanted` carries the Request of an offer to train that the user has accepted.
    """

    wanted = Signal(object)

    def __init__(self, table: RunsPanel, experiments: Experiments, notice: Notice, parent: QObject) -> None:
        super().__init__(parent)
        self._table, self._notice = table, notice
        self.experiments, self.runs = experiments, experiments.runs
        self._from_last_time: list[Do] = []
        self._stands: NoticeMessage | None = None
        self._moved = ""
        self._deletions: dict[_Deletion, NoticeMessage] = {}
        table.experiments = experiments
        table.delete_wanted.connect(self.delete)
        table.undo_wanted.connect(self.undo)
        notice.dismissed.connect(self._next)
        self.runs.list_changed.connect(self._look_at_store)
        self.runs.run_changed.connect(self._look_at_store)

    def delete(self, run_ids: tuple[str, ...]) -> None:
        """Delete runs, and offer to undo it."""
        names = {run_id: self.runs.name(run_id) for run_id in run_ids if self.runs.contains(run_id)}
        ticked = set(self._table.checked())
        deleted = self.experiments.delete(run_ids)
        if not deleted:
            return
        deletion = _Deletion(deleted, tuple(run_id for run_id in deleted if run_id in ticked))
        what = f"“{names[deleted[0]]}”" if len(deleted) == 1 else f"{len(deleted):,} runs"
        undo = partial(self._restore, deletion)
        self._deletions[deletion] = self._notice.notify(
            f"Deleted {what}.", action="Undo", do=undo, asks=False
        )
        self._table.set_can_undo(True)

    def offer(self, deleted: tuple[str, ...]) -> None:
        """Offer to restore runs that an earlier window deleted but did not purge."""
        if not deleted:
            return
        last = _Deletion(deleted, ())
        what = "1 deleted run" if len(deleted) == 1 else f"{len(deleted):,} deleted runs"
        self._deletions[last] = self._notice.notify(
            f"{what} can still be restored.",
            action="Undo",
            do=partial(self._restore, last),
            others=[("Delete for good", partial(self._forget, last))],
        )
        self._table.set_can_undo(True)

    def _forget(self, deletion: _Deletion) -> None:
        self._take_back(deletion)
        self.runs.purge(deletion.run_ids)

    def undo(self) -> None:
        """Undo the last deletion, if there is one."""
        if self._deletions:
            self._restore(next(reversed(self._deletions)))

    def _restore(self, deletion: _Deletion) -> None:
        self._take_back(deletion)
        if self.runs.restore(deletion.run_ids):
            self._table.set_checked((*self._table.checked(), *deletion.ticked))

    def _take_back(self, deletion: _Deletion) -> None:
        self._notice.withdraw(self._deletions.pop(deletion))
        self._table.set_can_undo(bool(self._deletions))

    def begin(self, offer_queue: Do) -> None:
        """Offer one after another to resume the queue, restore deleted runs and delete unreadable ones."""
        deleted = self.runs.deleted()
        self._from_last_time = [offer_queue, partial(self.offer, deleted), self._unreadable]
        self._next()

    def _look_at_store(self) -> None:
        moved, self._moved = self._moved, self.runs.moved
        if self._moved not in ("", moved):
            folder = self.runs.store_path.parent
            self._notice.notify(self._moved, action="Show in folder", do=partial(open_path, folder))
        problem = self.runs.unwritable
        if problem is None:
            self._notice.withdraw(self._stands)
            self._stands = None
        elif self._stands is None:
            text, why = "Saved runs can be read, but not changed.", f"{problem.message} {problem.remedy}"
            self._stands = self._notice.stand(text, why, "Try again", self._try_again)

    def _try_again(self) -> None:
        self._stands = None
        self.runs.try_to_write()
        self._look_at_store()

    def _next(self) -> None:
        while self._from_last_time and not self._notice.text():
            self._from_last_time.pop(0)()

    def _unreadable(self) -> None:
        left = self.runs.unreadable()
        if not left:
            return
        they = "it" if len(left) == 1 else "them"
        self._notice.notify(
            _left_out(left),
            f"If a newer version of Ammeter wrote {they}, that version can read {they}.",
            action="Keep",
            # closing the message is all
            do=lambda: None,
            others=[("Delete", lambda: self.delete(tuple(run.id for run in left)))],
        )

    def retries_of(self, run_ids: Sequence[str]) -> tuple[tuple[str, Do], ...]:
        """Return what to offer after one of these runs, or of their comparison, ran out of memory."""
        records = [run for run_id in run_ids if (run := self.runs.record(run_id)) is not None]
        comparisons = {run.comparison for run in records} - {None}
        mates = [run for run in self.runs.records() if run.id in run_ids or run.comparison in comparisons]
        # a sweep goes on with its next cell
        if not mates or any(run.sweep is not None for run in mates):
            return ()
        catalog = self.experiments.catalog
        device = catalog.device(mates[0].experiment.device) if catalog else None
        fitting = retries(mates, self.experiments.forecasts(), None if device is None else device.memory_mib)
        return tuple((retry.words, partial(self._accept, retry)) for retry in fitting)

    def retry(self, run_id: str) -> None:
        """Offer settings that fit after a run ran out of memory, if a forecast knows any."""
        record, offers = self.runs.record(run_id), self.retries_of([run_id])
        if record is not None and record.problem is not None and offers:
            (words, do), problem = offers[0], record.problem
            self._notice.notify(problem.message, problem.remedy, words, do, others=offers[1:])

    def _accept(self, retry: Retry) -> None:
        labels = [label for label, _ in retry.sides]
        title = " against ".join(labels) if len(labels) > 1 else ""
        self.wanted.emit(Request(title, retry.sides, repeats=retry.repeats))


def _left_out(runs: Sequence[UnreadableRun]) -> str:
    names = ", ".join(f"“{shortened(run.name)}”" for run in runs[:_MOST_NAMED])
    if len(runs) == 1:
        return f"The saved run {names} cannot be read and is skipped."
    more = len(runs) - _MOST_NAMED
    return (
        f"The saved runs {names}{f' and {more:,} more' if more > 0 else ''} cannot be read and are skipped."
    )
