"""The package for Windows: launchers, icon, PATH, and the installer where makensis is installed."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from engine.worker.keeper import SCRIPTS_PATH
from engine.worker.script.places import USER_SITE
from recipe import windows as signing
from recipe.source import RecipeError
from recipe.user_path import changed
from recipe.windows import build_installer, complete_tree


def is_there(*programs: str) -> bool:
    """Whether all these programs are installed."""
    return all(map(shutil.which, programs))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A program's folder for Windows, with a stand-in for the interpreter."""
    folder = tmp_path / "a program"
    (folder / "python").mkdir(parents=True)
    (folder / "python" / "python.exe").write_bytes(b"MZ")
    (folder / "licences").mkdir()
    (folder / "licences" / "LICENSE.txt").write_text("MIT")
    return folder


@pytest.mark.parametrize("own", ["", "1"])
@pytest.mark.parametrize(
    ("launcher", "interpreter", "subsystem"),
    [("Ammeter.exe", r"python\pythonw.exe", 2), ("bin/ammeter.exe", r"..\python\python.exe", 3)],
)
def test_a_launcher_starts_the_interpreter_beside_it(tree, launcher, interpreter, subsystem, own):
    complete_tree(tree)
    content = (tree / launcher).read_bytes()
    assert f"#!<launcher_dir>\\{interpreter} -E -s -P\r\n".encode() in content
    # of the PE header: 2 is a window's program, 3 the console's
    header = int.from_bytes(content[0x3C:0x40], "little")
    assert content[header : header + 4] == b"PE\0\0"
    assert int.from_bytes(content[header + 92 : header + 94], "little") == subsystem
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        main = archive.read("__main__.py").decode()
    (tree / "gui").mkdir()
    (tree / "gui" / "__init__.py").touch()
    names = ("PYTHONPATH", "PYTHONNOUSERSITE", SCRIPTS_PATH, USER_SITE)
    main_function = f"import os\ndef main(): return repr([os.environ.get(name) for name in {names}])"
    (tree / "gui" / "__main__.py").write_text(main_function)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tree)!r})\n{main}"],
        env={**os.environ, "PYTHONPATH": "/elsewhere", "PYTHONNOUSERSITE": own},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.strip() == repr([None, "1", "/elsewhere", None if own else "1"])


def test_the_icon_has_all_sizes_that_windows_shows(tree: Path) -> None:
    complete_tree(tree)
    with Image.open(tree / "ammeter.ico") as icon:
        assert {16, 24, 32, 48, 256} <= {width for width, _ in icon.info["sizes"]}


@pytest.mark.parametrize(
    ("path", "added"),
    [
        ("", r"C:\A\bin"),
        (r"%USERPROFILE%\x;C:\y", r"%USERPROFILE%\x;C:\y;C:\A\bin"),
        (r"C:\y;", r"C:\y;C:\A\bin"),
        (r"c:\a\BIN\;C:\y", r"C:\y;C:\A\bin"),
    ],
)
def test_a_folder_is_on_the_path_once_and_is_taken_off_again(path: str, added: str) -> None:
    assert changed(path, r"C:\A\bin", is_added=True) == added
    assert r"C:\A\bin".casefold() not in changed(added, r"C:\A\bin", is_added=False).casefold()


@pytest.mark.parametrize("name", ["x" * 170, "python/PYTHON.exe"])
def test_a_file_that_windows_cannot_hold_is_refused(tree: Path, name: str) -> None:
    (tree / name).touch()
    with pytest.raises(RecipeError, match="Windows"):
        complete_tree(tree)


@pytest.mark.skipif(not is_there("makensis"), reason="needs NSIS (apt install nsis)")
def test_the_installer_holds_the_program_and_two_are_the_same_bytes(tree, tmp_path, capsys):
    complete_tree(tree)
    first, second = (build_installer(tree, tmp_path / name) for name in ("first", "second"))
    assert first.name.endswith("-windows-x86_64.exe")
    assert first.read_bytes()[:2] == b"MZ"
    assert first.read_bytes() == second.read_bytes()
    assert f"Not signed, as {signing.CERTIFICATE} names no certificate" in capsys.readouterr().out
    if is_there("7z"):
        listed = subprocess.run(["7z", "l", first], capture_output=True, text=True, check=True).stdout
        for name in ("Ammeter.exe", "bin/ammeter.exe", "python/python.exe", "user_path.py", "uninstall.exe"):
            assert name in listed


@pytest.mark.skipif(not is_there("osslsigncode", "openssl"), reason="needs osslsigncode and openssl")
def test_programs_are_signed_with_the_certificate_that_the_environment_names(tree, tmp_path, monkeypatch):
    key, certificate, both = (str(tmp_path / name) for name in ("key.pem", "certificate.pem", "both.pfx"))
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=A tester"]
    pack = ["openssl", "pkcs12", "-export", "-passout", "pass:a secret", "-inkey", key]
    subprocess.run([*make, "-keyout", key, "-out", certificate], capture_output=True, check=True)
    subprocess.run([*pack, "-in", certificate, "-out", both], check=True)
    monkeypatch.setenv(signing.CERTIFICATE, both)
    monkeypatch.setenv(signing.PASSWORD, "wrong")
    with pytest.raises(RecipeError) as raised:
        complete_tree(tree)
    assert "wrong" not in str(raised.value)
    monkeypatch.setenv(signing.PASSWORD, "a secret")
    shutil.rmtree(tree / "bin")
    complete_tree(tree)
    done = subprocess.run(
        ["osslsigncode", "verify", "-CAfile", certificate, tree / "Ammeter.exe"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "A tester" in done.stdout
