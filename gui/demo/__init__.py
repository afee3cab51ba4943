"""The page Demo, which replays two runs side by side and measures them first if needed."""
