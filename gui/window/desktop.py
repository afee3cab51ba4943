"""Desktop notifications when the queue has finished, and archives handed over by another start."""

from __future__ import annotations

import getpass
import hashlib
import html
import json
import logging
import os
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtNetwork import QLocalServer, QLocalSocket
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from engine.experiment.paths import data_folder, sockets_folder
from engine.experiment.problem import Problem
from engine.export.archive import ARCHIVE_SUFFIX
from gui.session.background import Background

_log = logging.getLogger(__name__)
_PATIENCE_SECONDS = 2.0
_SHOWN_MS = 20_000


class Notifications(QObject):
    """Sends desktop notifications while the window is not in front."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._background = Background(self)
        self._tray: QSystemTrayIcon | None = None

    def notify(self, title: str, text: str) -> None:
        """Show a notification and mark the window in the task bar, unless the window is in front."""
        if self._window.isActiveWindow() or QGuiApplication.platformName() == "offscreen":
            return
        QApplication.alert(self._window)
        if sys.platform == "linux":
            # a tray is not needed for it there, and many desktops have none
            self._background.do(lambda: send(title, text), _note_outcome, _note_outcome)
        elif QSystemTrayIcon.isSystemTrayAvailable():
            self._show_in_tray(title, text)

    def stop(self) -> None:
        """Wait for a notification that is being sent, and remove the tray icon."""
        self._background.stop()
        if self._tray is not None:
            self._tray.hide()

    def _show_in_tray(self, title: str, text: str) -> None:
        if self._tray is None:
            self._tray = QSystemTrayIcon(self._window.windowIcon(), self)
        self._tray.show()
        self._tray.showMessage(title, text, self._window.windowIcon(), _SHOWN_MS)


def send(title: str, text: str) -> str:
    """Send a notification over the session bus. Return the error, or "".

    As in freedesktop.org's Desktop Notifications Specification 1.2.
    """
    from jeepney import DBusAddress, DBusErrorResponse, new_method_call
    from jeepney.auth import AuthenticationError
    from jeepney.io.blocking import open_dbus_connection
    from jeepney.wrappers import unwrap_msg

    server = DBusAddress(
        "/org/freedesktop/Notifications",
        bus_name="org.freedesktop.Notifications",
        interface="org.freedesktop.Notifications",
    )
    # the body may hold marks of HTML, the summary may not
    body: tuple[object, ...] = ("Ammeter", 0, "", title, html.escape(text, quote=False), [], {}, -1)
    message = new_method_call(server, "Notify", "susssasa{sv}i", body)
    try:
        with open_dbus_connection(bus="SESSION") as connection:
            unwrap_msg(connection.send_and_get_reply(message, timeout=_PATIENCE_SECONDS))
    except KeyError:
        return "No D-Bus session is running."
    except (OSError, AuthenticationError, DBusErrorResponse) as error:
        return str(error)
    return ""


def _note_outcome(outcome: str | Problem) -> None:
    if outcome:
        # a desktop without notifications is no problem of the user's
        _log.info("No notification was shown: %s", outcome)


_PATIENCE_MS = 2_000
_LONGEST_BYTES = 64 * 2**10
_TAKEN = b"taken\n"


def hand_over(archives: Sequence[Path]) -> bool:
    """Have an open window import archives. Return False if none is open or it does not answer."""
    address, peer = _address(), QLocalSocket()
    if address is None:
        return False
    peer.connectToServer(address)
    if not peer.waitForConnected(_PATIENCE_MS) or not _is_of_this_user(peer):
        return False
    peer.write(json.dumps([str(archive.absolute()) for archive in archives]).encode() + b"\n")
    while not peer.canReadLine():
        if not peer.waitForReadyRead(_PATIENCE_MS):
            return False
    return peer.readLine().data() == _TAKEN


class Openings(QObject):
    """Receives files that are opened while the program already runs, over a local socket.

    Only this user can use the socket, and there is one for each folder of saved runs. `wanted` carries the
    path of an archive that a second start of the program has handed over.
    """

    wanted = Signal(object)  # Path

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._welcome)

    def listen(self) -> None:
        """Start to listen, unless another window does."""
        address, probe = _address(), QLocalSocket()
        if address is None:
            _log.warning("Found no private folder for sockets. Opening an archive starts another window.")
            return
        probe.connectToServer(address)
        if probe.waitForConnected(_PATIENCE_MS):
            probe.abort()
            return
        # left by a window that was killed
        QLocalServer.removeServer(address)
        self._server.listen(address)

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def _welcome(self) -> None:
        while (peer := self._server.nextPendingConnection()) is not None:
            peer.disconnected.connect(peer.deleteLater)
            if not _is_of_this_user(peer):
                peer.abort()
                continue
            peer.readyRead.connect(lambda peer=peer: self._read(peer))
            self._read(peer)

    def _read(self, peer: QLocalSocket) -> None:
        if not peer.canReadLine():
            if peer.bytesAvailable() > _LONGEST_BYTES:
                peer.abort()
            return
        try:
            paths = json.loads(bytes(peer.readLine(_LONGEST_BYTES).data()))
        except ValueError:
            peer.abort()
            return
        peer.write(_TAKEN)
        peer.disconnectFromServer()
        # whoever may open the socket may send anything
        for path in paths if isinstance(paths, list) else ():
            if isinstance(path, str) and Path(path).suffix.lower() == ARCHIVE_SUFFIX:
                self.wanted.emit(Path(path))


def _address() -> str | None:
    """Return the socket of this user's windows with the same saved runs. None without a private folder."""
    # a user without a name, as in some containers, has a number
    user = getpass.getuser() if sys.platform == "win32" else os.getuid()
    key = f"{user}\0{data_folder().absolute()}"
    name = f"ammeter-{hashlib.sha256(key.encode(errors='replace')).hexdigest()[:16]}"
    if sys.platform == "win32":
        return name
    # in a folder for all, another user could listen under the same name first
    folder = sockets_folder()
    return None if folder is None else str(folder / name)


# of macOS, which Python has no names for: sys/un.h, and struct xucred of sys/ucred.h
_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES = 0, 1, 76


def _is_of_this_user(peer: QLocalSocket) -> bool:
    # Windows lets no other user into the pipe, and has nothing like it
    if sys.platform == "win32":
        return True
    try:
        with socket.socket(fileno=os.dup(peer.socketDescriptor())) as same:
            if sys.platform == "linux":
                raw = same.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            else:
                raw = same.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES)
    except OSError:
        # it is gone already
        return False
    # Linux: process, user, group; macOS: version, user, ...
    return bool(struct.unpack_from("2i", raw)[1] == os.getuid())
