"""Questions that the window asks before it does what cannot be taken back."""

from __future__ import annotations

from PySide6.QtWidgets import QMessageBox, QWidget


def ask(parent: QWidget, text: str, do: str, leave: str) -> bool:
    """Asks; True if the button `do` was pressed. The safe one, `leave`, is the default."""
    box = QMessageBox(QMessageBox.Icon.NoIcon, "Ammeter", text, parent=parent)
    doing = box.addButton(do, QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(box.addButton(leave, QMessageBox.ButtonRole.RejectRole))
    box.exec()
    box.deleteLater()
    return box.clickedButton() is doing


def may_stop(parent: QWidget, waiting: int) -> bool:
    """Whether the window may close while a run trains and `waiting` more stand in the queue."""
    text = "A run is training. Closing stops it; what it recorded so far is kept."
    if waiting:
        stays = "1 more stays" if waiting == 1 else f"{waiting} more stay"
        text += f" {stays} in the queue for the next start."
    return ask(parent, text, "Stop and close", "Keep training")


def may_delete(parent: QWidget, count: int) -> bool:
    """Whether runs may be deleted."""
    what = f"Delete {count} runs" if count > 1 else "Delete this run"
    return ask(parent, f"{what} with all recorded curves? This cannot be undone.", "Delete", "Keep")
