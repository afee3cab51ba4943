"""Fetching from package indexes: connections, resumable downloads, and uv."""
