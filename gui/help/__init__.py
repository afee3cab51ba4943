"""The guide and the About dialog."""
