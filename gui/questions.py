"""Questions that the window asks before it does what cannot be taken back."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget


def ask(parent: QWidget, text: str, do: str, leave: str) -> bool:
    """Asks; True if the button `do` was pressed. The safe one, `leave`, is the default."""
    box = QMessageBox(QMessageBox.Icon.NoIcon, "Ammeter", text, parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    doing = box.addButton(do, QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(box.addButton(leave, QMessageBox.ButtonRole.RejectRole))
    box.exec()
    box.deleteLater()
    return box.clickedButton() is doing


def may_stop(parent: QWidget, waiting: int, searches: int = 0) -> bool:
    """Whether the window may close while a run trains; `waiting` more runs and `searches` are queued."""
    text = f"A run is training. Closing stops it; what it recorded so far is kept.{_line(waiting, searches)}"
    return ask(parent, text, "Stop and close", "Keep training")


def may_stop_search(parent: QWidget, waiting: int, searches: int = 0) -> bool:
    """The same while a search for the largest batch goes on."""
    text = (
        "A search for the largest batch is going on. Closing stops it; the trials made so far are kept."
        f"{_line(waiting, searches)}"
    )
    return ask(parent, text, "Stop and close", "Keep searching")


def may_delete_search(parent: QWidget) -> bool:
    """Whether a saved search may be deleted."""
    return ask(parent, "Delete this search with its trials? This cannot be undone.", "Delete", "Keep")


def _line(waiting: int, searches: int) -> str:
    """What becomes of that which waits."""
    text = ""
    if waiting:
        stays = "1 run stays" if waiting == 1 else f"{waiting} runs stay"
        text += f" {stays} in the queue for the next start."
    if searches:
        which = "A search that waits is" if searches == 1 else f"{searches} searches that wait are"
        text += f" {which} given up."
    return text
