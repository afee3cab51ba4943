"""The workspace Train."""
