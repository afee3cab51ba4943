"""What the paths of the form's data hold, read in a thread: a disk may be slow, and a file's header long."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal

from engine.experiment.catalog import ARRAYS
from engine.experiment.checks import DatasetEntry, Found, look_at
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem
from gui.session.background import Background
from gui.setup.draft import Draft

_Place = tuple[str, str, str, str]
_MOST_PLACES = 64


class DataReader(QObject):
    """Looks at data; `changed` when there is something else than before.

    What was found is known until it has been looked at again, which each `look` sees to.
    """

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._background = Background(self)
        self._found: dict[_Place, Found] = {}
        self._wanted: dict[_Place, tuple[Experiment, DatasetEntry]] = {}
        # a form that is checked asks several times for the same
        self._asked = QTimer(self, singleShot=True)
        self._asked.timeout.connect(self._begin)

    def look(self, experiment: Experiment, dataset: DatasetEntry) -> Found | None:
        """What was found last; None while that is being read for the first time."""
        if experiment.path is None or not dataset.needs_path:
            return look_at(experiment, dataset)
        place = (dataset.name, experiment.path, experiment.data.inputs, experiment.data.targets)
        self._wanted[place] = experiment, dataset
        self._asked.start()
        return self._found.get(place)

    def words(self, draft: Draft | None) -> str:
        """What the draft's file of arrays holds: "60,000 samples"; empty where it has none to use."""
        if draft is None or draft.single.text("dataset") != ARRAYS:
            return ""
        path, inputs, targets = (
            draft.single.text(key).strip() for key in ("path", "data.inputs", "data.targets")
        )
        found = self._found.get((ARRAYS, path, inputs, targets))
        if found is None:
            return "reading…" if path else ""
        return "" if found.samples is None else f"{found.samples.inputs.shape[0]:,} samples"

    def stop(self) -> None:
        """Waits for the thread; what it was to read is read again when it is asked for."""
        self._asked.stop()
        self._wanted.clear()
        self._background.stop()

    def _begin(self) -> None:
        # what is being read may have changed since, so it is read once more afterwards
        if self._background.is_busy:
            return
        wanted, self._wanted = self._wanted, {}
        for place, (experiment, dataset) in wanted.items():
            work = partial(look_at, experiment, dataset)
            self._background.do(work, partial(self._take, place), partial(self._fail, place))

    def _take(self, place: _Place, found: Found) -> None:
        if self._wanted:
            self._asked.start()
        if self._found.get(place) != found:
            self._found[place] = found
            if len(self._found) > _MOST_PLACES:
                del self._found[next(iter(self._found))]
            self.changed.emit()

    def _fail(self, place: _Place, problem: Problem) -> None:
        self._take(place, Found(problems=(problem,)))
