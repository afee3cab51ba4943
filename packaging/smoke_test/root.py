"""A bare Debian root: built once, kept, and entered through an overlay that ends with its namespace."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fcntl import ioctl
from importlib.metadata import Distribution, PathDistribution, version
from pathlib import Path

from smoke_test.steps import INSTALLED, SmokeError, check, output_of
from tests.wheel_index import stand_in_wheel

USER = "visitor"
USER_ID = 1000
_CHROOT = "/usr/sbin/chroot"
_ABSENT = ("python3", "python", "pip", "uv", "gcc", "cc", "clang", "g++", "make")


def kept_folder() -> Path:
    """Return the folder where roots are kept between tests."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ammeter-smoke"


def make_root(suite: str, package: Path) -> Path:
    """Build a minimal root with only the dependencies of `package`, by mmdebstrap."""
    needed = output_of(["dpkg-deb", "--field", package, "Depends"]).strip()
    # of alternatives the first; a version is met by the suite or dpkg will complain
    names = sorted(
        {dependency.split("|")[0].split("(")[0].strip() for dependency in needed.split(",")} - {""}
    )
    key = hashlib.sha256(f"{suite} {names}".encode()).hexdigest()[:12]
    folder = kept_folder() / f"{suite}-{key}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        output_of(
            ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(names)}", suite, part],
            seconds=1200,
        )
        part.rename(folder)
    return folder


def enter_namespaces(*arguments: str | Path) -> int:
    """Run this program with other arguments in new namespaces, without a network.

    When it ends, the kernel ends every process that it started and undoes every mount. Returns the status.
    """
    check(os.geteuid() == 0, "the whole test changes roots and mounts, so root has to start it")
    apart = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return subprocess.run([*apart, sys.executable, sys.argv[0], *arguments], check=False).returncode


def loopback_up() -> None:
    """Bring up the only network of the namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as loopback:
        set_flags, up_and_running = 0x8914, 0x41
        ioctl(loopback, set_flags, struct.pack("16sh14x", b"lo", up_and_running))


@dataclass(frozen=True)
class Root:
    """A minimal Linux file system, mounted at `folder`, in which programs are run isolated (chroot)."""

    folder: Path

    def at(self, path: str | Path) -> Path:
        """Return a path of the root as seen from outside."""
        return self.folder / str(path).lstrip("/")

    def command(self, *words: str | Path, is_user: bool = False) -> list[str]:
        """Return a command that runs inside, as root or as the user."""
        inside = [_CHROOT, *([f"--userspec={USER_ID}:{USER_ID}"] if is_user else []), str(self.folder)]
        return [*inside, *(str(word) for word in words)]

    def run(
        self, *words: str | Path, environment: Mapping[str, str] | None = None, is_user: bool = False
    ) -> str:
        """Run a command inside and return its output. Raises SmokeError if it fails."""
        return output_of(
            self.command(*words, is_user=is_user), clean_environment(is_user) | dict(environment or {})
        )

    def check_is_bare(self) -> None:
        """Raises SmokeError if the root has a Python, uv or a compiler."""
        places = [self.at(place) for place in ("usr/local/bin", "usr/bin", "usr/sbin")]
        there = sorted(name for name in _ABSENT for place in places if (place / name).exists())
        check(not there, f"the root is not bare: it has {', '.join(there)}")


def mount_root(lower: Path, scratch: Path, shared: Sequence[Path]) -> Root:
    """Mount a new root over the kept one, with a user and the folders `shared` at the same paths.

    Everything is seen in this namespace only.
    """
    for name in ("changes", "work", "root"):
        (scratch / name).mkdir(parents=True)
    folder = scratch / "root"
    layers = f"lowerdir={lower},upperdir={scratch / 'changes'},workdir={scratch / 'work'}"
    _mount("--types", "overlay", "--options", layers, "overlay", folder)
    root = Root(folder)
    _mount("--types", "proc", "proc", root.at("proc"))
    _mount("--bind", "--options", "ro", "/sys", root.at("sys"))
    _mount("--rbind", "/dev", root.at("dev"))
    for path in shared:
        root.at(path).mkdir(parents=True, exist_ok=True)
        _mount("--bind", path, root.at(path))
    root.run("useradd", "--uid", str(USER_ID), "--create-home", "--shell", "/bin/sh", USER)
    return root


def clean_environment(is_user: bool) -> dict[str, str]:
    """Return the environment of a user who has just logged in."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/games" + ("" if is_user else ":/usr/sbin:/sbin"),
        "HOME": f"/home/{USER}" if is_user else "/root",
        "USER": USER if is_user else "root",
        "LANG": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
    }


