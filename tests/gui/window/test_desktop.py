"""Archives that are opened from outside: by another start of the program, and by macOS's event."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtNetwork import QLocalSocket
from pytestqt.qtbot import QtBot

from gui.window import desktop
from gui.window.app import Application
from gui.window.desktop import Openings, hand_over, send

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
    names = ["runs.ammeter", "a b\nü.ammeter", "other.txt"]
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


@pytest.mark.skipif(sys.platform == "win32", reason="its pipes have no folder")
def test_the_socket_lies_where_no_other_user_can_make_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert Path(str(desktop._address())).parent == runtime / "ammeter"
    # somebody was there first
    (runtime / "ammeter").chmod(0o777)
    own = Path(f"/tmp/ammeter-{os.getuid()}")
    assert Path(str(desktop._address())).parent == own and not own.stat().st_mode & 0o077
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert Path(str(desktop._address())).parent == own
    monkeypatch.setattr(os, "getuid", lambda: 12_345_678)
    Path("/tmp/ammeter-12345678").symlink_to(own)
    try:
        assert desktop._address() is None and not hand_over([Path("runs.ammeter")])
        opened = Openings()
        opened.listen()
        assert not opened._server.isListening()
    finally:
        Path("/tmp/ammeter-12345678").unlink()
        shutil.rmtree(runtime)


@pytest.mark.skipif(sys.platform == "win32", reason="its pipes let no other user in")
def test_a_socket_of_another_user_gets_no_path_and_one_is_taken_from_none(
    qtbot: QtBot, listening: Openings, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, real = desktop._address(), os.getuid()
    monkeypatch.setattr(desktop, "_address", lambda: address)
    monkeypatch.setattr(os, "getuid", lambda: real + 1)
    assert not hand_over([Path("runs.ammeter")])
    socket = QLocalSocket()
    with qtbot.assertNotEmitted(listening.wanted), qtbot.waitSignal(socket.disconnected):
        socket.connectToServer(str(address))
        socket.write(b'["/home/me/runs.ammeter"]\n')


@pytest.mark.skipif(sys.platform == "win32", reason="its pipes let no other user in")
def test_whoever_has_hung_up_already_is_not_asked_who_it_is(qapp: Application) -> None:
    assert not desktop._is_of_this_user(QLocalSocket())


def test_macos_opens_a_file_by_an_event(qtbot: QtBot, qapp: Application, tmp_path: Path) -> None:
    archive = tmp_path / "runs.ammeter"
    with qtbot.waitSignal(qapp.file_opened) as opened:
        qapp.sendEvent(qapp, QFileOpenEvent(QUrl.fromLocalFile(str(archive))))
    assert opened.args == [archive]


has_a_bus = pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="there is no D-Bus daemon here")


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A D-Bus session of its own."""
    command = ["dbus-daemon", "--session", "--nofork", "--print-address=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", daemon.stdout.readline().strip())
        yield
        daemon.terminate()


@has_a_bus
@pytest.mark.usefixtures("bus")
def test_the_desktop_gets_title_and_text_without_markup() -> None:
    from jeepney import MessageType, message_bus, new_method_return
    from jeepney.io.blocking import open_dbus_connection

    received = []
    with open_dbus_connection(bus="SESSION") as desktop:
        desktop.send_and_get_reply(message_bus.RequestName("org.freedesktop.Notifications"))

        def serve() -> None:
            while True:
                message = desktop.receive(timeout=10)
                if message.header.message_type is MessageType.method_call:
                    received.append(message.body)
                    desktop.send(new_method_return(message, "u", (1,)))
                    return

        server = threading.Thread(target=serve)
        server.start()
        assert send("Done", "12 runs of <net> are done.") == ""
        server.join()
    assert received[0][3:5] == ("Done", "12 runs of &lt;net&gt; are done.")


@has_a_bus
@pytest.mark.usefixtures("bus")
def test_a_desktop_without_notifications_is_said_so() -> None:
    assert "org.freedesktop.Notifications" in send("Done", "12 runs are done.")


def test_without_a_session_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    assert send("Done", "12 runs are done.") == "No D-Bus session is running."
