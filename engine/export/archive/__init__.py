"""Reads and writes archives of complete runs (.ammeter, a zip file). Archives are untrusted input."""

ARCHIVE_SUFFIX = ".ammeter"
