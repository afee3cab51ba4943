"""A run on several devices, as a single one of its processes sees it."""
