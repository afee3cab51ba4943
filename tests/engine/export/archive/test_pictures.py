"""Images travel with their runs, each sheet once. An invalid sheet is refused with the archive."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.problem import ProblemError
from engine.export.archive.container import MANIFEST
from engine.export.archive.reader import import_archive
from engine.protocol.events import Pictures
from engine.protocol.pictures import ContactSheet, patterns, sheet_of
from engine.store.store import Store

Write = Callable[..., Path]
SHEET = sheet_of(patterns(30))
NAME = f"pictures/{SHEET.key}.jpg"


@pytest.fixture
def ended(store: Store) -> list[str]:
    """The ids of three runs that ended, oldest first; the first two have pictures, the same ones."""
    ids = [run.id for run in reversed(store.runs()) if run.status.is_over]
    for run_id in ids[:2]:
        store.record(run_id, [Pictures(jpeg=SHEET.jpeg, side=SHEET.side, count=SHEET.count)])
    return ids


def changed(path: Path, change: Callable[[dict[str, Any], dict[str, bytes]], object]) -> Path:
    """The archive after a change of its list of contents and its parts; the checksums are right."""
    with zipfile.ZipFile(path) as opened:
        parts = {name: opened.read(name) for name in opened.namelist()}
    manifest = json.loads(parts.pop(MANIFEST))
    change(manifest, parts)
    for file in manifest["files"]:
        data = parts.get(file["name"], b"")
        file.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in {**parts, MANIFEST: json.dumps(manifest).encode()}.items():
            opened.writestr(name, data)
    return path


def test_pictures_arrive_with_their_runs_and_lie_in_the_archive_once(
    store: Store, other: Store, ended: list[str], write: Write
) -> None:
    path = write(store, *ended)
    with zipfile.ZipFile(path) as opened:
        assert [name for name in opened.namelist() if name.startswith("pictures/")] == [NAME]
        assert opened.read(NAME) == SHEET.jpeg
    assert len(import_archive(other, path).added) == 3
    assert [other.pictures([run_id]) for run_id in ended] == [SHEET, SHEET, None]
    assert write(other, *ended, name="again.zip").read_bytes() == path.read_bytes()


def test_a_run_that_is_here_without_pictures_is_the_same_run(
    store: Store, other: Store, ended: list[str], write: Write
) -> None:
    first = ended[0]
    with store._connection.writing() as connection:
        connection.execute("UPDATE runs SET pictures = NULL WHERE id = ?", (first,))
    import_archive(other, write(store, first))
    store.record(first, [Pictures(jpeg=SHEET.jpeg, side=SHEET.side, count=SHEET.count)])
    assert [run.id for run in import_archive(other, write(store, first)).already_here] == [first]


def test_a_damaged_sheet_keeps_no_run_from_leaving(
    store: Store, other: Store, ended: list[str], write: Write
) -> None:
    with store._connection.writing() as connection:
        connection.execute("UPDATE pictures SET jpeg = x'FFD8'")
    assert len(import_archive(other, write(store, *ended)).added) == 3
    assert other.pictures(ended) is None


def _another_sheet(manifest: dict[str, Any], parts: dict[str, bytes]) -> None:
    parts[NAME] = sheet_of(patterns(29)).jpeg


def _no_jpeg(manifest: dict[str, Any], parts: dict[str, bytes]) -> None:
    broken = ContactSheet(SHEET.jpeg[:-400], SHEET.side, SHEET.count)
    del parts[NAME]
    name = f"pictures/{broken.key}.jpg"
    parts[name] = broken.jpeg
    manifest["files"][-1]["name"], manifest["pictures"][0]["key"] = name, broken.key
    for record in [name for name in parts if name.endswith("record.json")][:2]:
        parts[record] = parts[record].replace(SHEET.key.encode(), broken.key.encode())


def _of_no_run(manifest: dict[str, Any], parts: dict[str, bytes]) -> None:
    for name in [name for name in parts if name.endswith("record.json")]:
        parts[name] = parts[name].replace(f'"{SHEET.key}"'.encode(), b"null")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_another_sheet, "not the listed sheet"),
        (_no_jpeg, "contains invalid images"),
        (_of_no_run, "contains images that belong to none"),
        (lambda manifest, parts: parts.pop(NAME), f"does not contain its part {NAME}"),
        (lambda manifest, parts: parts.update({NAME: bytes(2**20)}), "would unpack to more than its"),
        (lambda manifest, parts: parts.update({f"pictures/{'0' * 64}.jpg": b""}), "contains unlisted parts"),
        (lambda manifest, parts: parts.update({"pictures/../x.jpg": b""}), "does not belong in an archive"),
        (lambda manifest, parts: manifest["pictures"][0].update(side=4_000), "pictures.0.side"),
        (lambda manifest, parts: manifest["pictures"][0].update(count=29), "not the listed sheet"),
        (lambda manifest, parts: manifest["pictures"].append(manifest["pictures"][0]), "named twice"),
        (lambda manifest, parts: manifest.update(pictures=[]), "its list of parts"),
    ],
)
def test_pictures_that_cannot_be_are_refused(
    store: Store, other: Store, ended: list[str], write: Write, change: Any, said: str
) -> None:
    path = changed(write(store, *ended), change)
    with pytest.raises(ProblemError) as raised:
        import_archive(other, path)
    problem = raised.value.problem
    assert said in problem.message and problem.message.isprintable()
    assert "Nothing was imported." in problem.remedy
    assert other.runs() == () and other._connection.read("SELECT 1 FROM pictures") == []
