"""The page Largest batch: search, result and trials."""