def _mount(*words: str | Path) -> None:
    try:
        output_of(["mount", *words])
    except SmokeError as error:
        raise SmokeError(f"the bare root cannot be mounted here: {error}") from None


BACKEND = "cpu"
"""The build that uv finds for a machine without a graphics card."""
_ENGINE = ("torch", "torchvision")
_STAND_IN = """\
'''Leads to the real package, outside the root: the way of a wheel is tested, not its content.'''
import importlib, pathlib, sys

here = str(pathlib.Path(__file__).parents[1])
sys.path[sys.path.index(here)] = {outside!r}
del sys.modules[__name__]
importlib.invalidate_caches()
importlib.import_module(__name__)
"""
_PAYLOAD_BYTES = 48_000_000
"""Gives the stand-ins of torch something to fetch, to cut, and to unpack."""


def checkout_packages(python: str) -> Path:
    """Return the folder of this checkout's torch. Raises SmokeError if the package has another Python."""
    here = sysconfig.get_python_version()
    check(
        here == python,
        f"the package has Python {python} and this is {here}, whose torch it cannot use; give real wheels by "
        "--wheels FOLDER",
    )
    return Path(sysconfig.get_path("platlib"))


def stand_ins(folder: Path, python: str) -> None:
    """Write small wheels of torch and torchvision into `folder` that import this checkout's packages.

    They replace the real wheels, which are large.
    """
    files = {"__init__.py": _STAND_IN.format(outside=str(checkout_packages(python)))}
    builds = folder / BACKEND
    for name in _ENGINE:
        content: dict[str, str | bytes] = {f"{name}/{path}": text for path, text in files.items()}
        if name == "torch":
            content["torch/payload.bin"] = os.urandom(_PAYLOAD_BYTES)
        requires = ("sympy",) if name == "torch" else ("torch", "numpy", "pillow")
        stand_in_wheel(builds, name, f"{version(name).partition('+')[0]}+{BACKEND}", content, requires)
    stand_in_wheel(folder, "sympy", "1.14.0", {"sympy_stand_in.py": ""})


def real_wheels(folder: Path, source: Path) -> None:
    """Link the wheels in `source` into `folder`. Raises SmokeError if torch or torchvision is missing.

    `source` is the folder of `pip download torch torchvision`.
    """
    wheels = sorted(source.glob("*.whl"))
    for name in _ENGINE:
        check(
            any(path.name.startswith(f"{name}-") for path in wheels),
            f"no wheel of {name}: `pip download --dest {source} {' '.join(_ENGINE)}` gets it",
        )
    builds = folder / BACKEND
    builds.mkdir(parents=True)
    for path in wheels:
        (folder / path.name).symlink_to(path)
        # PyTorch's indexes hold what torch needs too, and uv looks for some of it nowhere else
        (builds / path.name).symlink_to(path)


def add_program_packages(folder: Path, site_packages: Path) -> None:
    """Add wheels with only the versions of the program's packages, which uv resolves and never downloads."""
    there = {_normal(path.name) for path in folder.glob("*.whl")}
    for info in sorted(site_packages.glob("*.dist-info")):
        part: Distribution = PathDistribution(info)
        name = f"{_normal(part.name)}-{part.version}"
        if not any(path.startswith(f"{name}-") for path in there):
            stand_in_wheel(folder, part.name.replace("-", "_"), part.version)


def python_of(unpacked: Path) -> str:
    """Return the Python of an unpacked package, such as "3.12". Raises SmokeError."""
    for path in sorted((unpacked / INSTALLED / "python" / "lib").glob("python3.*")):
        if re.fullmatch(r"python3\.\d+", path.name):
            return path.name.removeprefix("python")
    raise SmokeError("the package holds no interpreter")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name.split("-")[0]).lower() + name[len(name.split("-")[0]) :]
