"""The means that set up the engine of another machine. The program is sent there first, if it is another."""

from __future__ import annotations

from collections.abc import Iterator

from engine.installation.wanted import InstallEvent, Wanted
from engine.machines.machine import Machines
from engine.machines.program import FarInstaller
from gui.installation.setup import Found, Means


def far_means(name: str) -> Means:
    """Those for the machine of that name; nothing is asked of it before they are used."""
    return Means(
        look=lambda: _look(name),
        plan=lambda wanted, is_stopped: _installer(name).plan(wanted, is_stopped),
        installer=lambda: _installer(name),
    )


class _Installer(FarInstaller):
    """Notes, once it is done, what the machine has."""

    def install(self, wanted: Wanted) -> Iterator[InstallEvent]:
        yield from super().install(wanted)
        Machines().put(self.machine)


def _installer(name: str) -> _Installer:
    return _Installer(Machines().find(name))


def _look(name: str) -> Found:
    there = _installer(name).describe()
    return Found(there.hardware, there.builds)
