"""The system's libraries that a program's folder needs, as packages of Debian and Ubuntu.

From a table and not from dpkg-shlibdeps, so that a package is the same wherever it is built.
"""

from __future__ import annotations

import re
from pathlib import Path

from recipe.interpreter import elf_files, needed_by
from recipe.source import RecipeError

_PACKAGES = {
    **dict.fromkeys(("libc", "libm", "libdl", "libpthread", "librt", "libutil", "libresolv"), "libc6"),
    **dict.fromkeys(("ld-linux-x86-64", "ld-linux-aarch64"), "libc6"),
    "libstdc++": "libstdc++6",
    "libgcc_s": "libgcc-s1",
    "libz": "zlib1g",
    "libexpat": "libexpat1",
    # of Qt's network module, by which a second start finds the window that is open
    "libbrotlidec": "libbrotli1",
    "libbrotlicommon": "libbrotli1",
    "libgssapi_krb5": "libgssapi-krb5-2",
    "libzstd": "libzstd1",
    "libEGL": "libegl1",
    "libGL": "libgl1",
    "libGLX": "libglx0",
    "libOpenGL": "libopengl0",
    "libfontconfig": "libfontconfig1",
    "libfreetype": "libfreetype6",
    # Debian 13 and Ubuntu 24.04 have it under a name that ends in t64, which provides this one
    "libglib-2.0": "libglib2.0-0",
    "libgthread-2.0": "libglib2.0-0",
    "libgio-2.0": "libglib2.0-0",
    "libgobject-2.0": "libglib2.0-0",
    "libdbus-1": "libdbus-1-3",
    "libX11": "libx11-6",
    "libX11-xcb": "libx11-xcb1",
    "libICE": "libice6",
    "libSM": "libsm6",
    "libxcb": "libxcb1",
    **{
        f"libxcb-{name}": f"libxcb-{name}0"
        for name in ("cursor", "glx", "randr", "render", "shape", "shm", "xfixes")
    },
    **{
        f"libxcb-{name}": f"libxcb-{name}0" for name in ("image", "sync", "xinerama", "xinput", "render-util")
    },
    "libxcb-icccm": "libxcb-icccm4",
    "libxcb-keysyms": "libxcb-keysyms1",
    "libxcb-sync": "libxcb-sync1",
    "libxcb-util": "libxcb-util1",
    "libxcb-xkb": "libxcb-xkb1",
    "libxkbcommon": "libxkbcommon0",
    "libxkbcommon-x11": "libxkbcommon-x11-0",
    "libwayland-client": "libwayland-client0",
    "libwayland-cursor": "libwayland-cursor0",
    "libwayland-egl": "libwayland-egl1",
    "libdrm": "libdrm2",
    "libudev": "libudev1",
}
"""The package of a library, by the start of its file name."""


def debian_packages(tree: Path) -> tuple[str, ...]:
    """What the program in `tree` depends on. Raises RecipeError for a library that the table lacks."""
    files = elf_files(tree)
    own = {path.name for path in tree.rglob("*.so*")}
    found = set()
    for library in sorted(needed_by(*files) - own):
        package = _PACKAGES.get(library.partition(".so")[0])
        if package is None:
            raise RecipeError(
                f"{library} is needed: name its package in packaging/recipe/linux/dependencies.py."
            )
        found.add(f"libc6 (>= {_newest_glibc(files)})" if package == "libc6" else package)
    return tuple(sorted(found))


def _newest_glibc(files: list[Path]) -> str:
    versions = {match for path in files for match in re.findall(rb"GLIBC_2\.(\d+)", path.read_bytes())}
    return f"2.{max(map(int, versions))}"
