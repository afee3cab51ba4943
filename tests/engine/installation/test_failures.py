"""What can go wrong with an installation by real uv, and the sentences that say it."""

from __future__ import annotations

import re
import shutil
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from engine.experiment.problem import Kind, ProblemError
from engine.installation.installed import CURRENT, installations_folder, sole
from engine.installation.installer import Installer
from engine.installation.request import InstallRequest, Planned, Source
from engine.installation.uv import explained, find_uv
from tests.engine.installation.conftest import useful, write_wheels
from tests.wheel_index import Fault, OfficialIndexes, stand_in_wheel

TORCH = "torch-2.15.0-py3-none-any.whl"


@dataclass
class Place:
    """Where it goes wrong."""

    wheels: Path
    engines: Path
    index: OfficialIndexes
    patch: pytest.MonkeyPatch
    wanted: InstallRequest

    def order(self, **fault: object) -> None:
        self.index.order(Fault(**fault))  # type: ignore[arg-type]

    def want(self, *extras: str, folder: Path | None = None, mirror: str | None = None) -> None:
        self.wanted = InstallRequest(source=Source(mirror, folder), extras=extras)

    def install(self, harm: Callable[[Place], object] = lambda _: None) -> None:
        """Install, and do harm once the plan is made."""
        for event in Installer(self.engines, useful).install(self.wanted):
            if isinstance(event, Planned):
                harm(self)


