"""The page Largest batch: the search for the largest batch size that fits in memory, and its trials."""
