"""An experiment's numerics, in the worker: each part watches steps of short runs."""
