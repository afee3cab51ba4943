"""How numbers are written, and what settings, recipes and statuses are called."""
