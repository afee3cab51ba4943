"""The workspace Memory limit."""
