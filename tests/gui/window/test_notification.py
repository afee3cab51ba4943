from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator

import pytest

from gui.window.desktop import notify_message, send

pytestmark = pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="there is no D-Bus daemon here")


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A D-Bus session of its own."""
    command = ["dbus-daemon", "--session", "--nofork", "--print-address=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", daemon.stdout.readline().strip())
        yield
        daemon.terminate()


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
        assert send(notify_message("Done", "12 runs of <net> are done.")) == ""
        server.join()
    assert received[0][3:5] == ("Done", "12 runs of &lt;net&gt; are done.")


@pytest.mark.usefixtures("bus")
def test_a_desktop_without_notifications_is_said_so() -> None:
    assert "org.freedesktop.Notifications" in send(notify_message("Done", "12 runs are done."))


def test_without_a_session_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    assert send(notify_message("Done", "12 runs are done.")) == "There is no D-Bus session."
