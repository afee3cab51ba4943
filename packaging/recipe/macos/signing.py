"""Signs Ammeter.app and has Apple notarize it, where the environment names who does; only on macOS."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from recipe.source import RecipeError, run

IDENTITY, PROFILE = "AMMETER_MACOS_IDENTITY", "AMMETER_MACOS_NOTARY_PROFILE"
"""The environment's names of a "Developer ID Application: ..." and of a profile of notarytool's keychain."""
ENTITLEMENTS = Path(__file__).with_name("entitlements.plist")
_MACHO = (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""The first bytes of programs and libraries, for one processor and for several."""


def sign(bundle: Path) -> None:
    """Signs all that is executed in the bundle, the inner parts first, with the hardened runtime.

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
    """Has Apple notarize the signed disk image and attaches its word. Raises RecipeError."""
    profile = os.environ.get(PROFILE)
    if not profile:
        print(f"Not notarized, as {PROFILE} names no profile: {package.name}")
        return
    run("xcrun", "notarytool", "submit", package, "--keychain-profile", profile, "--wait")
    run("xcrun", "stapler", "staple", package)


def signed_parts(bundle: Path) -> list[Path]:
    """The programs and libraries in the bundle, the deepest first."""
    parts = [path for path in bundle.rglob("*") if _is_macho(path)]
    return sorted(parts, key=lambda path: len(path.parts), reverse=True)


def _is_macho(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) in _MACHO
