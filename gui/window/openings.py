"""Archives that the program is started with, while a window of it is open: that window imports them."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from engine.experiment.paths import data_folder
from engine.export.archive import ARCHIVE_SUFFIXES

_PATIENCE_MS = 2_000
_LONGEST_BYTES = 64 * 2**10
_TAKEN = b"taken\n"


def hand_over(archives: Sequence[Path]) -> bool:
    """Has a window that is open import archives; False where there is none, or it does not answer."""
    socket = QLocalSocket()
    socket.connectToServer(_address())
    if not socket.waitForConnected(_PATIENCE_MS):
        return False
    socket.write(json.dumps([str(archive.absolute()) for archive in archives]).encode() + b"\n")
    while not socket.canReadLine():
        if not socket.waitForReadyRead(_PATIENCE_MS):
            return False
    return socket.readLine().data() == _TAKEN


class Openings(QObject):
    """Listens at a local socket that only this user may open, one for each folder of saved runs.

    `wanted` carries the path of an archive that another start of the program hands over.
    """

    wanted = Signal(object)  # Path

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._welcome)

    def listen(self) -> None:
        """Listens from now on, unless another window does."""
        address, probe = _address(), QLocalSocket()
        probe.connectToServer(address)
        if probe.waitForConnected(_PATIENCE_MS):
            probe.abort()
            return
        # left by a window that was killed
        QLocalServer.removeServer(address)
        self._server.listen(address)

    def close(self) -> None:
        """Listens no more."""
        self._server.close()

    def _welcome(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            socket.disconnected.connect(socket.deleteLater)
            socket.readyRead.connect(lambda socket=socket: self._read(socket))
            self._read(socket)

    def _read(self, socket: QLocalSocket) -> None:
        if not socket.canReadLine():
            if socket.bytesAvailable() > _LONGEST_BYTES:
                socket.abort()
            return
        try:
            paths = json.loads(bytes(socket.readLine(_LONGEST_BYTES).data()))
        except ValueError:
            socket.abort()
            return
        socket.write(_TAKEN)
        socket.disconnectFromServer()
        # whoever may open the socket may send anything
        for path in paths if isinstance(paths, list) else ():
            if isinstance(path, str) and Path(path).suffix.lower() in ARCHIVE_SUFFIXES:
                self.wanted.emit(Path(path))


def _address() -> str:
    """The socket of this user's windows with the same saved runs, in the user's folder for sockets."""
    key = f"{getpass.getuser()}\0{data_folder().absolute()}"
    name = f"ammeter-{hashlib.sha256(key.encode(errors='replace')).hexdigest()[:16]}"
    return str(Path(os.environ.get("XDG_RUNTIME_DIR", ""), name))
