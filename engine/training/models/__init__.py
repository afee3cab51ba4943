"""The networks, their losses, and changes to their modules."""
