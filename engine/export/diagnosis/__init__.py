"""A saved diagnosis of numerics as tables, data and a report."""
