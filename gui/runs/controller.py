"""Edit and delete saved runs, and offer actions in the window's notice.

The offers are to resume the queue of an earlier window, undo a deletion, and delete unreadable runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QObject

from engine.experiment.value import shortened
from engine.store.record import UnreadableRun
from gui.runs.panel import RunsPanel
from gui.session.experiments import Experiments
from gui.widgets.notice import Do, Notice, NoticeMessage, open_path


@dataclass(frozen=True)
class _Deletion:
    run_ids: tuple[str, ...]
    ticked: tuple[str, ...]


_MOST_NAMED = 3


class RunsController(QObject):
    """Carries out the actions of the results table, such as delete, and offers follow-ups such as Undo.

    Offers are shown in the window's notice. A deletion needs no confirmation, because it can be undone until
    the window closes.
    """

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
        undo = partial(self._restore_deleted, deletion)
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
            do=partial(self._restore_deleted, last),
            others=[("Delete for good", partial(self._forget, last))],
        )
        self._table.set_can_undo(True)

    def _forget(self, deletion: _Deletion) -> None:
        self._take_back(deletion)
        self.runs.purge(deletion.run_ids)

    def undo(self) -> None:
        """Undo the last deletion, if there is one."""
        if self._deletions:
            self._restore_deleted(next(reversed(self._deletions)))

    def _restore_deleted(self, deletion: _Deletion) -> None:
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


def _left_out(runs: Sequence[UnreadableRun]) -> str:
    names = ", ".join(f"“{shortened(run.name)}”" for run in runs[:_MOST_NAMED])
    if len(runs) == 1:
        return f"The saved run {names} cannot be read and is skipped."
    more = len(runs) - _MOST_NAMED
    return (
        f"The saved runs {names}{f' and {more:,} more' if more > 0 else ''} cannot be read and are skipped."
    )
