"""Converts each kind of result (limit, numerics, profile, sweep, tuning) to a document for export."""
