"""The page Tune: the settings to try, the progress, and the result."""
