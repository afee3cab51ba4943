"""Fetching wheels: what breaks off is resumed, what is wrong is refused, what stays wrong has a remedy."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.experiment.paths import part_path
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.installation.control import Control, Stopped
from engine.installation.download import Downloads
from engine.installation.request import Fetched, InstallRequest, Plan, Source, Wheel
from tests.wheel_index import Fault, OfficialIndexes, WheelIndex

TORCH = "torch-2.15.0-py3-none-any.whl"
HALF = 1_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "downloads"


def plan_of(address: str, wheels: Path, *, has_hashes: bool = True) -> Plan:
    """A plan of the stand-in for torch alone."""
    content = (wheels / TORCH).read_bytes()
    sha256 = hashlib.sha256(content).hexdigest() if has_hashes else None
    wheel = Wheel("torch", "2.15.0", TORCH, f"{address}/packages/{TORCH}", len(content), sha256)
    return Plan(InstallRequest(source=Source(mirror=address)), "cpu", "2.15.0", (wheel,), wheels, 0, 0, 0)


def fetch(plan: Plan, folder: Path, control: Control | None = None) -> Iterator[Fetched]:
    return Downloads(plan, folder, control or Control()).fetch()


def failure(plan: Plan, folder: Path) -> Problem:
    with pytest.raises(ProblemError) as failed:
        list(fetch(plan, folder))
    return failed.value.problem


def begins(index: WheelIndex) -> list[int | None]:
    """From which byte on torch was asked for, each time."""
    return [request.first_byte for request in index.requests if request.path.endswith(TORCH)]


@pytest.mark.parametrize("has_hashes", [True, False])
def test_a_cut_connection_is_told_and_resumed(index, wheels, folder, has_hashes):
    index.order(Fault(cut_after=HALF, times=1))
    events = list(fetch(plan_of(index.address, wheels, has_hashes=has_hashes), folder))
    assert "The connection to 127.0.0.1 was lost. Trying again." in {event.retry for event in events}
    assert begins(index) == [None, HALF]
    assert events[-1].done_bytes == events[-1].total_bytes
    assert (folder / TORCH).read_bytes() == (wheels / TORCH).read_bytes()


def test_a_server_without_ranges_sends_the_whole_file(index: WheelIndex, wheels: Path, folder: Path) -> None:
    index.order(Fault(cut_after=HALF, times=1))
    index.order(Fault(ignores_ranges=True))
    list(fetch(plan_of(index.address, wheels), folder))
    assert begins(index) == [None, HALF]
    assert (folder / TORCH).read_bytes() == (wheels / TORCH).read_bytes()


def test_what_an_earlier_attempt_left_is_resumed(index: WheelIndex, wheels: Path, folder: Path) -> None:
    folder.mkdir()
    part_path(folder / TORCH).write_bytes((wheels / TORCH).read_bytes()[:HALF])
    list(fetch(plan_of(index.address, wheels), folder))
    list(fetch(plan_of(index.address, wheels), folder))
    assert begins(index) == [HALF]
    assert [path.name for path in folder.iterdir()] == [TORCH]


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_an_earlier_attempt_left_of_another_file_is_replaced(index, wheels, folder, is_whole):
    folder.mkdir()
    whole = folder / TORCH
    (whole if is_whole else part_path(whole)).write_bytes(b"another build" * 1000)
    list(fetch(plan_of(index.address, wheels), folder))
    assert whole.read_bytes() == (wheels / TORCH).read_bytes()


def test_a_wheel_of_the_users_folder_is_used_there_and_never_touched(wheels: Path, folder: Path) -> None:
    plan = plan_of("", wheels)
    wheel = replace(plan.wheels[0], address=(wheels / TORCH).as_uri())
    list(fetch(replace(plan, wheels=(wheel,)), folder))
    assert not list(folder.iterdir())
    (wheels / TORCH).write_bytes(b"half")
    assert "is incomplete" in failure(replace(plan, wheels=(wheel,)), folder).message
    assert (wheels / TORCH).read_bytes() == b"half"


def test_a_wrong_hash_is_fetched_once_more_and_then_refused(index, wheels, folder):
    plan = plan_of(index.address, wheels)
    garbled = index.order(Fault(garbles=True, times=1))
    list(fetch(plan, folder))
    (folder / TORCH).unlink()
    garbled.times = None
    assert "SHA-256" in failure(plan, folder).message
    assert begins(index) == [None] * 4
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("status", "sentence"),
    [(403, "127.0.0.1 denied access"), (404, f"{TORCH} is not at 127.0.0.1"), (410, "is not at")],
)
def test_an_answer_that_stays_the_same_is_not_tried_again(index, wheels, folder, status, sentence):
    index.order(Fault(status=status))
    problem = failure(plan_of(index.address, wheels), folder)
    assert problem.kind is Kind.DOWNLOAD
    assert sentence in problem.message
    assert len(begins(index)) == 1


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "target",
    ["http://[::1", "ftp://127.0.0.1/x", f"http://{'a' * 300}.example/x", "http://127.0.0.1:70000/x"],
    ids=["IPv6", "FTP", "name", "port"],
)
@pytest.mark.parametrize("status", [302, 308])
def test_a_redirection_to_no_address_is_not_followed(index, wheels, folder, target, status):
    index.order(Fault(status=status, headers={"Location": target}))
    problem = failure(plan_of(index.address, wheels), folder)
    assert problem.message == "127.0.0.1 returned an address that cannot be used."
    assert problem.kind is Kind.DOWNLOAD


def test_a_redirection_to_an_address_is_followed(index: WheelIndex, wheels: Path, folder: Path) -> None:
    index.order(Fault(status=302, headers={"Location": f"../packages/{TORCH}"}, times=1))
    list(fetch(plan_of(index.address, wheels), folder))
    assert begins(index) == [None, None]
    assert (folder / TORCH).read_bytes() == (wheels / TORCH).read_bytes()


def test_a_pause_leaves_the_line_and_going_on_takes_it_up_there(index, wheels, folder):
    """The server is silent after half the file, so that a thread waits for it."""
    silence, control = threading.Event(), Control()
    index.order(Fault(cut_after=HALF, held=silence, times=1))
    events = fetch(plan_of(index.address, wheels), folder, control)
    while next(events).done_bytes < HALF:
        pass
    control.pause()
    threading.Timer(0.3, control.resume).start()
    assert list(events)[-1].done_bytes == (wheels / TORCH).stat().st_size
    assert begins(index) == [None, HALF]


def test_a_stop_ends_the_wait_for_a_silent_server(index: WheelIndex, wheels: Path, folder: Path) -> None:
    control = Control()
    index.order(Fault(cut_after=HALF, held=threading.Event()))
    events = fetch(plan_of(index.address, wheels), folder, control)
    while next(events).done_bytes < HALF:
        pass
    control.stop()
    with pytest.raises(Stopped):
        next(events)
    assert part_path(folder / TORCH).stat().st_size == HALF


def test_a_full_disk_is_told(index: WheelIndex, wheels: Path, folder: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs a disk that is always full")
    folder.mkdir()
    part_path(folder / TORCH).symlink_to("/dev/full")
    problem = failure(plan_of(index.address, wheels), folder)
    assert problem.kind is Kind.DISK_FULL
    assert str(folder) in problem.message


def test_proxies_and_certificates_are_those_of_the_environment(wheels, folder, tmp_path, monkeypatch):
    plan = plan_of("https://wheels.example", wheels)
    with OfficialIndexes(wheels) as official:
        for name, value in official.environment(tmp_path).items():
            monkeypatch.setenv(name, value)
        list(fetch(plan, folder))
        (folder / TORCH).unlink()
        official.is_trusted = False
        assert "certificate of wheels.example is not trusted" in failure(plan, folder).message
        official.needs_password = True
        assert "NAME:PASSWORD@HOST" in failure(plan, folder).remedy
