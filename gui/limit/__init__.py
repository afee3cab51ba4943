"""The page Largest batch."""
