"""Connections to a package server, with the system's proxies and certificates, that can be closed early."""

from __future__ import annotations

import base64
import http.client
import os
import socket
import ssl
import threading
import urllib.error
import urllib.request
import weakref
from contextlib import suppress
from functools import cached_property
from http.client import HTTPMessage, HTTPResponse
from typing import IO, Any
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import Request

from engine import __version__
from engine.experiment.problem import Problem, ProblemError
from engine.installation import problems

_PATIENCE_SECONDS = 30.0
_FORBIDS = (401, 403)
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_TUNNEL = "Tunnel connection failed: "  # how http.client begins what a proxy answered


class Broken(Exception):  # noqa: N818 - it is tried again
    """Raised if a connection failed but a retry may work. str() is a sentence without its period."""


class RefusedError(ProblemError):
    """Raised if the server of a package index requires a name and a password, or denies access."""


class Connections:
    """Opens HTTP connections for downloads. `close` ends all of them, also while another thread reads.

    The user name and password in the address `mirror` are sent to its host.
    """

    def __init__(self, mirror: str | None = None) -> None:
        self._mirror = urlsplit(mirror or "")
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._lock = threading.Lock()

    def open(self, address: str, headers: dict[str, str]) -> HTTPResponse:
        """Return the server's answer. Raises Broken, and ProblemError where retrying would not help."""
        parts = urlsplit(address)
        host = parts.hostname or address
        request = Request(address, headers={"User-Agent": f"Ammeter/{__version__}", **headers})
        if self._mirror.username and parts.hostname == self._mirror.hostname:
            name_and_password = f"{unquote(self._mirror.username)}:{unquote(self._mirror.password or '')}"
            encoded = base64.b64encode(name_and_password.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {encoded}")
        try:
            answer = self._opener.open(request, timeout=_PATIENCE_SECONDS)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in _PASSING:
                raise Broken(f"{host} answered with HTTP {error.code}") from None
            if error.code in _FORBIDS:
                raise RefusedError(problems.refused(host, error.code)) from None
            raise ProblemError(_of_status(error.code, address, host)) from None
        except ValueError as error:  # what it redirects to is no address, or no name of a server
            raise ProblemError(problems.no_address(host)) from error
        except (OSError, http.client.HTTPException) as error:
            raise self.broken(error, host) from error
        assert isinstance(answer, HTTPResponse)
        return answer

    def broken(self, error: Exception, host: str) -> Broken | ProblemError:
        """Return the exception that explains why a connection ended."""
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        text = str(reason)
        if isinstance(reason, ssl.SSLCertVerificationError):
            return ProblemError(problems.untrusted(host))
        if text.startswith(f"{_TUNNEL}407"):
            return ProblemError(problems.proxy_refused())
        if text.startswith(_TUNNEL):
            return Broken(f"the proxy does not connect to {host}")
        if isinstance(reason, TimeoutError):
            return Broken(f"{host} does not answer")
        if isinstance(reason, ConnectionRefusedError | socket.gaierror):
            return Broken(f"{host} cannot be reached")
        return Broken(f"the connection to {host} was lost")

    def close(self) -> None:
        """Close all connections, also those that another thread reads from."""
        with self._lock:
            for connection in list(self._sockets):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    @cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        lock, sockets = self._lock, self._sockets

        def kept(kind: Any) -> Any:
            class Kept(kind):  # type: ignore[misc] # either kind of connection
                def connect(self) -> None:
                    super().connect()
                    with lock:
                        sockets.add(self.sock)

            return Kept

        class PlainHandler(urllib.request.HTTPHandler):
            def http_open(self, req: Request) -> HTTPResponse:
                return self.do_open(kept(http.client.HTTPConnection), req)

        class EncryptedHandler(urllib.request.HTTPSHandler):
            def https_open(self, req: Request) -> HTTPResponse:
                return self.do_open(kept(http.client.HTTPSConnection), req, context=_trust())

        return urllib.request.build_opener(PlainHandler, EncryptedHandler, _Redirection)


class _Redirection(urllib.request.HTTPRedirectHandler):
    """Follows redirections to HTTP addresses only, not to FTP. Raises ValueError for others."""

    def http_error_302(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage) -> Any:
        address = headers.get("Location") or headers.get("URI") or req.full_url
        with suppress(ValueError):
            if is_address(urljoin(req.full_url, address)):
                return super().http_error_302(req, fp, code, msg, headers)
        fp.close()
        raise ValueError(address)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def is_address(text: str) -> bool:
    """Return True for an HTTP or HTTPS address."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the port, or of an IPv6 address
        return False


def _of_status(status: int, address: str, host: str) -> Problem:
    if status == http.client.PROXY_AUTHENTICATION_REQUIRED:
        return problems.proxy_refused()
    if status in (http.client.NOT_FOUND, http.client.GONE):
        file = unquote(urlsplit(address).path.rpartition("/")[2])
        remedy = f"Check the mirror's address, if you use one, or {problems.OTHER_SOURCE}."
        return problems.download(f"{file} is not at {host} (HTTP 404).", remedy)
    return problems.answered(host, status)


def _trust() -> ssl.SSLContext:
    """Return the system's certificates, which Python itself finds on few systems, or the user's."""
    if "SSL_CERT_FILE" in os.environ or "SSL_CERT_DIR" in os.environ:
        return ssl.create_default_context()
    import truststore

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
