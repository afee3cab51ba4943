"""Write a run into the store while it trains, and again if the store's file is removed or damaged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.events import (
    Event,
    Failed,
    Finished,
    Heartbeat,
    Log,
    Phase,
    PhaseName,
    RankMemory,
    Ready,
    Samples,
    Started,
)
from engine.protocol.jobs import RemotePlace
from engine.store.database import DamagedError
from engine.store.store import Store

COMMIT_SECONDS = 0.2  # at most this much of a run is lost if this process is killed
MOST_REMARKS, MOST_CHARACTERS = 10_000, 4 * 2**20
"""Of a run's log lines, and of these and its phases. What comes after so many is not saved."""
_DROPPED = f"The log exceeds {MOST_REMARKS:,} lines or 4 MiB. Further lines are not saved."
_REFUSALS = (Kind.REQUEST, Kind.NO_ENGINE)


class Recorder:
    """Saves a run's events as they arrive, in a few commits per second. The first samples are saved at once.

    It keeps a temporary copy of the run, and saves the run again from it if the store's file is deleted,
    moved, replaced or damaged meanwhile. If `has_begun`, an earlier recorder saved the start of the run.
    """

    def __init__(
        self,
        store: Store,
        run_id: str,
        *,
        resumes: bool,
        keeps_refused: bool = False,
        has_begun: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._resumes, self._keeps_refused = resumes, keeps_refused
        self._clock = clock
        self._copy = store.in_memory_copy(run_id)
        self._waiting: list[Event] = []
        self._committed = clock()
        self._began, self._has_samples, self._ended = has_begun, has_begun, False
        self._remarks_left, self._characters_left, self._has_dropped = MOST_REMARKS, MOST_CHARACTERS, False
        self._place: RemotePlace | None = None
        self._recorded_place: RemotePlace | None = None

    @property
    def seconds_left(self) -> float:
        """Return the seconds until the next commit is due."""
        return max(0.0, self._committed + COMMIT_SECONDS - self._clock())

    def add(
        self, events: Sequence[Event], place: RemotePlace | None = None, *, is_lost: bool = False
    ) -> tuple[Log, ...]:
        """Record the worker's events, read up to `place` on a remote machine. Return remarks on this.

        A run that `is_lost` there is interrupted with its data so far.
        """
        self._place = place or self._place
        self._waiting += self._budgeted(events)
        self._began |= any(isinstance(event, Started) for event in events)
        last = next((event for event in events if isinstance(event, Finished | Failed)), None)
        is_first = not self._has_samples and any(isinstance(event, Samples) for event in events)
        self._has_samples |= is_first
        if isinstance(last, Failed) and is_lost:
            self._ended = True
            self._waiting[self._waiting.index(last)] = Log(level="problem", message=last.problem.message)
            remarks = self._commit()
            self._store.close_lost(self._run_id)
            return remarks
        if last is not None:
            self._ended = True
            if self._has_nothing_to_record(last):
                self._store.withdraw(self._run_id)
                return ()
            return self._commit()
        # a resumed run does not repeat steps before its checkpoint, so they must be saved by then
        is_saving = any(isinstance(event, Phase) and event.name is PhaseName.SAVING for event in events)
        if is_first or is_saving or not self.seconds_left:
            return self._commit()
        return ()

    def _budgeted(self, events: Sequence[Event]) -> Iterator[Event]:
        """The events to be recorded. Another machine, or the user's code, may send remarks without end."""
        for event in events:
            if isinstance(event, Log | Phase):
                had_room = self._remarks_left > 0 and self._characters_left > 0
                self._remarks_left -= isinstance(event, Log)
                text = event.message if isinstance(event, Log) else event.name + event.detail
                self._characters_left -= len(text)
                if not had_room and not self._has_dropped:
                    self._has_dropped = True
                    yield Log(level="warning", message=_DROPPED)
                if not had_room:
                    continue
            if not isinstance(event, Heartbeat | Ready | RankMemory):
                yield event

    def leave(self) -> None:
        """Commit the events recorded so far of a run that continues on a remote machine."""
        if not self._ended:
            self._commit()
            self._ended = True

    def close(self) -> None:
        """End the record of a run whose reader stopped before the last event: as stopped, with all data."""
        try:
            if not self._ended:
                self._ended = True
                self._stop()
        finally:
            self._copy.close()

    def _stop(self) -> None:
        if self._has_nothing_to_record(None):
            self._store.withdraw(self._run_id)
            return
        self._commit()
        summary = self._store.summary_so_far(self._run_id)
        self._waiting.append(Finished(summary=summary, stopped=True))
        self._commit()

    def _has_nothing_to_record(self, last: Finished | Failed | None) -> bool:
        """True where there is nothing to record: a refusal, or a resumed run that did not start again."""
        is_refused = isinstance(last, Failed) and last.problem.kind in _REFUSALS
        return not self._began and (self._resumes or (is_refused and not self._keeps_refused))

    def _commit(self) -> tuple[Log, ...]:
        self._committed = self._clock()
        events, self._waiting = _merged(self._waiting), []
        try:
            return self._write(events)
        except ProblemError:
            # the store is not asked again: the run is lost, and the reader gets the problem
            self._ended = True
            raise

    def _write(self, events: Sequence[Event]) -> tuple[Log, ...]:
        self._copy.add(events)
        path = self._store.path
        try:
            if self._store.has(self._run_id):
                if events or self._place != self._recorded_place:
                    self._store.record(self._run_id, events, self._place)
                    self._recorded_place = self._place
                return ()
            return self._save_again(
                f"The file of saved runs, {path}, was removed or replaced during this run."
            )
        except DamagedError:
            aside = self._store.set_aside()
            if aside is None:
                raise ProblemError(self._saved_beside()) from None
            return self._save_again(
                f"The file of saved runs, {path}, was damaged during this run. It is now called {aside.name}."
            )

    def _save_again(self, cause: str) -> tuple[Log, ...]:
        saved = "The complete run is saved in the present file."
        remark = Log(level="problem", message=f"{cause} {saved}")
        self._copy.add([remark])
        self._store.put_back(self._copy)
        return (remark,)

    def _saved_beside(self) -> Problem:
        """Saves the run in a file of its own: the file in the store's place is not ours to touch."""
        path = self._store.path
        beside = path.with_name(f"{path.stem}-{self._run_id}{path.suffix}")
        with Store(beside) as store:
            store.put_back(self._copy)
        return Problem(
            kind=Kind.STORE,
            message=f"The file of saved runs at {path} was damaged or replaced during the run.",
            remedy=f"The run is saved in {beside}. Move the other file away and give this one its name.",
        )


def _merged(events: list[Event]) -> list[Event]:
    merged: list[Event] = []
    for event in events:
        last = merged[-1] if merged else None
        if isinstance(event, Samples) and isinstance(last, Samples) and last.has_room_for(event):
            merged[-1] = last.followed_by(event)
        else:
            merged.append(event)
    return merged
