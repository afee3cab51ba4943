"""What the pages of the engine say of the network, which names no password."""

from __future__ import annotations

import pytest

from gui.installation.words import network_text, without_password


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, ""),
        ({"HTTPS_PROXY": "http://me:secret@proxy:3128"}, "Through the proxy http://proxy:3128 (HTTPS_PROXY)"),
        ({"https_proxy": "me:secret@proxy:3128"}, "Through the proxy proxy:3128 (https_proxy)"),
        ({"SSL_CERT_FILE": "/own.pem"}, "Certificates of /own.pem (SSL_CERT_FILE)"),
    ],
)
def test_proxy_and_certificates_in_force_are_told(environment: dict[str, str], words: str) -> None:
    assert network_text(environment) == words


def test_a_mirror_is_remembered_without_its_password() -> None:
    assert without_password("https://me:secret@wheels.example/simple") == "https://wheels.example/simple"
