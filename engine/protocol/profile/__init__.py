"""Profiles as values that worker, store, exports and window exchange."""
