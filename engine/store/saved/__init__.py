"""Saved searches, diagnoses and timings."""
