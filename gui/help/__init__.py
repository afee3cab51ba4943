"""The guide (the built-in documentation) and the About dialog."""
