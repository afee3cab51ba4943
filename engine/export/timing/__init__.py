"""A saved timing as tables, data, a report and traces."""
