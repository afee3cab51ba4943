"""A package index on 127.0.0.1, with faults on order, and a proxy that stands in for the official indexes.

Both serve a folder: its wheels as PyPI's, and those in `folder/cu130` as PyTorch's builds for cu130.
"""

from __future__ import annotations

import hashlib
import json
import ssl
import threading
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import quote, unquote, urlsplit

import trustme

_PIECE_BYTES = 64 * 1024
_SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"


@dataclass
class Fault:
    """What goes wrong with answers for paths that contain `path`, except for wheels' metadata.

    `status` is answered in place of the content, with `headers`; `refuses` closes the connection without an
    answer; `cut_after` closes it after so many bytes of content. `held` keeps the content back until it is
    set, from byte `cut_after` on if that is given. `garbles` sends other bytes of the same length;
    `ignores_ranges` sends a file from its beginning. `times` is how many answers it concerns, None for all.
    """

    path: str = ".whl"
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    refuses: bool = False
    cut_after: int | None = None
    held: threading.Event | None = None
    garbles: bool = False
    ignores_ranges: bool = False
    times: int | None = None


@dataclass(frozen=True)
class Request:
    """A request; `first_byte` is the start of its range, `etag` what the client has of it."""

    method: str
    path: str
    first_byte: int | None
    etag: str | None


