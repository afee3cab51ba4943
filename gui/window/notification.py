"""A notification of the desktop: that the work is done, for a user who has long turned to something else."""

from __future__ import annotations

import html
import logging
import sys
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from engine.experiment.problem import Problem
from gui.session.background import Background

if TYPE_CHECKING:
    from jeepney import Message

_log = logging.getLogger(__name__)
_PATIENCE_SECONDS = 2.0
_SHOWN_MS = 20_000


class Notifications(QObject):
    """Tells of what happened while its window was not in front."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._background = Background(self)
        self._tray: QSystemTrayIcon | None = None

    def tell(self, title: str, text: str) -> None:
        """Shows a notification and marks the window in the task bar, unless the window is in front."""
        if self._window.isActiveWindow() or QGuiApplication.platformName() == "offscreen":
            return
        QApplication.alert(self._window)
        if sys.platform == "linux":
            # a tray is not needed for it there, and many desktops have none
            self._background.do(lambda: send(notify_message(title, text)), _note_outcome, _note_outcome)
        elif QSystemTrayIcon.isSystemTrayAvailable():
            self._show_in_tray(title, text)

    def stop(self) -> None:
        """Waits for a notification that is being sent, and removes the icon of the tray."""
        self._background.stop()
        if self._tray is not None:
            self._tray.hide()

    def _show_in_tray(self, title: str, text: str) -> None:
        if self._tray is None:
            self._tray = QSystemTrayIcon(self._window.windowIcon(), self)
        self._tray.show()
        self._tray.showMessage(title, text, self._window.windowIcon(), _SHOWN_MS)


def notify_message(title: str, text: str) -> Message:
    """The D-Bus message of freedesktop.org's Desktop Notifications Specification 1.2."""
    from jeepney import DBusAddress, new_method_call

    server = DBusAddress(
        "/org/freedesktop/Notifications",
        bus_name="org.freedesktop.Notifications",
        interface="org.freedesktop.Notifications",
    )
    # the body may hold marks of HTML, the summary may not
    body: tuple[object, ...] = ("Ammeter", 0, "", title, html.escape(text, quote=False), [], {}, -1)
    return new_method_call(server, "Notify", "susssasa{sv}i", body)


def send(message: Message) -> str:
    """Sends a message over the session's bus; why it could not be, or ""."""
    from jeepney import DBusErrorResponse
    from jeepney.auth import AuthenticationError
    from jeepney.io.blocking import open_dbus_connection
    from jeepney.wrappers import unwrap_msg

    try:
        with open_dbus_connection(bus="SESSION") as connection:
            unwrap_msg(connection.send_and_get_reply(message, timeout=_PATIENCE_SECONDS))
    except KeyError:
        return "There is no D-Bus session."
    except (OSError, AuthenticationError, DBusErrorResponse) as error:
        return str(error)
    return ""


def _note_outcome(outcome: str | Problem) -> None:
    if outcome:
        # a desktop without notifications is no problem of the user's
        _log.info("No notification was shown: %s", outcome)
