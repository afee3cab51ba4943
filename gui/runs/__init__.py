"""The table of saved runs; their export and import."""
