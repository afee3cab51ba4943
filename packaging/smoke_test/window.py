"""The program's window as assistive technology sees it (AT-SPI): found by name, clicked by the mouse."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jeepney import DBusAddress, MessageType, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from smoke_test.root import USER_ID, clean_environment
from smoke_test.steps import SmokeError, output_of, wait_for

_BUS_LAUNCHERS = ("/usr/libexec/at-spi-bus-launcher", "/usr/lib/at-spi2-core/at-spi-bus-launcher")
_DISPLAY = ":90"


class Desktop:
    """A virtual desktop for tests: it saves screenshots, and sends keys and clicks."""

    def __init__(self, runtime: Path) -> None:
        self.environment = clean_environment(is_user=True) | {
            "DISPLAY": _DISPLAY,
            "XDG_RUNTIME_DIR": str(runtime),
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime / 'bus'}",
            "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",
        }

    def screenshot(self, path: Path) -> None:
        """Save the whole screen as a PNG."""
        output_of(["import", "-window", "root", path], self.environment)

    def click(self, x: int, y: int) -> None:
        """Click at a point."""
        output_of(["xdotool", "mousemove", str(x), str(y), "sleep", "0.1", "click", "1"], self.environment)

    def press(self, *keys: str) -> None:
        """Press keys in xdotool's names, such as "ctrl+Return", on the active window."""
        output_of(["xdotool", "key", "--delay", "80", *keys], self.environment)

    def type(self, text: str) -> None:
        """Type text into the focused widget."""
        output_of(["xdotool", "type", "--delay", "30", text], self.environment)


@contextmanager
def desktop(runtime: Path, log: Path) -> Iterator[Desktop]:
    """Start the desktop for the user, with its sockets in `runtime`; end it on leaving."""
    shown = Desktop(runtime)
    os.chown(runtime, USER_ID, USER_ID)
    runtime.chmod(0o700)
    launcher = next((path for path in _BUS_LAUNCHERS if Path(path).exists()), _BUS_LAUNCHERS[0])
    bus_address = shown.environment["DBUS_SESSION_BUS_ADDRESS"]
    with ExitStack() as running, log.open("w") as said:

        def start(*command: str, user: int | None = USER_ID) -> None:
            program = subprocess.Popen(
                command, env=shown.environment, user=user, group=user, stdout=said, stderr=subprocess.STDOUT
            )
            running.callback(_end, program)

        start("Xvfb", _DISPLAY, "-screen", "0", "1440x900x24", "-ac", "-nolisten", "tcp", user=0)
        wait_for(_answers(shown, "xdotool", "getdisplaygeometry"), "Xvfb did not start", 20)
        start("openbox")
        start("dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address={bus_address}")
        wait_for((runtime / "bus").exists, "dbus-daemon did not start", 20)
        start(launcher, "--launch-immediately")
        wait_for((runtime / "at-spi").is_dir, "the bus of accessibility did not start", 20)
        yield shown


def _answers(shown: Desktop, *command: str) -> Callable[[], bool]:
    def does_answer() -> bool:
        return (
            subprocess.run(command, env=shown.environment, capture_output=True, check=False).returncode == 0
        )

    return does_answer


def _end(program: subprocess.Popen[bytes]) -> None:
    program.terminate()
    try:
        program.wait(5)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


_ACCESSIBLE = "org.a11y.atspi.Accessible"
_SHOWING, _ENABLED = 1 << 25, 1 << 8
_SCREEN = 0


@dataclass(frozen=True)
class Part:
    """An accessible element of a window, such as a button, a label or a field."""

    bus: str
    path: str
    role: str
    name: str
    is_showing: bool
    is_enabled: bool


class Window:
    """Finds and clicks elements of the program's windows by role and name, through the accessibility API.

    Only visible elements are found.
    """

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop
        with _as_user():
            session = open_dbus_connection(desktop.environment["DBUS_SESSION_BUS_ADDRESS"])
            address = _call(session, "org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus", "GetAddress")[0]
            session.close()
            self._connection = open_dbus_connection(address)

    def parts(self) -> Iterator[Part]:
        """All parts that are showing, from the top left on."""
        yield from self._below("org.a11y.atspi.Registry", "/org/a11y/atspi/accessible/root", 0)

    def find(self, name: str, role: str | None = None) -> Part | None:
        """Return the first enabled part with this name, or whose name starts with it."""
        try:
            for part in self.parts():
                if part.name.startswith(name) and role in (None, part.role) and part.is_enabled:
                    return part
        except SmokeError:
            # a part went away while it was looked at
            return None
        return None

    def wait_for(self, name: str, role: str | None = None, seconds: float = 60) -> Part:
        """Wait until there is such a part."""
        kept: list[Part] = []

        def is_there() -> bool:
            part = self.find(name, role)
            kept.extend([part] if part else [])
            return bool(kept)

        wait_for(is_there, f"the window shows no {role or 'part'} “{name}”", seconds, every=0.3)
        return kept[0]

    def click(self, name: str, role: str | None = None, seconds: float = 60) -> None:
        """Wait for a part and click its center."""
        part = self.wait_for(name, role, seconds)
        component = "org.a11y.atspi.Component"
        place = _call(self._connection, part.bus, part.path, component, "GetExtents", "u", (_SCREEN,))
        x, y, width, height = place[0]
        self._desktop.click(x + width // 2, y + height // 2)

    def texts(self) -> list[str]:
        """Return the texts of the window's parts."""
        return [part.name for part in self.parts() if part.name]

    def _below(self, bus: str, path: str, depth: int) -> Iterator[Part]:
        for child_bus, child_path in _call(self._connection, bus, path, _ACCESSIBLE, "GetChildren")[0]:
            part = self._part(child_bus, child_path)
            # the application itself has no state of showing
            if part.is_showing or depth == 0:
                yield part
                # tables have too many children to be asked for
                if part.role not in ("table", "tree table"):
                    yield from self._below(child_bus, child_path, depth + 1)

    def _part(self, bus: str, path: str) -> Part:
        states = _call(self._connection, bus, path, _ACCESSIBLE, "GetState")[0][0]
        role = _call(self._connection, bus, path, _ACCESSIBLE, "GetRoleName")[0]
        properties = "org.freedesktop.DBus.Properties"
        name = _call(self._connection, bus, path, properties, "Get", "ss", (_ACCESSIBLE, "Name"))[0][1]
        return Part(bus, path, role, name, bool(states & _SHOWING), bool(states & _ENABLED))


def _call(
    connection: DBusConnection,
    bus: str,
    path: str,
    interface: str,
    method: str,
    signature: str | None = None,
    body: tuple[Any, ...] = (),
) -> tuple[Any, ...]:
    message = new_method_call(DBusAddress(path, bus, interface), method, signature, body)
    answer = connection.send_and_get_reply(message, timeout=20)
    if answer.header.message_type is MessageType.error:
        raise SmokeError(f"the window does not tell what it shows: {answer.body}")
    content: tuple[Any, ...] = answer.body
    return content


@contextmanager
def _as_user() -> Iterator[None]:
    """A bus lets in only the user whom it belongs to."""
    os.setresuid(USER_ID, USER_ID, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
