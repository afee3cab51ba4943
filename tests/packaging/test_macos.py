"""The package for macOS: description, icon, launcher, what is signed, and the archive that keeps links."""

from __future__ import annotations

import os
import plistlib
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from recipe import macos as signing
from recipe.macos import ENTITLEMENTS, build_package, complete_bundle, sign, signed_parts
from recipe.source import RecipeError


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The app, with a stand-in for the program's folder."""
    contents = tmp_path / "Ammeter.app" / "Contents"
    programs = contents / "Resources" / "program" / "python" / "bin"
    programs.mkdir(parents=True)
    (programs / "python3.12").write_bytes(b"\xcf\xfa\xed\xfe")
    (programs / "python3.12").chmod(0o755)
    (programs / "python3").symlink_to("python3.12")
    launcher = contents / "Resources" / "program" / "ammeter"
    launcher.write_text('#!/bin/sh\necho "$@"\n')
    launcher.chmod(0o755)
    return complete_bundle(contents)


def test_the_description_names_the_file_type_that_the_program_opens(bundle: Path) -> None:
    content = plistlib.loads((bundle / "Contents" / "Info.plist").read_bytes())
    (opened,) = content["CFBundleDocumentTypes"]
    (declared,) = content["UTExportedTypeDeclarations"]
    assert opened["LSItemContentTypes"] == [declared["UTTypeIdentifier"]]
    assert declared["UTTypeTagSpecification"]["public.filename-extension"] == ["ammeter"]
    assert content["NSHighResolutionCapable"]
    for name in (content["CFBundleIconFile"], opened["CFBundleTypeIconFile"]):
        assert (bundle / "Contents" / "Resources" / name).is_file()


def test_the_icon_has_all_sizes_up_to_that_of_retina_displays(bundle: Path) -> None:
    with Image.open(bundle / "Contents" / "Resources" / "ammeter.icns") as icon:
        assert {(16, 16, 2), (32, 32, 2), (128, 128, 1), (512, 512, 2)} <= set(icon.info["sizes"])


def test_finder_starts_the_program_s_own_launcher(bundle: Path) -> None:
    name = plistlib.loads((bundle / "Contents" / "Info.plist").read_bytes())["CFBundleExecutable"]
    done = subprocess.run(
        [bundle / "Contents" / "MacOS" / name, "a run.ammeter"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "a run.ammeter\n"


def test_programs_are_signed_and_links_to_them_are_not(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [path.name for path in signed_parts(bundle)] == ["python3.12"]
    rights = plistlib.loads(ENTITLEMENTS.read_bytes())
    assert rights["com.apple.security.cs.disable-library-validation"] is True
    monkeypatch.setenv(signing.IDENTITY, "Developer ID Application: A tester")
    with pytest.raises(RecipeError, match="can only be signed on macOS"):
        sign(bundle)


def test_the_archive_keeps_links_and_programs(bundle: Path, tmp_path: Path) -> None:
    package = build_package(bundle, tmp_path / "out")
    place = "Ammeter.app/Contents/Resources/program/python/bin"
    with zipfile.ZipFile(package) as archive:
        link = archive.getinfo(f"{place}/python3")
        assert stat.S_ISLNK(link.external_attr >> 16)
        assert archive.read(link) == os.fsencode("python3.12")
        program = archive.getinfo(f"{place}/python3.12")
        assert program.external_attr >> 16 & 0o111
        assert program.compress_type == zipfile.ZIP_DEFLATED
