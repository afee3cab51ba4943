"""The window around the workspaces."""
