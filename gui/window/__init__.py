"""The window around the three places."""
