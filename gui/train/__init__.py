"""The page of a comparison: live, then its answer."""
