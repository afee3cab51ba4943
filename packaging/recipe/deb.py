"""The package for Debian and Ubuntu: the program in /usr/lib/ammeter and its desktop integration."""

from __future__ import annotations

import gzip
import re
import shutil
import tempfile
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from engine import __version__
from recipe.desktop import LINUX, write_desktop
from recipe.interpreter import elf_files, needed_by
from recipe.source import ROOT, RecipeError, epoch, linux_here, run, settle, size_of
from recipe.tree import build_tree

MAINTAINER = "The Ammeter developers <developers@ammeter.invalid>"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_CONTROL = """\
Package: ammeter
Version: {version}
Section: science
Priority: optional
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {kib}
Depends: {depends}
Recommends: ca-certificates
Suggests: gcc
Description: measure what mixed-precision training in PyTorch gains
 Ammeter trains the same model in FP32 and in mixed precision (AMP) on your own
 machine, and shows speed, memory and accuracy live and side by side.
 .
 PyTorch is not in this package: the first start downloads the build for your
 GPU into your home folder.
"""
_COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Ammeter
Comment: The package also contains an interpreter and the packages that the
 program needs. They, their licences and where their source is are listed in
 /usr/lib/ammeter/licences/NOTICE.txt.

Files: *
Copyright: 2026 The Ammeter developers
License: Expat
"""


def build_deb(out: Path, is_quick: bool = False) -> Path:
    """Build the package in the folder `out` and return its file. Raises RecipeError.

    `is_quick` compresses in seconds instead of minutes to a file a third larger, for a test.
    """
    target = linux_here("deb")
    architecture = _ARCHITECTURES[target.machine]
    out.mkdir(parents=True, exist_ok=True)
    package = out / f"ammeter_{__version__}_{architecture}.deb"
    with tempfile.TemporaryDirectory(prefix="ammeter-deb-") as folder:
        root = Path(folder) / "root"
        tree = build_tree(target, root / "usr/lib/ammeter")
        (root / "usr/bin").mkdir()
        (root / "usr/bin/ammeter").symlink_to("../lib/ammeter/ammeter")
        write_desktop(root / "usr/share")
        _write_documents(root / "usr/share")
        _write_control(root, architecture, debian_packages(tree))
        settle(root)
        packed = ("-Zzstd", "-z1") if is_quick else ("-Zxz", "-z6")
        # fmt: off
        run(
            "dpkg-deb", "--root-owner-group", *packed, "--build", root, package,
            environment={"SOURCE_DATE_EPOCH": str(epoch())},
        )
        # fmt: on
    return package


def build_twice(out: Path, is_quick: bool = False) -> Path:
    """Build the package twice, in different folders. Raises RecipeError if the files differ."""
    with tempfile.TemporaryDirectory() as elsewhere:
        first, second = build_deb(Path(elsewhere), is_quick), build_deb(out, is_quick)
        if first.read_bytes() != second.read_bytes():
            kept = shutil.move(first, out / f"{first.name}.other")
            raise RecipeError(f"Two builds differ: {second} and {kept}.")
    return second


def _write_documents(share: Path) -> None:
    documents = share / "doc/ammeter"
    documents.mkdir(parents=True)
    text = "\n".join(f" {line}" if line else " ." for line in _licence().splitlines())
    (documents / "copyright").write_text(f"{_COPYRIGHT}{text}\n", encoding="utf-8")
    when = format_datetime(datetime.fromtimestamp(epoch(), UTC))
    entry = (
        f"ammeter ({__version__}) unstable; urgency=medium\n\n"
        f"  * What is new is told in NEWS.gz.\n\n -- {MAINTAINER}  {when}\n"
    )
    (documents / "changelog.gz").write_bytes(gzip.compress(entry.encode(), mtime=0))
    (documents / "NEWS.gz").write_bytes(gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), mtime=0))
    overrides = share / "lintian/overrides"
    overrides.mkdir(parents=True)
    shutil.copy(LINUX / "lintian-overrides", overrides / "ammeter")


def _licence() -> str:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    return text[text.index("Permission is hereby") :].strip()


def _write_control(root: Path, architecture: str, depends: tuple[str, ...]) -> None:
    kib = -(-size_of(root) // 1024)
    control = root / "DEBIAN"
    control.mkdir()
    text = _CONTROL.format(
        version=__version__,
        architecture=architecture,
        maintainer=MAINTAINER,
        kib=kib,
        depends=", ".join(depends),
    )
    (control / "control").write_text(text, encoding="utf-8")
    shutil.copy(LINUX / "postrm", control / "postrm")
    (control / "postrm").chmod(0o755)
    sums = run("sh", "-c", "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum", folder=root)
    (control / "md5sums").write_text(sums, encoding="utf-8")


_DEBIAN = {
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
    """Return the packages that a program depends on. Raises RecipeError for an unknown library."""
    files = elf_files(tree)
    own = {path.name for path in tree.rglob("*.so*")}
    found = set()
    for library in sorted(needed_by(*files) - own):
        package = _DEBIAN.get(library.partition(".so")[0])
        if package is None:
            raise RecipeError(f"{library} is needed: name its package in packaging/recipe/deb.py.")
        found.add(f"libc6 (>= {_newest_glibc(files)})" if package == "libc6" else package)
    return tuple(sorted(found))


def _newest_glibc(files: list[Path]) -> str:
    versions = {match for path in files for match in re.findall(rb"GLIBC_2\.(\d+)", path.read_bytes())}
    return f"2.{max(map(int, versions))}"
