"""Charts and races as pictures."""
