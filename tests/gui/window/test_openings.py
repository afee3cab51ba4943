"""Archives that are opened from outside: by another start of the program, and by macOS's event."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtNetwork import QLocalSocket
from pytestqt.qtbot import QtBot

from gui.window import desktop
from gui.window.app import Application
from gui.window.desktop import Openings, hand_over

HANDS_OVER = """
import sys
from pathlib import Path
from gui.window.desktop import hand_over
sys.exit(0 if hand_over([Path(path) for path in sys.argv[1:]]) else 1)
"""


@pytest.fixture
def listening(qtbot: QtBot, home: Path) -> Iterator[Openings]:
    opened = Openings()
    opened.listen()
    yield opened
    opened.close()


def test_another_start_hands_its_archives_over_to_the_open_window(
    qtbot: QtBot, listening: Openings, tmp_path: Path
) -> None:
    taken: list[Path] = []
    listening.wanted.connect(taken.append)
    names = ["runs.ammeter", "a b\nü.zip", "other.txt"]
    other = subprocess.Popen([sys.executable, "-c", HANDS_OVER, *names], cwd=tmp_path)
    qtbot.waitUntil(lambda: other.poll() is not None, timeout=30_000)
    assert other.returncode == 0
    assert taken == [tmp_path / name for name in names[:2]]


def test_without_a_window_nothing_is_handed_over(home: Path) -> None:
    assert not hand_over([Path("runs.ammeter")])


@pytest.mark.parametrize("line", [b"not JSON\n", b"{}\n", b'[1, "/etc/passwd"]\n', b"x" * 100_000])
def test_what_is_no_archive_is_left_alone(qtbot: QtBot, listening: Openings, line: bytes) -> None:
    socket = QLocalSocket()
    socket.connectToServer(desktop._address())
    with qtbot.assertNotEmitted(listening.wanted), qtbot.waitSignal(socket.disconnected):
        socket.write(line)


def test_a_second_window_leaves_the_socket_to_the_first_which_may_have_been_killed(
    qtbot: QtBot, listening: Openings, tmp_path: Path
) -> None:
    second = Openings()
    second.listen()
    assert not second._server.isListening()
    # what a killed one leaves behind
    address = Path(listening._server.fullServerName())
    listening.close()
    if os.name == "posix":
        address.touch()
    second.listen()
    assert second._server.isListening()
    second.close()


def test_macos_opens_a_file_by_an_event(qtbot: QtBot, qapp: Application, tmp_path: Path) -> None:
    archive = tmp_path / "runs.ammeter"
    with qtbot.waitSignal(qapp.file_opened) as opened:
        qapp.sendEvent(qapp, QFileOpenEvent(QUrl.fromLocalFile(str(archive))))
    assert opened.args == [archive]
