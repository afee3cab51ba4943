"""A run on multiple devices, as one of its processes sees it."""
