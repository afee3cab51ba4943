"""Whole runs as a `.zip`: written here, and read as an untrusted file."""
