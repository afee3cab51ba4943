"""The precision map, as a tree of modules and a table of their operations."""
