"""Numbers as text, and the names of settings, recipes and units."""