class WheelIndex:
    """Serves a folder of wheels; `with WheelIndex(folder) as index:` and then `index.simple`."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.folder = folder
        self.requests: list[Request] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.index = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def simple(self) -> str:
        """The index's address, as uv and pip want it."""
        return f"{self.address}/simple/"

    def order(self, fault: Fault) -> Fault:
        """From now on this goes wrong; of several that concern a path the first ordered."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def mend(self) -> None:
        """Nothing goes wrong any more; answers that are held back go on."""
        with self._lock:
            faults, self._faults = self._faults, []
        for fault in faults:
            if fault.held is not None:
                fault.held.set()

    def fetched(self) -> list[str]:
        """The names of the wheels that were asked for with GET by a client without them, in order."""
        return [
            unquote(request.path).rpartition("/")[2]
            for request in self.requests
            if request.method == "GET" and request.path.endswith(".whl") and request.etag is None
        ]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.mend()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _fault_for(self, path: str) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.path in unquote(path) and fault.times != 0 and not path.endswith(".metadata"):
                    if fault.times is not None:
                        fault.times -= 1
                    return fault
        return None

    def tls(self, host: str) -> ssl.SSLContext | None:
        """What a CONNECT to `host` is answered with; None if this is no proxy for it."""
        return None

    needs_password = False


class OfficialIndexes(WheelIndex):
    """A proxy behind which every host is the folder: those of PyPI and of PyTorch's own index.

    Give a process `environment(folder)`. `is_trusted = False` shows certificates of another authority;
    `needs_password = True` answers 407.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.is_trusted = True
        self._authority, self._stranger = trustme.CA(), trustme.CA()

    def environment(self, scratch: Path) -> dict[str, str]:
        """The variables that lead uv and Python here; `scratch` gets the authority's certificate."""
        certificate = scratch / "authority.pem"
        self._authority.cert_pem.write_to_path(str(certificate))
        proxy = dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY"), self.address)
        return proxy | {"SSL_CERT_FILE": str(certificate), "NO_PROXY": "", "no_proxy": ""}

    def tls(self, host: str) -> ssl.SSLContext | None:
        """The host's certificate, made for the occasion."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        (self._authority if self.is_trusted else self._stranger).issue_cert(host).configure_cert(context)
        return context


def stand_in_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str | bytes] | None = None,
    requires: Sequence[str] = (),
) -> Path:
    """Writes a wheel with `files`, by default a package that only tells its version, and returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    module = name.replace("-", "_")
    if files is None:
        files = {f"{module}/__init__.py": f"__version__ = {version!r}\n"}
    info = f"{module}-{version}.dist-info"
    needed = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    contents = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    contents[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}".encode()
    )
    contents[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{path},sha256={_record_hash(text)},{len(text)}\n" for path, text in contents.items())
    contents[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, text in contents.items():
            wheel.writestr(zipfile.ZipInfo(member), text)
    return path


def _record_hash(content: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    index: WheelIndex

    def handle_error(self, *_: object) -> None:
        """Nothing: clients leave whenever they like."""


@dataclass(frozen=True)
class _Answer:
    content: bytes | Path
    type: str = "application/octet-stream"
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return self.content.stat().st_size if isinstance(self.content, Path) else len(self.content)

    def pieces(self, first: int, last: int) -> Iterator[bytes]:
        """The bytes from `first` to `last`, both inclusive."""
        if isinstance(self.content, bytes):
            yield self.content[first : last + 1]
            return
        with self.content.open("rb") as file:
            file.seek(first)
            while first <= last:
                piece = file.read(min(_PIECE_BYTES, last + 1 - first))
                first += len(piece)
                yield piece


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_CONNECT(self) -> None:
        host = self.path.partition(":")[0]
        if self.server.index.needs_password:
            self._say(HTTPStatus.PROXY_AUTHENTICATION_REQUIRED, {"Proxy-Authenticate": 'Basic realm="proxy"'})
            return
        context = self.server.index.tls(host)
        if context is None:
            self._say(HTTPStatus.BAD_GATEWAY)
            return
        self.send_response(HTTPStatus.OK)
        self.end_headers()
        self.connection = self.request = context.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
        self.close_connection = False

    def finish(self) -> None:
        super().finish()
        # a connection inside the proxy's is another socket than the one that the server closes
        self.connection.close()

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        """Nothing: the index keeps the requests."""

    def _answer(self) -> None:
        index, path, first = self.server.index, urlsplit(self.path).path, self._first_and_last()[0]
        request = Request(self.command, path, first, self.headers["If-None-Match"])
        index.requests.append(request)
        fault = index._fault_for(path) or Fault()
        answer = self._found([unquote(part) for part in path.split("/") if part])
        if fault.refuses:
            self.close_connection = True
        elif fault.status is not None or answer is None:
            self._say(fault.status or HTTPStatus.NOT_FOUND, fault.headers)
        elif "ETag" in answer.headers and answer.headers["ETag"] == request.etag:
            self._say(HTTPStatus.NOT_MODIFIED, answer.headers)
        else:
            self._send(answer, fault)

    def _send(self, answer: _Answer, fault: Fault) -> None:
        size = answer.size
        first, last = (None, None) if fault.ignores_ranges else self._first_and_last()
        if first is not None and first >= size:
            self._say(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, {"Content-Range": f"bytes */{size}"})
            return
        headers = {"Content-Type": answer.type, "Accept-Ranges": "bytes"} | answer.headers
        if first is not None:
            last = size - 1 if last is None else min(last, size - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        begin, end = first or 0, size - 1 if last is None else last
        headers["Content-Length"] = str(end + 1 - begin)
        self.send_response(HTTPStatus.OK if first is None else HTTPStatus.PARTIAL_CONTENT)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self._send_content(answer.pieces(begin, end), fault)

    def _send_content(self, pieces: Iterator[bytes], fault: Fault) -> None:
        left = fault.cut_after
        for piece in pieces:
            content = bytes(byte ^ 0xFF for byte in piece) if fault.garbles else piece
            if left is not None and len(content) >= left:
                self.wfile.write(content[:left])
                if fault.held is None:
                    self.close_connection = True
                    return
                fault.held.wait()
                content, left = content[left:], None
            elif left is None and fault.held is not None:
                fault.held.wait()
            if left is not None:
                left -= len(content)
            self.wfile.write(content)

    def _say(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _first_and_last(self) -> tuple[int | None, int | None]:
        unit, _, span = self.headers.get("Range", "").partition("=")
        first, _, last = span.partition("-")
        return (int(first), int(last) if last else None) if unit == "bytes" and first else (None, None)

    def _found(self, parts: list[str]) -> _Answer | None:
        folder = self.server.index.folder
        match parts:
            case ["packages", filename]:
                return _file(folder, filename)
            case ["whl", backend, filename] if ".whl" in filename:
                return _file(folder / backend, filename)
            case ["simple", name]:
                return self._listing(folder, name, "/packages")
            case ["whl" | "simple", backend, name]:
                return self._listing(folder / backend, name, f"/whl/{quote(backend)}")
        return None

    def _listing(self, folder: Path, name: str, files: str) -> _Answer | None:
        wheels = [
            path for path in sorted(folder.glob("*.whl")) if _normal(path.name.split("-")[0]) == _normal(name)
        ]
        if not wheels:
            return None
        if _SIMPLE_JSON in self.headers.get("Accept", "") and not folder.name.startswith(
            ("cu", "cpu", "rocm", "xpu")
        ):
            entries = [
                {
                    "filename": path.name,
                    "url": f"{files}/{quote(path.name)}",
                    "hashes": {"sha256": _sha256(path, path.stat().st_mtime_ns)},
                    "size": path.stat().st_size,
                    "core-metadata": True,
                }
                for path in wheels
            ]
            page = {"meta": {"api-version": "1.1"}, "name": _normal(name), "files": entries}
            return _Answer(json.dumps(page).encode(), _SIMPLE_JSON)
        links = "".join(
            f'<a href="{files}/{quote(path.name)}#sha256={_sha256(path, path.stat().st_mtime_ns)}" '
            f'data-core-metadata="true">{escape(path.name)}</a><br>\n'
            for path in wheels
        )
        return _Answer(f"<!DOCTYPE html><html><body>\n{links}</body></html>\n".encode(), "text/html")


def _file(folder: Path, filename: str) -> _Answer | None:
    wheel = folder / filename.removesuffix(".metadata")
    if not wheel.is_file() or wheel.parent != folder:
        return None
    if filename.endswith(".whl"):
        return _Answer(wheel, headers={"ETag": f'"{wheel.stat().st_mtime_ns:x}"'})
    with zipfile.ZipFile(wheel) as archive:
        member = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return _Answer(archive.read(member), "text/plain")


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


@cache
def _sha256(path: Path, _mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
