"""The desktop integration, as read by the desktop's own tools."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from engine.cli.app import VERBS
from engine.export.archive import ARCHIVE_SUFFIX
from recipe.desktop import write_desktop
from recipe.icon import APP, icon_image
from recipe.single_file import packed, write_manifest


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    share = tmp_path_factory.mktemp("usr") / "share"
    write_desktop(share)
    return share


def test_the_entry_opens_the_type_that_the_archives_have(share: Path) -> None:
    entry = (share / f"applications/{APP}.desktop").read_text()
    kind = ElementTree.parse(share / f"mime/packages/{APP}.xml").find("{*}mime-type")
    assert kind is not None
    assert f"MimeType={kind.attrib['type']};" in entry
    assert [glob.attrib["pattern"] for glob in kind.findall("{*}glob")] == [f"*{ARCHIVE_SUFFIX}"]


@pytest.mark.parametrize(
    ("tool", "arguments", "path"),
    [
        ("desktop-file-validate", (), f"applications/{APP}.desktop"),
        ("appstreamcli", ("validate", "--no-net"), f"metainfo/{APP}.metainfo.xml"),
    ],
)
def test_the_desktops_tools_accept_it(share, program, tool, arguments, path):
    done = subprocess.run(
        [program(tool), *arguments, share / path], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_manual_page_names_every_verb(share: Path) -> None:
    page = gzip.decompress((share / "man/man1/ammeter.1.gz").read_bytes()).decode()
    assert [line.split()[1] for line in page.splitlines() if line.startswith(".SS")] == list(VERBS)


def test_the_icon_has_a_tile_behind_the_logo() -> None:
    image = icon_image(64)
    assert image.pixelColor(0, 0).alpha() == 0
    assert image.pixelColor(10, 32).alpha() == 255


def test_the_flatpaks_manifest_names_the_archive_and_the_programs_id(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, "ammeter.tar.xz", "0" * 64)
    assert f"id: {APP}\n" in manifest.read_text()
    if shutil.which("flatpak-builder") is None:
        pytest.skip("flatpak-builder is not installed")
    command = ["flatpak-builder", "--show-manifest", manifest]
    # it makes a folder of its own where it is started
    read = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path
    ).stdout
    source = json.loads(read)["modules"][0]["sources"][0]
    assert (source["path"], source["sha256"]) == ("ammeter.tar.xz", "0" * 64)


pytestmark = pytest.mark.skipif(shutil.which("xz") is None, reason="xz is not installed")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The packed stand-in of a program that says where it is and what it was asked."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "ammeter").write_text('#!/bin/sh\necho "$0" "$@"\n')
    (tree / "ammeter").chmod(0o755)
    write_desktop(tree / "share")
    content = packed(tree, tmp_path / "packed", level=0)
    assert packed(tree, tmp_path / "again", level=0) == content
    made = tmp_path / "Ammeter.run"
    made.write_bytes(content)
    made.chmod(0o755)
    return made


def started(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    home = file.parent / "home"
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    return subprocess.run(
        [file, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_it_unpacks_once_and_passes_its_arguments_on(file: Path) -> None:
    first, second = started(file, "runs", "a b"), started(file, "runs")
    assert first.stdout.endswith("/ammeter runs a b\n")
    assert "Unpacking" in first.stderr
    assert second.stdout.endswith("/ammeter runs\n")
    assert not second.stderr


def test_a_damaged_file_unpacks_nothing(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])
    done = started(file)
    assert done.returncode == 1
    assert "download it again" in done.stderr
    assert not list(file.parent.glob("home/**/ammeter"))


def test_what_it_installs_it_removes_and_the_users_data_stay(file: Path) -> None:
    data = file.parent / "home/.local/share"
    (data / "ammeter").mkdir(parents=True)
    (data / "ammeter/runs.sqlite").write_text("runs")
    assert started(file, "--install").returncode == 0
    entry = (data / f"applications/{APP}.desktop").read_text()
    assert f'Exec="{data}/ammeter-program/' in entry
    assert (data.parent / "bin/ammeter").exists()
    assert started(file, "--remove").returncode == 0
    assert not [*data.rglob("org.ammeter.*.desktop"), *data.rglob("*.png"), *data.glob("ammeter-program")]
    assert (data / "ammeter/runs.sqlite").exists()
    assert not (data.parent / "bin/ammeter").is_symlink()
