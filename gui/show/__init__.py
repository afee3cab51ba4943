"""The workspace Show."""
