"""Smoothing of a noisy curve, the same in the window as in a report."""

from __future__ import annotations

from engine.exports.smoothing import Values, extended, local_line

__all__ = ["Values", "extended", "local_line"]
