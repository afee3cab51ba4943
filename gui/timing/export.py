"""The traces of a timing in its menu of exports."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QAction, QDesktopServices

from engine.protocol.timing.timing import Timing
from engine.timing.names import side_names
from gui.widgets.saved_menu import ExportMenu, ask_where

VIEWER = "https://ui.perfetto.dev"


class TraceActions(QObject):
    """`asked` carries a side, counted from 0, and the path for its trace."""

    asked = Signal(int, object)  # the place, Path

    def __init__(self, menu: ExportMenu) -> None:
        super().__init__(menu)
        self._menu = menu
        self._actions: list[QAction] = []
        menu.setToolTipsVisible(True)

    def show_timing(self, timing: Timing | None) -> None:
        """Offers the traces of a timing's sides."""
        for action in self._actions:
            self._menu.removeAction(action)
            action.deleteLater()
        self._actions = []
        if timing is None:
            return
        for place, (name, side) in enumerate(zip(side_names(timing), timing.sides, strict=True)):
            if side.profile is not None and side.profile.trace is not None:
                self._add(f"Trace of {name} as .json.gz…", partial(self._ask, place, name))
        if self._actions:
            self._actions.insert(0, self._menu.insertSeparator(self._actions[0]))
            self._add("Open Perfetto, which shows traces", _open_viewer)
            self._actions[-1].setToolTip(f"{VIEWER} opens a trace in your browser and sends it nowhere")

    def _add(self, text: str, do: object) -> None:
        action = self._menu.addAction(text)
        action.setToolTip("Every kernel of the recorded steps, for Perfetto or chrome://tracing")
        action.triggered.connect(do)
        self._actions.append(action)

    def _ask(self, place: int, name: str, _checked: bool = False) -> None:
        words = name.lower().replace(",", "").replace(" ", "-")
        path = ask_where(self._menu.parentWidget(), f"Save the trace of {name}", f"{words}.json.gz", "Trace")
        if path is not None:
            self.asked.emit(place, path)


def _open_viewer(_checked: bool = False) -> None:
    QDesktopServices.openUrl(QUrl(VIEWER))
