"""Write a run into the store while it trains, until it ends or the store's file cannot be written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

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
"""Of a run's log messages besides output, and of all its log and phases. What exceeds them is not saved."""
_DROPPED = (
    f"The log exceeds {MOST_REMARKS:,} messages or 4 MiB. Further ones are not saved, except the last lines "
    "that a script printed."
)
_LEAST_CHARACTERS = 40  # for a piece of output, which may be empty
_TAIL_CHARACTERS = 8_192
_REFUSALS = (Kind.REQUEST, Kind.NO_ENGINE)


class Recorder:
    """Saves a run's events as they arrive, in a few commits per second. The first samples are saved at once.

    If the disk is full, or the store's file is locked, removed, replaced or damaged, the run is over, unless
    it continues on a remote machine: `add` raises ProblemError, and what was recorded so far stays. If
    `has_begun`, the start of the run is saved already.
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
        self._waiting: list[Event] = []
        self._committed = clock()
        self._began, self._has_samples, self._ended = has_begun, has_begun, False
        self._remarks_left, self._characters_left, self._has_dropped = MOST_REMARKS, MOST_CHARACTERS, False
        self._unsaved_output = ""
        self._place: RemotePlace | None = None
        self._recorded_place: RemotePlace | None = None

    @property
    def seconds_left(self) -> float:
        """Return the seconds until the next commit is due."""
        return max(0.0, self._committed + COMMIT_SECONDS - self._clock())

    def add(
        self, events: Sequence[Event], place: RemotePlace | None = None, *, is_lost: bool = False
    ) -> None:
        """Record the worker's events, read up to `place` on a remote machine.

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
            self._commit()
            self._store.close_lost(self._run_id)
            return
        if last is not None:
            self._ended = True
            if self._has_nothing_to_record(last):
                self._store.withdraw(self._run_id)
            else:
                self._commit()
            return
        # a resumed run does not repeat steps before its checkpoint, so they must be saved by then
        is_saving = any(isinstance(event, Phase) and event.name is PhaseName.SAVING for event in events)
        if is_first or is_saving or not self.seconds_left:
            self._commit()

    def _budgeted(self, events: Sequence[Event]) -> Iterator[Event]:
        """The events to be recorded. Another machine, or the user's code, may send remarks without end."""
        for event in events:
            if isinstance(event, Log | Phase):
                is_output = isinstance(event, Log) and event.level == "stderr"
                had_room = (is_output or self._remarks_left > 0) and self._characters_left > 0
                self._remarks_left -= isinstance(event, Log) and not is_output
                text = event.message if isinstance(event, Log) else event.name + event.detail
                self._characters_left -= max(len(text), _LEAST_CHARACTERS * is_output)
                if not had_room and not self._has_dropped:
                    self._has_dropped = True
                    yield Log(level="warning", message=_DROPPED)
                if not had_room:
                    if isinstance(event, Log) and is_output:
                        self._unsaved_output = f"{self._unsaved_output}\n{event.message}"[-_TAIL_CHARACTERS:]
                    continue
            if isinstance(event, Finished | Failed):
                yield from self._last_output()
            if not isinstance(event, Heartbeat | Ready | RankMemory):
                yield event

    def _last_output(self) -> Iterator[Log]:
        if self._unsaved_output:
            yield Log(level="stderr", message=f"[…]\n{self._unsaved_output.lstrip()}")
            self._unsaved_output = ""

    def leave(self) -> None:
        """Commit the events recorded so far of a run that continues on a remote machine."""
        if not self._ended:
            self._commit()
            self._ended = True

    def close(self) -> None:
        """End the record of a run whose reader stopped before the last event: as stopped, with all data."""
        if not self._ended:
            self._ended = True
            self._stop()

    def _stop(self) -> None:
        if self._has_nothing_to_record(None):
            self._store.withdraw(self._run_id)
            return
        self._commit()
        summary = self._store.summary_so_far(self._run_id)
        self._waiting += (*self._last_output(), Finished(summary=summary, stopped=True))
        self._commit()

    def _has_nothing_to_record(self, last: Finished | Failed | None) -> bool:
        """True where there is nothing to record: a refusal, or a resumed run that did not start again."""
        is_refused = isinstance(last, Failed) and last.problem.kind in _REFUSALS
        return not self._began and (self._resumes or (is_refused and not self._keeps_refused))

    def _commit(self) -> None:
        self._committed = self._clock()
        events, self._waiting = _merged(self._waiting), []
        try:
            if not self._store.has(self._run_id):
                raise ProblemError(_removed(self._store.path))
            if events or self._place != self._recorded_place:
                self._store.record(self._run_id, events, self._place)
                self._recorded_place = self._place
        except ProblemError as error:
            # the run is over, and the reader gets the problem
            self._ended = True
            if not isinstance(error, DamagedError):
                # its end may be saved all the same; otherwise the next start marks it as interrupted
                with suppress(ProblemError):
                    self._interrupt()
            raise

    def _interrupt(self) -> None:
        # on a remote machine it continues, and is read on later
        if self._store.has(self._run_id) and self._store.remote_place(self._run_id) is None:
            self._store.close_lost(self._run_id)


def _removed(path: Path) -> Problem:
    return Problem(
        kind=Kind.STORE,
        message=f"The file of saved runs, {path}, was removed or replaced during this run, which has ended.",
        remedy="Put the file back, and resume the run from its checkpoint, or train it again.",
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
