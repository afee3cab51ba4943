"""What a user changes of saved runs in the table: names, tags, notes, and which of them there are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QObject

from gui.experiments import Experiments
from gui.panels.runs import RunsPanel
from gui.widgets.notice import Message, Notice


@dataclass(frozen=True)
class _Deletion:
    run_ids: tuple[str, ...]
    ticked: tuple[str, ...]


class RunEdits(QObject):
    """Does what the runs table asks for. A deletion is not asked about: it can be undone until the end."""

    def __init__(self, table: RunsPanel, experiments: Experiments, notice: Notice, parent: QObject) -> None:
        super().__init__(parent)
        self._table, self._experiments, self._notice = table, experiments, notice
        self._runs = experiments.runs
        self._deletions: dict[_Deletion, Message] = {}
        table.rename_requested.connect(lambda run, name: self._runs.rename(run.id, name))
        table.tags_requested.connect(self._runs.set_tags)
        table.note_requested.connect(self._runs.set_note)
        table.delete_requested.connect(self.delete)
        table.undo_wanted.connect(self.undo)

    def delete(self, run_ids: tuple[str, ...]) -> None:
        """Deletes runs, and offers to undo it."""
        names = {run_id: self._runs.name(run_id) for run_id in run_ids if self._runs.is_there(run_id)}
        ticked = set(self._table.checked())
        deleted = self._experiments.delete(run_ids)
        if not deleted:
            return
        deletion = _Deletion(deleted, tuple(one for one in deleted if one in ticked))
        what = f"“{names[deleted[0]]}”" if len(deleted) == 1 else f"{len(deleted):,} runs"
        undo = partial(self._undo, deletion)
        self._deletions[deletion] = self._notice.tell(f"Deleted {what}.", action="Undo", do=undo, asks=False)
        self._table.set_can_undo(True)

    def offer(self, deleted: tuple[str, ...]) -> None:
        """Offers to bring back what an earlier window deleted, and never came to delete for good."""
        if not deleted:
            return
        last = _Deletion(deleted, ())
        what = "1 deleted run" if len(deleted) == 1 else f"{len(deleted):,} deleted runs"
        self._deletions[last] = self._notice.tell(
            f"{what} can still be brought back.",
            action="Undo",
            do=partial(self._undo, last),
            other=("Delete for good", partial(self._forget, last)),
        )
        self._table.set_can_undo(True)

    def _forget(self, deletion: _Deletion) -> None:
        self._take(deletion)
        self._runs.purge(deletion.run_ids)

    def undo(self) -> None:
        """Brings the runs of the last deletion back; nothing happens where there is none."""
        if self._deletions:
            self._undo(next(reversed(self._deletions)))

    def _undo(self, deletion: _Deletion) -> None:
        self._take(deletion)
        if self._runs.restore(deletion.run_ids):
            self._table.set_checked((*self._table.checked(), *deletion.ticked))

    def _take(self, deletion: _Deletion) -> None:
        self._notice.take_back(self._deletions.pop(deletion))
        self._table.set_can_undo(bool(self._deletions))
