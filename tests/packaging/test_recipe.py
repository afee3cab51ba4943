"""Parts of the recipe that need no build: the interpreter's copy, and reproducible bytes."""

from __future__ import annotations

import os
import plistlib
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from engine.worker.keeper import SCRIPTS_PATH
from engine.worker.script.places import USER_SITE
from recipe import macos as signing
from recipe.interpreter import copy_interpreter
from recipe.macos import ENTITLEMENTS, build_package, complete_bundle, sign, signed_parts
from recipe.source import RecipeError, Target, settle
from recipe.tree import LAUNCHER

LIBRARY = "lib/python3.12"


def target(python: Path) -> Target:
    return Target("macos", "macos", "arm64", python)


def interpreter(folder: Path) -> Path:
    """The files of an interpreter that matter to its copy."""
    files = ("bin/python3.12", "bin/pip", "include/python3.12/Python.h", "lib/libpython3.12.a")
    library = (
        "os.py",
        "test/test_os.py",
        "tkinter/__init__.py",
        "unittest/case.py",
        "site-packages/pip/__init__.py",
    )
    for name in (*files, *(f"{LIBRARY}/{each}" for each in library), f"{LIBRARY}/lib-dynload/readline.so"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n")
    (folder / LIBRARY / "_sysconfigdata_.py").write_text(f"prefix = '{folder}'\n")
    return folder


def test_a_copied_interpreter_has_what_torch_needs_and_no_more(tmp_path: Path) -> None:
    source = interpreter(tmp_path / "python")
    copy_interpreter(target(source), tmp_path / "tree")
    copied = {str(path.relative_to(tmp_path / "tree/python")) for path in (tmp_path / "tree").rglob("*.*")}
    assert {"bin/python3.12", "include/python3.12/Python.h", f"{LIBRARY}/os.py"} <= copied
    assert f"{LIBRARY}/unittest/case.py" in copied
    left_out = ("bin/pip", "/test/", "tkinter", "readline.so", "site-packages", "libpython3.12.a")
    assert not [name for name in copied if any(word in name for word in left_out)]
    assert str(source) not in (tmp_path / "tree/python" / LIBRARY / "_sysconfigdata_.py").read_text()


def test_the_systems_own_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="--managed-python"):
        copy_interpreter(target(Path("/usr")), tmp_path / "tree")


def test_a_folder_without_an_interpreter_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=str(tmp_path)):
        _ = target(tmp_path).python_version


def test_two_folders_that_were_made_at_other_times_pack_to_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    packed = []
    for name, mode in (("first", 0o600), ("second", 0o664)):
        folder = tmp_path / name
        (folder / "sub").mkdir(parents=True)
        for file in ("b", "a", "sub/c") if name == "first" else ("sub/c", "a", "b"):
            (folder / file).write_text(file)
            (folder / file).chmod(mode)
        settle(folder)
        command = ["tar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-c", "."]
        packed.append(subprocess.run(command, cwd=folder, capture_output=True, check=True, timeout=30).stdout)
    assert packed[0] == packed[1]


@pytest.mark.parametrize("own", ["", "1"])
def test_a_launcher_keeps_the_users_python_settings_for_scripts(tmp_path: Path, own: str) -> None:
    launcher, interpreter = tmp_path / "ammeter", tmp_path / "python" / "bin" / "python3"
    interpreter.parent.mkdir(parents=True)
    for path, text in ((launcher, LAUNCHER), (interpreter, "#!/bin/sh\nenv\n")):
        path.write_text(text)
        path.chmod(0o755)
    settings = {"PYTHONPATH": "src:/lib", "PYTHONNOUSERSITE": own}
    lines = subprocess.check_output([launcher], env=os.environ | settings, text=True).splitlines()
    seen = dict(line.split("=", 1) for line in lines if line.startswith(("PYTHON", "AMMETER_SCRIPTS")))
    expected = {"PYTHONNOUSERSITE": "1", SCRIPTS_PATH: "src:/lib"} | ({} if own else {USER_SITE: "1"})
    assert {name: seen.get(name) for name in ("PYTHONPATH", *expected)} == {"PYTHONPATH": None, **expected}
    assert (USER_SITE in seen) is not bool(own)


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
