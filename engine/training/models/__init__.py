"""The networks, their losses, and what is done to their modules."""
