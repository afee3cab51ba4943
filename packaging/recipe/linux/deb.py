"""The package for Debian and Ubuntu: the program in /usr/lib/ammeter, and what the desktop knows of it."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from engine import __version__
from recipe.linux.dependencies import debian_packages
from recipe.linux.desktop import LINUX, write_desktop
from recipe.source import ROOT, RecipeError, epoch, run, settle, size_of
from recipe.target import linux_here
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
 graphics card, and shows speed, memory and accuracy live and side by side.
 .
 PyTorch itself is not in this package: the program downloads the build that
 fits the graphics card into the user's home folder at the first start.
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
    """Builds the package in the folder `out` and returns its file. Raises RecipeError.

    `is_quick` packs in seconds in place of minutes, and a fifth larger: for a test that installs it once.
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
        packed = ("-Zzstd", "-z5") if is_quick else ("-Zxz", "-z6")
        # fmt: off
        run(
            "dpkg-deb", "--root-owner-group", *packed, "--build", root, package,
            environment={"SOURCE_DATE_EPOCH": str(epoch())},
        )
        # fmt: on
    return package


def build_twice(out: Path, is_quick: bool = False) -> Path:
    """Builds the package twice, in different folders. Raises RecipeError if the files differ."""
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
    """The permissions of LICENSE, without its title and the line of its holders."""
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
