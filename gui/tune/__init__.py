"""The page Tune, which searches for the settings that train a model fastest on this machine."""
