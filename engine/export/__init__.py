"""Exports results as reports, tables, images, scripts, archives and more. Imports neither torch nor Qt."""
