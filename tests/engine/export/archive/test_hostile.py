"""An archive is a file from anywhere: it is imported as it was exported, or refused with nothing changed."""

from __future__ import annotations

import hashlib
import json
import random
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code
from engine.experiment.problem import Kind, ProblemError
from engine.export.archive import container
from engine.export.archive.container import MANIFEST
from engine.export.archive.reader import import_archive, read_archive
from engine.store.saved.whole_runs import fingerprint
from engine.store.store import Store

Parts = dict[str, bytes]
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store that stays empty all through these tests."""
    with Store(tmp_path_factory.mktemp("other") / "ammeter.sqlite") as opened:
        yield opened


@pytest.fixture
def archive(exported: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "runs.zip"
    path.write_bytes(exported)
    return path


def refusal(other: Store, path: Path) -> str:
    """The sentence that the import is refused with, which leaves the store as it was."""
    with pytest.raises(ProblemError) as raised:
        import_archive(other, path)
    problem = raised.value.problem
    assert problem.kind is Kind.REQUEST and problem.message.isprintable() and len(problem.message) < 500
    assert "Nothing was imported." in problem.remedy
    assert other.runs() == () and other.comparisons() == ()
    return problem.message


def parts_of(path: Path) -> Parts:
    with zipfile.ZipFile(path) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def packed(path: Path, parts: Parts) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in parts.items():
            opened.writestr(name, data)
    return path


def doctored(path: Path, parts: Parts) -> Path:
    """The parts as an archive whose list of contents is right about them."""
    manifest = json.loads(parts[MANIFEST])
    for file in manifest["files"]:
        data = parts[file["name"]]
        file.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    return packed(path, {**parts, MANIFEST: json.dumps(manifest).encode()})


def first(parts: Parts, ending: str) -> str:
    return next(name for name in parts if name.endswith(ending))


def with_json(data: bytes, change: Change) -> bytes:
    tree = json.loads(data)
    change(tree)
    return json.dumps(tree).encode()


@pytest.mark.parametrize(
    "name",
    [
        "../outside.txt",
        "/etc/passwd",
        "C:\\windows\\win.ini",
        "runs/../../outside/record.json",
        "runs/0123456789ab/extra.pkl",
        "runs/0123456789AB/record.json",
        "readme\x1b[2J.txt",
        "runs/0123456789ab/",
    ],
)
def test_names_that_are_no_part_are_refused(other: Store, archive: Path, tmp_path: Path, name: str) -> None:
    path = packed(tmp_path / "changed.zip", {**parts_of(archive), name: b"x"})
    message = refusal(other, path)
    assert "does not belong in an archive" in message
    assert not (tmp_path / "outside.txt").exists()


OWN_TEXT = Code(file="net.py", folder="/there", text="def model(): ...\n").to_json()


@pytest.mark.parametrize(
    ("model", "code"),
    [
        ("/some/where/net.py", None),
        ("net.py:Net", None),
        (r"\\host\share\net.py", None),
        ("/some/where/net.py", OWN_TEXT),
        ("other.py", OWN_TEXT),
    ],
)
def test_a_models_file_without_its_text_is_refused(
    other: Store, archive: Path, tmp_path: Path, model: str, code: str | None
) -> None:
    parts = parts_of(archive)
    name = first(parts, "record.json")
    lacking = with_json(parts[name], lambda tree: tree["experiment"].update(model=model, code=code))
    path = doctored(tmp_path / "changed.zip", {**parts, name: lacking})
    assert "its model is a file whose text is missing" in refusal(other, path)
    name = next(name for name, data in parts.items() if b'"event":"started"' in data)
    start, rest = parts[name].split(b"\n", 1)
    line = with_json(start, lambda tree: tree["experiment"].update(model=model, code=code))
    path = doctored(tmp_path / "changed.zip", {**parts, name: line + b"\n" + rest})
    assert "its model is a file whose text is missing" in refusal(other, path)


@pytest.mark.parametrize("ending", ["record.json", "events.jsonl", "samples.f8", MANIFEST])
def test_a_missing_or_a_changed_part_is_named(
    other: Store, archive: Path, tmp_path: Path, ending: str
) -> None:
    parts = parts_of(archive)
    name = first(parts, ending)
    data = parts.pop(name)
    assert name in refusal(other, packed(tmp_path / "lacking.zip", parts))
    if ending != MANIFEST:
        parts[name] = data[:-1] + bytes([data[-1] ^ 1])
        message = refusal(other, packed(tmp_path / "changed.zip", parts))
        assert "checksum" in message and name in message


def newer(data: bytes) -> bytes:
    return with_json(data, lambda tree: tree.update(format=3, new_part={}))


@pytest.mark.parametrize(
    ("change", "is_listed", "words"),
    [
        (lambda parts: {"runs/0123456789ab/record.json": b"{}"}, False, "contains unlisted parts"),
        (
            lambda parts: {MANIFEST: newer(parts[MANIFEST])},
            False,
            "a newer Ammeter (format 3, this one reads 2)",
        ),
        (lambda parts: {first(parts, "samples.f8"): bytes(32 * 2**20)}, True, "would unpack to"),
        (lambda parts: {first(parts, "record.json"): bytes(9 * 2**20)}, True, "more than its 8 MiB limit"),
    ],
)
def test_what_an_archive_may_not_hold_is_refused_before_it_is_unpacked(
    other: Store,
    archive: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Parts], Parts],
    is_listed: bool,
    words: str,
) -> None:
    parts = parts_of(archive)
    path = (doctored if is_listed else packed)(archive, {**parts, **change(parts)})
    if is_listed:
        monkeypatch.setattr(container.Container, "read", lambda *_: pytest.fail("it was unpacked"))
    assert words in refusal(other, path)


@pytest.mark.parametrize(("is_link", "words"), [(True, "link"), (False, "more than once")])
def test_a_link_and_a_second_part_of_a_name_are_refused(
    other: Store, archive: Path, is_link: bool, words: str
) -> None:
    parts = parts_of(archive)
    info = zipfile.ZipInfo(first(parts, "record.json"))
    if is_link:
        del parts[info.filename]
        packed(archive, parts)
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(archive, "a") as opened, warnings.catch_warnings(action="ignore"):
        opened.writestr(info, "/etc/passwd")
    assert words in refusal(other, archive)


def test_a_size_that_is_a_lie_is_refused(other: Store, archive: Path) -> None:
    parts = parts_of(archive)
    name = first(parts, "samples.f8")
    data = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as opened:
        told = opened.getinfo(name).file_size
    # the size stands before the name in the list of contents: 24 bytes into an entry of 46
    entry = data.rindex(name.encode()) - 46
    assert struct.unpack_from("<L", data, entry + 24) == (told,)
    for lie in (8, told * 100):
        struct.pack_into("<L", data, entry + 24, lie)
        archive.write_bytes(data)
        assert name in refusal(other, archive)


def test_a_list_of_contents_longer_than_any_is_refused(other: Store, archive: Path) -> None:
    data = bytearray(archive.read_bytes())
    struct.pack_into("<HH", data, len(data) - 14, 60_000, 60_000)
    archive.write_bytes(data)
    assert "runs that an archive can have" in refusal(other, archive)


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree.update(id="0123456789ab"),
        lambda tree: tree.update(status="flying"),
        lambda tree: tree.update(created="0001-01-01T00:00:00Z"),
        lambda tree: tree.update(started="yesterday"),
        lambda tree: tree.update(name="x" * 20_000),
        lambda tree: tree.update(name="\x1b[2J"),
        lambda tree: tree.update(tags=["two, tags"]),
        lambda tree: tree.update(tags=["x" * 41]),
        lambda tree: tree.update(note="\x1b[2J"),
        lambda tree: tree.update(note="x" * 10_001),
        lambda tree: tree.update(comparison="0123456789ab"),
        lambda tree: tree.update(total_steps=2**70),
        lambda tree: tree.update(total_steps=-1),
        lambda tree: tree.update(unknown=1),
        lambda tree: tree["experiment"].update(batch_size=0),
        lambda tree: tree["experiment"].update(model="x" * 5_000),
        lambda tree: tree["summary"].update(steps=-1),
        lambda tree: tree["summary"].update(seconds="NaN"),
        lambda tree: tree.update(columns=["step", "step"]),
        lambda tree: tree.update(columns=["os.system"]),
        lambda tree: tree.update(rows=tree["rows"] + 1),
        lambda tree: tree.update(rows=0),
    ],
)
def test_a_record_that_cannot_be_is_refused(
    other: Store, archive: Path, tmp_path: Path, change: Change
) -> None:
    parts = parts_of(archive)
    name = first(parts, "record.json")
    parts[name] = with_json(parts[name], change)
    assert "contains an invalid run" in refusal(other, doctored(tmp_path / "changed.zip", parts))


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"[" * 100_000 + b"\n",
        b'{"event": "heartbeat", "step": 1}\n',
        b'{"event": "\\u001b[2J"}\n',
        b'{"event": "skipped", "steps": [1%s]}\n' % (b"0" * 4_000),
        b'{"event": "epoch", "epoch": 1, "step": -5, "seconds": 1.0, "train_loss": 1.0}\n',
        b'{"event": "epoch", "epoch": 1, "step": 5, "seconds": "Infinity", "train_loss": 1.0}\n',
        b'{"event": "log", "message": "\xff"}\n',
        b'{"event": "log", "message": "no end"}',
        b"\n",
    ],
)
def test_an_event_that_cannot_be_is_refused(other: Store, archive: Path, tmp_path: Path, line: bytes) -> None:
    parts = parts_of(archive)
    name = first(parts, "events.jsonl")
    parts[name] += line
    assert "contains an invalid run" in refusal(other, doctored(tmp_path / "changed.zip", parts))


@pytest.mark.parametrize("step", [0.0, 1.5, 2.0**60, float("nan"), float("inf"), 59.0])
def test_steps_that_do_not_count_upwards_are_refused(
    other: Store, archive: Path, tmp_path: Path, step: float
) -> None:
    parts = parts_of(archive)
    name = first(parts, "samples.f8")
    rows = 60
    parts[name] = parts[name][: 8 * (rows - 1)] + struct.pack("<d", step) + parts[name][8 * rows :]
    assert "samples.f8" in refusal(other, doctored(tmp_path / "changed.zip", parts))


@pytest.mark.parametrize("data", [b"", b"PK", b"hello" * 100, b"PK\x05\x06" + bytes(18)])
def test_what_is_no_archive_is_refused(other: Store, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "file.zip"
    path.write_bytes(data)
    assert "archive of runs" in refusal(other, path)


def test_a_folder_and_a_missing_file_are_refused(other: Store, tmp_path: Path) -> None:
    assert "could not be read" in refusal(other, tmp_path)
    assert "could not be read" in refusal(other, tmp_path / "none.zip")


def test_any_change_of_a_byte_is_refused_or_does_no_harm(store: Store, other: Store, write: Any) -> None:
    path = write(store, store.add(Experiment(), name="short").id, store.runs()[-1].id)
    whole, before = path.read_bytes(), [fingerprint(run) for run in read_archive(path)]
    draw = random.Random(5)
    for _ in range(300):
        data = bytearray(whole)
        match draw.randrange(4):
            case 0:
                del data[draw.randrange(len(data)) :]
            case 1:
                del data[draw.randrange(len(data))]
            case 2:
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            case 3:
                # the list of contents is where a byte does most
                data[-draw.randrange(1, 700)] = draw.randrange(256)
        path.write_bytes(data)
        try:
            found = read_archive(path)
        except ProblemError as error:
            assert error.problem.message.startswith("runs.zip ")
            continue
        assert [fingerprint(run) for run in found] == before
    assert other.runs() == ()
