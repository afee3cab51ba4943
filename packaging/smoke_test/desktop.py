"""A desktop for a user in the root: X server, window manager, and the bus of accessibility."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from smoke_test.root import USER_ID, clean_environment
from smoke_test.steps import output_of, wait_for

_BUS_LAUNCHERS = ("/usr/libexec/at-spi-bus-launcher", "/usr/lib/at-spi2-core/at-spi-bus-launcher")
_DISPLAY = ":90"


class Desktop:
    """What is on the screen can be photographed, and gets keys and clicks."""

    def __init__(self, runtime: Path) -> None:
        self.environment = clean_environment(is_user=True) | {
            "DISPLAY": _DISPLAY,
            "XDG_RUNTIME_DIR": str(runtime),
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime / 'bus'}",
            "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",
        }

    def screenshot(self, path: Path) -> None:
        """Saves the whole screen as a PNG."""
        output_of(["import", "-window", "root", path], self.environment)

    def click(self, x: int, y: int) -> None:
        """Moves the mouse there and clicks."""
        output_of(["xdotool", "mousemove", str(x), str(y), "sleep", "0.1", "click", "1"], self.environment)

    def press(self, *keys: str) -> None:
        """Presses keys in xdotool's names, such as "ctrl+Return", on the active window."""
        output_of(["xdotool", "key", "--delay", "80", *keys], self.environment)

    def type(self, text: str) -> None:
        """Types text into what has the focus."""
        output_of(["xdotool", "type", "--delay", "30", text], self.environment)


@contextmanager
def desktop(runtime: Path, log: Path) -> Iterator[Desktop]:
    """Starts the desktop for the user, its sockets in `runtime`; on leaving it is ended."""
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
