"""A script of the user's own: the command that is started, and what is observed in its processes."""
