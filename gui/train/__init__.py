"""The page of runs in progress."""
