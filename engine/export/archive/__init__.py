"""Complete runs in an archive, a zip file that is read as untrusted."""

ARCHIVE_SUFFIXES = (".ammeter", ".zip")
"""The endings of an archive's path, the usual one first; version 0.1 wrote the other."""
