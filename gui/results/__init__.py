"""The place Results: everything saved at the left, the opened item at the right."""
