"""The place Results: everything saved at the left, what is opened of it at the right."""
