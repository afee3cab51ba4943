"""Folded away below the figures: published figures."""
