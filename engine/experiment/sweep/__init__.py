"""Several experiments at once: a grid of settings, and in which order it is trained."""
