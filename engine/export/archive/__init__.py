"""Whole runs in an archive, which is a zip file: written here, and read as an untrusted file."""

ARCHIVE_SUFFIXES = (".ammeter", ".zip")
"""The endings of an archive's path, the usual one first; version 0.1 wrote the other."""
