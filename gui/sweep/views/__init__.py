"""The pictures of a sweep and the table of its cells, each with its choosers."""
