"""The page of a comparison: live metrics, then its result."""