@pytest.fixture
def place(wheels: Path, engines: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with OfficialIndexes(wheels) as index:
        yield Place(wheels, engines, index, monkeypatch, InstallRequest(source=Source(mirror=index.simple)))


def behind_the_proxy(place: Place) -> None:
    for name, value in place.index.environment(place.engines.parent).items():
        place.patch.setenv(name, value)
    place.want()


def untrusted(place: Place) -> None:
    behind_the_proxy(place)
    place.index.is_trusted = False


def needs_password(place: Place) -> None:
    behind_the_proxy(place)
    place.index.needs_password = True


def refused_by_proxy(place: Place) -> None:
    behind_the_proxy(place)
    place.patch.setattr(place.index, "tls", lambda host: None)


def too_old(place: Place) -> None:
    shutil.rmtree(place.wheels)
    write_wheels(place.wheels, "2.9.0", 1)


def incomplete_folder(place: Place) -> None:
    next(place.wheels.glob("torchvision-*")).unlink()
    place.want(folder=place.wheels)


def no_room(place: Place) -> None:
    place.patch.setattr(shutil, "disk_usage", lambda path: namedtuple("Usage", "free")(5 * 2**20))


def blocked_pointer(place: Place) -> None:
    (place.engines / CURRENT).mkdir(parents=True)
    installations_folder(place.engines).mkdir()


Harm = Callable[[Place], object]
PLANNING: dict[str, tuple[Harm, str]] = {
    "no such host": (
        lambda place: place.want(mirror="http://nowhere.invalid/simple"),
        r"nowhere\.invalid cannot be reached\. Check the network and, behind a proxy, HTTPS_PROXY\. .*",
    ),
    "access to the index": (
        lambda place: place.order(path="/simple/", status=403),
        r"127\.0\.0\.1 denied access \(HTTP 403\)\. For a mirror, check its address .*",
    ),
    "the index fails": (
        lambda place: place.order(path="/simple/", status=500),
        r"127\.0\.0\.1 answered with HTTP 500\. Try again later, or choose a mirror .*",
    ),
    "no such package": (
        lambda place: place.want("nothing-like-it", mirror=place.index.simple),
        r"The package nothing-like-it is not in the mirror 127\.0\.0\.1\. Check the mirror's address.*",
    ),
    "too old": (
        too_old,
        r"No build of PyTorch in the mirror 127\.0\.0\.1 fits Python .* uv says: .*torch==2\.9\.0.*",
    ),
    "no such folder": (
        lambda place: place.want(folder=place.wheels / "gone"),
        r"The folder of wheels .*/gone cannot be read\. Check its name and your read permission\.",
    ),
    "incomplete folder": (
        incomplete_folder,
        r"The package torchvision is not in the folder .*\. Copy its wheel for Python .* into the folder\.",
    ),
    "certificate": (
        untrusted,
        r"The certificate of [a-z.]+ is not trusted, so nothing was downloaded\. .* SSL_CERT_FILE .*",
    ),
    "password of the proxy": (
        needs_password,
        r"The proxy requires a name and a password \(HTTP 407\)\. .*NAME:PASSWORD@HOST.*",
    ),
    "proxy": (refused_by_proxy, r"The proxy does not connect to [a-z.]+\. Ask the proxy's administrator .*"),
    "no room": (no_room, r"PyTorch needs [\d.]+ MiB, but only 5\.0 MiB are free at .*\. Free some space.*"),
    "pointer": (blocked_pointer, r"PyTorch cannot be written to .*: it is a folder\. Make the folder .*"),
    "no uv": (
        lambda place: place.patch.setenv("AMMETER_UV", str(place.wheels / "uv")),
        r"uv, which installs PyTorch, does not start: No such file or directory\. Reinstall Ammeter.*",
    ),
}


@pytest.mark.parametrize("case", PLANNING)
def test_a_failure_before_the_download_names_what_is_wrong(place: Place, case: str) -> None:
    harm, sentence = PLANNING[case]
    harm(place)
    assert re.fullmatch(sentence, told(place.install))
    assert not place.index.fetched()


def cut_wheel(place: Place) -> None:
    path = place.wheels / TORCH
    path.write_bytes(path.read_bytes()[:1_000_000])


FETCHING: dict[str, tuple[Harm, str]] = {
    "access": (
        lambda place: place.order(status=403),
        r"127\.0\.0\.1 denied access \(HTTP 403\)\. .*",
    ),
    "not there": (
        lambda place: place.order(path="torch-", status=404),
        rf"{re.escape(TORCH)} is not at 127\.0\.0\.1 \(HTTP 404\)\. Check the mirror's address.*",
    ),
    "server": (lambda place: place.order(status=503), r"127\.0\.0\.1 answered with HTTP 503\. .*"),
    "address": (
        lambda place: place.order(path="torch-", status=302, headers={"Location": "ftp://127.0.0.1/x"}),
        r"127\.0\.0\.1 returned an address that cannot be used\. Choose a mirror or a folder of wheels\.",
    ),
    "closed": (lambda place: place.order(refuses=True), r"127\.0\.0\.1 cannot be reached\. .*"),
    "cut": (
        lambda place: place.order(path="torch-", cut_after=1_000_000),
        r"The connection was lost while torch 2\.15\.0 was being downloaded\. .* packages are kept\. .*",
    ),
    "size": (
        lambda place: stand_in_wheel(place.wheels, "torch", "2.15.0"),
        r"The downloaded wheel of torch 2\.15\.0 does not match the index, so it was not installed\. .*",
    ),
    "hash": (
        lambda place: write_wheels(place.wheels, first=1),
        r"The downloaded wheel of torch 2\.15\.0 does not match the index, so it was not installed\. .*",
    ),
    "garbled": (
        lambda place: place.order(path="torch-", garbles=True),
        rf"{re.escape(TORCH)} cannot be unpacked: .*\. The wheel is damaged\. Try again, or choose .*",
    ),
}


@pytest.mark.parametrize("case", FETCHING)
def test_a_failure_of_the_download_leaves_nothing_half(place: Place, case: str) -> None:
    harm, sentence = FETCHING[case]
    assert re.fullmatch(sentence, told(partial(place.install, harm)))
    assert not list(installations_folder(place.engines).glob("*"))
    if case in ("cut", "hash", "garbled"):
        place.index.mend()
        place.install()


def test_failures_of_a_folder_of_wheels(place: Place) -> None:
    place.want(folder=place.wheels)
    assert re.fullmatch(
        rf"{re.escape(TORCH)} cannot be unpacked: .*\. The wheel is damaged\. Copy it there again\.",
        told(partial(place.install, cut_wheel)),
    )
    write_wheels(place.wheels)
    gone = told(partial(place.install, lambda place: (place.wheels / TORCH).unlink()))
    assert gone.startswith(f"The package torch is not in the folder {place.wheels}. Copy its wheel for ")


FULL = """\
error: Failed to download `torch==2.15.0`
  cause: Failed to extract archive: torch-2.15.0-py3-none-any.whl
  cause: I/O operation failed during extraction
  cause: failed to write to file `/e/cache/.tmp7xIjEw/torch/lib/part20.bin`: \
No space left on device (os error 28)
"""


def test_a_long_path_on_a_line_of_its_own_names_its_wheel(tmp_path: Path) -> None:
    said = (
        "error: Failed to download `torch==2.15.0`\n  cause: Failed to extract archive:\n"
        "    /a/long/folder of/wheels/torch-2.15.0-py3-none-any.whl\n"
        "  cause: Invalid zip file structure\n    unable to locate the end of central directory record\n"
    )
    assert explained(said, Source(folder=tmp_path), tmp_path).message == (
        "torch-2.15.0-py3-none-any.whl cannot be unpacked: Invalid zip file structure unable to locate the "
        "end of central directory record."
    )


def test_a_full_disk_is_not_blamed_on_the_wheel(tmp_path: Path) -> None:
    problem = explained(FULL, Source(), tmp_path)
    assert (problem.kind, problem.message) == (Kind.DISK_FULL, f"The disk is full at {tmp_path}.")


def test_a_wheel_with_a_file_twice_is_not_blamed_on_the_folder(place: Place) -> None:
    stand_in_wheel(place.wheels, "torch", "2.15.0", {"torch/away": "", "torch/away/below.py": ""})
    # what uv says depends on which of its threads was first
    assert re.fullmatch(
        rf"({re.escape(TORCH)}|A wheel) cannot be unpacked: (File exists|Is a directory)\. .*",
        told(place.install),
    )


def test_a_read_only_folder_is_refused(place, read_only):
    place.engines.mkdir()
    with read_only(place.engines):
        assert "Permission denied" in told(place.install)
    assert not list(place.engines.iterdir())


def test_one_installation_at_a_time(place: Place) -> None:
    with sole(place.engines):
        assert "Another Ammeter process" in told(place.install)


def test_uv_that_is_missing_is_named(place: Place) -> None:
    assert find_uv().name.startswith("uv")
    place.patch.setenv("PATH", str(place.wheels))
    with pytest.raises(ProblemError, match=r"uv, which installs PyTorch, is missing"):
        find_uv()


def told(install: Callable[[], None]) -> str:
    """The sentence and the remedy with which an installation fails."""
    with pytest.raises(ProblemError) as failed:
        install()
    return f"{failed.value.problem.message} {failed.value.problem.remedy}"
