"""The page Tune: what may be changed, the tuning as it goes on, and its outcome."""
