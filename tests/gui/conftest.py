"""The window's tests: what leaves a QThread, a QTimer or a widget behind fails, and says where it began."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from weakref import ReferenceType, ref

import pytest
import shiboken6
from PySide6.QtCore import QObject, QThread, QTimer
from PySide6.QtWidgets import QApplication


@pytest.fixture(autouse=True)
def nothing_of_qt_left(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    begun: list[tuple[ReferenceType[QObject], str]] = []
    for kind in (QThread, QTimer):
        monkeypatch.setattr(kind, "start", _remembering(kind.start, begun))
    widgets_before = set(map(id, QApplication.topLevelWidgets()))
    yield
    qapp.sendPostedEvents(None, 52)  # QEvent.DeferredDelete
    left = [where for reference, where in begun if _is_active(reference())]
    assert not left, "left active, begun at:\n" + "\n".join(left)
    widgets = [
        widget
        for widget in QApplication.topLevelWidgets()
        if id(widget) not in widgets_before and widget.parent() is None and widget.isVisible()
    ]
    assert not widgets, f"left open: {widgets}"


def _remembering(
    start: Callable[..., None], begun: list[tuple[ReferenceType[QObject], str]]
) -> Callable[..., None]:
    def remember(self: QObject, *arguments: object) -> None:
        if isinstance(self, QObject):
            begun.append((ref(self), "".join(traceback.format_stack(limit=6)[:-1])))
        start(self, *arguments)

    return remember


def _is_active(thing: QObject | None) -> bool:
    if thing is None or not shiboken6.isValid(thing):
        return False
    if isinstance(thing, QThread):
        return thing.isRunning()
    return isinstance(thing, QTimer) and thing.isActive()
