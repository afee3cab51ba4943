"""The guided measurement of a race, "Show me"."""
