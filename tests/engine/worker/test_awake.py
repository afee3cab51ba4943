from __future__ import annotations

import pytest
import wakepy

from engine.worker.launcher import kept_awake


def test_the_machine_is_kept_awake_only_while_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEPY_FAKE_SUCCESS", "1")
    with kept_awake() as is_kept:
        assert is_kept
        assert len(wakepy.global_modes()) == 1
    assert wakepy.global_modes() == []


def test_a_system_that_refuses_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEPY_FORCE_FAILURE", "1")
    with kept_awake() as is_kept:
        assert not is_kept
