"""The traces in the menu of a profile's exports."""

from __future__ import annotations

from PySide6.QtCore import QUrl
from PySide6.QtGui import QAction, QDesktopServices

from gui.widgets.buttons import ExportMenu

_VIEWER = "https://ui.perfetto.dev"
TRACE_WRITTEN = "Open it at ui.perfetto.dev, or at chrome://tracing."


def offer_viewer(menu: ExportMenu) -> QAction:
    """Adds a way to the program that shows traces; the menu's action for the traces, which is its last."""
    menu.setToolTipsVisible(True)
    traces = menu.actions()[-1]
    traces.setToolTip("Every kernel and operation of the recorded steps, a file for each side")
    open_viewer = menu.addAction("Open Perfetto, which shows traces")
    open_viewer.setToolTip("ui.perfetto.dev: your browser reads the trace, which is sent nowhere")
    open_viewer.triggered.connect(lambda: QDesktopServices.openUrl(QUrl(_VIEWER)))
    return traces
