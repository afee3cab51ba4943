"""The place Show."""
