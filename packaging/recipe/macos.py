"""Ammeter.app: the program's folder as a macOS bundle, signed if an identity is given."""

from __future__ import annotations

import os
import plistlib
import shutil
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

from engine import __version__
from recipe.icon import APP, icon_bitmap
from recipe.interpreter import begins_with, foreign_python
from recipe.source import RecipeError, Target, epoch, run, settle
from recipe.tree import build_tree

LEAST_SYSTEM = "14.0"
"""As PyTorch's and Qt's wheels ask for."""
_FILE_TYPE = f"{APP}.archive"
_ICON_SIDES = (16, 32, 64, 128, 256, 512)
_LAUNCHER = """\
#!/bin/sh
# Finder starts this; the program's own launcher keeps the user's Python out.
exec "${0%/*}/../Resources/program/ammeter" "$@"
"""


def build_macos(out: Path, python: Path | None = None) -> Path:
    """Build the package in the folder `out` and return its file. Raises RecipeError.

    `python` is the folder of an interpreter for macOS on Apple's processors; by default uv fetches one.
    """
    with tempfile.TemporaryDirectory(prefix="ammeter-macos-") as folder:
        python = python or foreign_python("macos-aarch64", Path(folder) / "interpreters")
        target = Target("macos", "macos", "arm64", python)
        contents = Path(folder) / "disk" / "Ammeter.app" / "Contents"
        contents.mkdir(parents=True)
        build_tree(target, contents / "Resources" / "program")
        return build_package(complete_bundle(contents), out)


def complete_bundle(contents: Path) -> Path:
    """Add description, icon and launcher to the program's folder; return the signed bundle."""
    (contents / "Info.plist").write_bytes(plistlib.dumps(description()))
    (contents / "PkgInfo").write_text("APPL????", encoding="ascii")
    launcher = contents / "MacOS" / "Ammeter"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER, encoding="utf-8")
    launcher.chmod(0o755)
    pictures = [icon_bitmap(side) for side in (*_ICON_SIDES, 2 * _ICON_SIDES[-1])]
    pictures[-1].save(contents / "Resources" / "ammeter.icns", append_images=pictures[:-1])
    settle(contents.parent)
    sign(contents.parent)
    return contents.parent


def build_package(bundle: Path, out: Path) -> Path:
    """Build a disk image with the bundle and a link to Applications; outside macOS, a zip archive."""
    out.mkdir(parents=True, exist_ok=True)
    name = f"ammeter-{__version__}-macos-arm64"
    if sys.platform != "darwin":
        return _zipped(bundle, out / f"{name}.zip")
    package = out / f"{name}.dmg"
    (bundle.parent / "Applications").symlink_to("/Applications")
    made_of = ("-volname", "Ammeter", "-srcfolder", bundle.parent, "-format", "UDZO")
    run("hdiutil", "create", "-ov", *made_of, package)
    notarize(package)
    return package


def description() -> dict[str, Any]:
    """Return the content of Info.plist."""
    return {
        "CFBundleIdentifier": APP,
        "CFBundleName": "Ammeter",
        "CFBundleDisplayName": "Ammeter",
        "CFBundleExecutable": "Ammeter",
        "CFBundleIconFile": "ammeter.icns",
        "CFBundlePackageType": "APPL",
        "CFBundleInfoDictionaryVersion": "6.0",
        "CFBundleShortVersionString": __version__,
        "CFBundleVersion": __version__,
        "LSMinimumSystemVersion": LEAST_SYSTEM,
        "LSApplicationCategoryType": "public.app-category.developer-tools",
        "LSArchitecturePriority": ["arm64"],
        "NSHighResolutionCapable": True,
        "NSHumanReadableCopyright": "MIT licence",
        "CFBundleDocumentTypes": [
            {
                "CFBundleTypeName": "Runs of Ammeter",
                "CFBundleTypeRole": "Viewer",
                "CFBundleTypeIconFile": "ammeter.icns",
                "LSHandlerRank": "Owner",
                "LSItemContentTypes": [_FILE_TYPE],
            }
        ],
        "UTExportedTypeDeclarations": [
            {
                "UTTypeIdentifier": _FILE_TYPE,
                "UTTypeDescription": "Runs of Ammeter",
                "UTTypeConformsTo": ["public.data", "public.archive"],
                "UTTypeIconFile": "ammeter.icns",
                "UTTypeTagSpecification": {
                    "public.filename-extension": ["ammeter"],
                    "public.mime-type": ["application/vnd.ammeter.archive+zip"],
                },
            }
        ],
    }


def _zipped(bundle: Path, package: Path) -> Path:
    """With links as links and programs as programs, which shutil's archives lose."""
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(bundle.rglob("*")):
            entry = zipfile.ZipInfo(path.relative_to(bundle.parent).as_posix(), time.gmtime(epoch())[:6])
            entry.create_system, entry.external_attr = 3, path.lstat().st_mode << 16
            entry.compress_type = archive.compression
            if path.is_symlink():
                archive.writestr(entry, str(path.readlink()))
            elif path.is_file():
                with path.open("rb") as file, archive.open(entry, "w") as packed:
                    shutil.copyfileobj(file, packed)
    return package


IDENTITY, PROFILE = "AMMETER_MACOS_IDENTITY", "AMMETER_MACOS_NOTARY_PROFILE"
"""The environment's names of a "Developer ID Application: ..." and of a profile of notarytool's keychain."""
ENTITLEMENTS = Path(__file__).with_name("entitlements.plist")
_MACHO = (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""The first bytes of programs and libraries, for one processor and for several."""


def sign(bundle: Path) -> None:
    """Sign all executables in the bundle, the innermost first, with the hardened runtime.

    Raises RecipeError.
    """
    identity = os.environ.get(IDENTITY)
    if not identity:
        print(f"Not signed, as {IDENTITY} names no identity: {bundle.name}")
        return
    if sys.platform != "darwin":
        raise RecipeError(f"{bundle.name} can only be signed on macOS: unset {IDENTITY}.")
    for path in (*signed_parts(bundle), bundle):
        run(
            *("codesign", "--force", "--timestamp", "--options", "runtime", "--sign", identity),
            *("--entitlements", ENTITLEMENTS, path),
        )
    run("codesign", "--verify", "--deep", "--strict", bundle)


def notarize(package: Path) -> None:
    """Have Apple notarize the signed disk image and attach the ticket. Raises RecipeError."""
    profile = os.environ.get(PROFILE)
    if not profile:
        print(f"Not notarized, as {PROFILE} names no profile: {package.name}")
        return
    run("xcrun", "notarytool", "submit", package, "--keychain-profile", profile, "--wait")
    run("xcrun", "stapler", "staple", package)


def signed_parts(bundle: Path) -> list[Path]:
    """Return the programs and libraries in the bundle, the deepest first."""
    parts = [path for path in bundle.rglob("*") if begins_with(path, *_MACHO)]
    return sorted(parts, key=lambda path: len(path.parts), reverse=True)
