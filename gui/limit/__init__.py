"""The page of the limit: the largest batch that fits."""
